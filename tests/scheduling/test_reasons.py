"""Why not: every refusal names one dominant cause, with numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allaboard.scheduling import surroundings
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.demands import read
from allaboard.scheduling.facts import (
    Constraint,
    Demand,
    Node,
    PodSet,
    Queue,
    Requirement,
    Share,
    Status,
    SubGroup,
    Taint,
    Task,
    Topology,
    World,
)
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.selfcheck import differences
from allaboard.scheduling.state import State
from tests.scheduling.worlds import NOW, ROOM, decide, gang, node, wish, world

Q = (Queue("q", gpu=Share(100.0)),)


def reason_of(facts: World, name: str = "x"):
    return decide(facts).reasons[name]


CASES = {
    # world, then code, verdict, message
    "too little is free": (
        world("a:4/2", "x:4x1"),
        "InsufficientResource", "Waiting", "2 of 4 tasks fit (1 gpu each); needs 4 gpu, 2 free",
    ),
    "enough is free but in pieces": (
        world("a:2/1 b:2/1", "x:1x2"),
        "Fragmented", "Waiting",
        "0 of 1 tasks fit (2 gpu each); enough is free in total, but not enough on single nodes",
    ),
    "a pod larger than any node": (
        world("a:2 b:4", "x:1x8"),
        "NeverFits", "Impossible",
        "0 of 1 tasks fit (8 gpu each); no node is large enough for one of them, even when empty (largest: 4 gpu)",
    ),
    "a gang larger than the cluster": (
        world("a:2", "x:3x1"),
        "NeverFits", "Impossible", "2 of 3 tasks fit (1 gpu each); an empty cluster has room for only 2",
    ),
    "no nodes at all": (
        World(queues=Q, gangs=(gang("x"),)),
        "NodesUnready", "Blocked", "0 of 1 tasks fit (1 gpu each); the cluster has no nodes",
    ),
    "a queue that is not there": (
        replace(world("a:2"), gangs=(gang("x", queue="nope"),)),
        "QueueDoesNotExist", "Blocked", 'queue "nope" does not exist; there are: q',
    ),
    "a queue with children": (
        World((node("a"),), (Queue("top"), Queue("leaf", "top")), (gang("x", queue="top"),)),
        "QueueNotLeaf", "Blocked", 'queue "top" has child queues and cannot hold jobs; use one of: leaf',
    ),
    "a queue whose parent is missing": (
        World((node("a"),), (Queue("q", "gone"),), (gang("x"),)),
        "QueueDoesNotExist", "Blocked", 'queue "q" cannot be used: parent queue "gone" of "q" does not exist',
    ),
    "queues in a circle": (
        World((node("a"),), (Queue("q", "r"), Queue("r", "q")), (gang("x"),)),
        "QueueDoesNotExist", "Blocked", 'queue "q" cannot be used: queue "q" is its own ancestor',
    ),
    "pods that do not exist yet": (
        replace(world("a:8"), gangs=(gang("x", 2, least=4),)),
        "GangIncomplete", "Waiting", '2 of 4 needed pods of "default" exist',
    ),
    "work that may not be evicted beyond the quota": (
        World((node("a"),), (Queue("q", gpu=Share(1.0)),), (gang("x", 2, priority=100, preemptible=False),)),
        "NonPreemptibleOverQuota", "Impossible",
        'needs 2 gpu, but queue "q" may use 1 more: it holds 0 of its quota for non-preemptible work 1',
    ),
    "a parent at its limit": (
        World((node("a"),), (Queue("p", gpu=Share(9.0, 1.0)), Queue("q", "p", gpu=Share(9.0))), (gang("x", 2),)),
        "ParentOverLimit", "Impossible", 'needs 2 gpu, but queue "p" may use 1 more: it holds 0 of its limit 1',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "code", "verdict", "message"), CASES.values(), ids=CASES)
def test_reasons(facts, code, verdict, message):
    reason = reason_of(facts)
    assert (reason.code, reason.verdict, reason.message) == (code, verdict, message)


def part(nodes: str, **fact: object) -> World:
    """A pod that wants a part of GPUs, on nodes that all have the same to say."""
    wants = Demand({"cpu": 1000.0, "memory": 1e9}, **fact.pop("wants"))  # type: ignore[arg-type]
    facts = world(nodes)
    waiting = replace(gang("x", created=1.0), tasks=(Task("x-0", wants),))
    return replace(facts, nodes=tuple(replace(each, **fact) for each in facts.nodes), gangs=(*facts.gangs, waiting))


LARGE, HALF = {"gpu_memory": 200}, {"portion": 0.5}
NO_NODE = "no node is large enough for one of them, even when empty"
PARTS = {
    "more memory than any GPU has": (
        part("a:2", wants=LARGE),
        "NeverFits", f"0 of 1 tasks fit (200 MiB of a gpu each); {NO_NODE}",
    ),
    "parts of more GPUs than a node has": (
        part("a:2", wants={**HALF, "gpu_devices": 9}),
        "NeverFits", f"0 of 1 tasks fit (0.5 of a gpu each); {NO_NODE}",
    ),
    "a part while all are taken": (
        part("a:1/1", wants=HALF),
        "InsufficientResource", "0 of 1 tasks fit (0.5 of a gpu each); needs 0.5 gpu, 0 free",
    ),
    "an amount of memory where nobody knows how much there is": (
        part("a:2", wants=LARGE, gpu_memory_known=False),
        "NeverFits",
        "0 of 1 tasks fit (200 MiB of a gpu each); "
        "none of 1 matching nodes says how much memory its GPUs have (label nvidia.com/gpu.memory)",
    ),
    "a part where GPUs are cut into slices": (
        part("a:2 b:2", wants=HALF, mig="mixed"),
        "NeverFits",
        "0 of 1 tasks fit (0.5 of a gpu each); "
        "none of 2 matching nodes hands out GPUs that way: they are split (MIG) or given by claims",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "code", "message"), PARTS.values(), ids=PARTS)
def test_parts_of_gpus(facts, code, message):
    decisions = decide(facts)
    assert not decisions.binds
    assert (decisions.reasons["x"].code, decisions.reasons["x"].message) == (code, message)


def asking(**demand: object) -> World:
    """One pod with more to say about where it goes."""
    made = gang("x")
    task = replace(made.tasks[0], demand=replace(wish(), **demand))
    return replace(world("a:2 b:2"), gangs=(replace(made, tasks=(task,)),))


def test_a_selector_that_matches_nothing():
    reason = reason_of(asking(selector=(Requirement("disk", "In", ("ssd",)),)))
    assert reason.code == "NodeSelectorMismatch"
    assert reason.nodes == {"node(s) didn't match Pod's node affinity/selector": 2}


def test_taints_nobody_tolerates():
    facts = asking()
    tainted = tuple(replace(each, taints=(Taint("k", "v"),)) for each in facts.nodes)
    reason = reason_of(replace(facts, nodes=tainted))
    assert (reason.code, reason.nodes) == ("Tainted", {"node(s) had untolerated taint(s)": 2})


def test_cordoned_nodes():
    facts = asking()
    reason = reason_of(replace(facts, nodes=tuple(replace(each, unschedulable=True) for each in facts.nodes)))
    assert (reason.code, reason.nodes) == ("NodesUnready", {"node(s) were unschedulable": 2})


def test_a_defect_no_eviction_can_mend():
    reason = reason_of(asking(obstacle='persistentvolumeclaim "data" not found'))
    assert (reason.code, reason.verdict, reason.message) == (
        "VolumeMount", "Blocked", 'persistentvolumeclaim "data" not found',
    )  # fmt: skip


def test_gated_pods_are_named():
    made = gang("x", 2)
    tasks = (made.tasks[0], replace(made.tasks[1], status=Status.GATED))
    reason = reason_of(replace(world("a:8"), gangs=(replace(made, tasks=tasks),)))
    assert (reason.code, reason.message) == (
        "SchedulingGated",
        '1 pod is held by scheduling gates; 1 of 2 needed pods of "default" may start',
    )


def test_a_gang_behind_gates_as_a_whole_says_so_until_they_are_lifted():
    made = gang("x", 2, 1.0)
    held = replace(made, tasks=tuple(replace(task, status=Status.GATED) for task in made.tasks))
    state = State.build(replace(world("a:8"), gangs=(held,)))
    for _ in range(2):
        reason = cycle(state, DEFAULT, NOW).reasons["x"]
        assert (reason.code, reason.verdict) == ("SchedulingGated", "Blocked")
        assert reason.message == '2 pods are held by scheduling gates; 0 of 2 needed pods of "default" may start'
        assert reason.unblock == ("whoever set spec.schedulingGates on its pods takes them off",)
    for task in made.tasks:
        state.put_task("x", task)
    decisions = cycle(state, DEFAULT, NOW)
    assert (len(decisions.binds), decisions.reasons) == (2, {})


def test_gated_pods_beyond_the_minimum_are_no_reason_to_wait():
    made = gang("x", 2, at="a", least=1)
    tasks = (made.tasks[0], replace(made.tasks[1], status=Status.GATED))
    assert not decide(replace(world("a:8"), gangs=(replace(made, tasks=tasks),))).reasons


def test_a_topology_level_that_is_too_small():
    tree = SubGroup(pod_sets=(PodSet(minimum=4),), constraint=Constraint("t", required="rack"))
    nodes = tuple(node(f"n{i}", 2.0, labels={"rack": f"r{i}"}) for i in range(3))
    facts = World(nodes, Q, (gang("x", 4, tree=tree),), (Topology("t", ("rack",)),))
    reason = reason_of(facts)
    assert (reason.code, reason.message) == (
        "TopologyUnsatisfiable", "3 of 4 tasks fit (1 gpu each); no single rack has room for all of them",
    )  # fmt: skip


def test_a_missing_topology_is_a_reason_and_others_go_on():
    tree = SubGroup(pod_sets=(PodSet(),), constraint=Constraint("nowhere", required="rack"))
    facts = replace(world("a:2"), gangs=(gang("x", tree=tree), gang("y", created=1.0)))
    decisions = decide(facts)
    assert decisions.reasons["x"].code == "TopologyUnsatisfiable"
    assert 'topology "nowhere" does not exist' in decisions.reasons["x"].message
    assert [bind.gang for bind in decisions.binds] == ["y"]


def test_a_queue_with_its_share_waits_for_others():
    queues = (Queue("q", gpu=Share(2.0, weight=0.0)), Queue("r", gpu=Share(2.0, weight=0.0), created=1.0))
    gangs = (gang("mine", 2, at="a a"), gang("theirs", 2, at="a a", queue="r"), gang("x", created=1.0))
    reason = reason_of(World((node("a", 4.0),), queues, gangs))
    assert reason.code == "FairShare"
    said = 'queue "q" holds 2 gpu (2 deserved, 0 borrowed), and 1 more would be 1 above its fair share 2'
    assert said in reason.message
    assert reason.unblock[-1] == 'raise spec.resources.gpu.quota of queue "q" (now 2)'
    assert [holder.gang for holder in reason.held_by] == ["mine", "theirs"]


OWNERS = {
    "nobody else holds anything": ((), "InsufficientResource"),
    "others hold too little to matter": ((gang("theirs", at="b", queue="r"),), "InsufficientResource"),
    "others hold what is missing": ((gang("theirs", 8, at="b b b b c c c c", queue="r"),), "FairShare"),
}


@pytest.mark.parametrize(("others", "code"), OWNERS.values(), ids=OWNERS)
def test_it_is_a_matter_of_shares_only_where_others_hold_what_is_missing(others, code):
    queues = (Queue("q", gpu=Share(4.0, weight=0.0)), Queue("r", gpu=Share(4.0, weight=0.0), created=1.0))
    gangs = (gang("mine", 4, at="a a a a"), *others, gang("x", 5, created=1.0))
    names = {place for each in gangs for task in each.tasks if (place := task.node)} | {"b"}
    reason = reason_of(World(tuple(node(name, 4.0) for name in names), queues, gangs))
    assert reason.code == code and reason.needs["gpu"] == 5.0


def test_the_place_in_the_queue_is_counted():
    facts = world("a:1", "x:1x1 y:1x1 z:1x1")
    reasons = decide(facts).reasons
    assert [(reasons[name].position, reasons[name].overall) for name in "yz"] == [(1, 1), (2, 2)]


def test_promised_room_is_reserved():
    facts = world("a:2")
    leaving = gang("old", 2, at="a a")
    leaving = replace(leaving, tasks=tuple(replace(task, status=Status.RELEASING) for task in leaving.tasks))
    reason = reason_of(replace(facts, gangs=(leaving, gang("x", 2, created=1.0))))
    assert (reason.code, reason.message) == ("Reserved", "2 tasks will start on a when what is leaving there is gone")


def test_objections_use_the_words_of_kube_scheduler():
    small = Node("tiny", {**ROOM, "cpu": 100.0, "gpu": 2.0})
    facts = World((small, node("a", 0.0)), Q, (gang("x"),))
    assert reason_of(facts).nodes == {"Insufficient cpu": 1, "Insufficient nvidia.com/gpu": 1}


def test_numbers_are_plain_numbers():
    reason = reason_of(world("a:4/2", "x:4x1"))
    assert {type(value) for value in (*reason.needs.values(), *reason.free.values())} == {float}


def test_a_node_with_many_labels_is_no_trouble():
    crowded = node("a", 2.0, labels={f"label-{i}": str(i) for i in range(10_000)})
    facts = World((crowded,), Q, (gang("x"),))
    assert decide(facts).binds


def test_a_negative_quota_other_than_unlimited_gives_nothing_away():
    facts = World((node("a", 2.0),), (Queue("q", gpu=Share(-5.0)), Queue("r", created=1.0)), (gang("x", queue="r"),))
    assert [bind.gang for bind in decide(facts).binds] == ["x"]


def test_a_task_without_requests_has_no_numbers_to_show():
    empty = Task("x-0", Demand())
    facts = World((), Q, (replace(gang("x"), tasks=(empty,)),))
    assert reason_of(facts).message == "0 of 1 tasks fit; the cluster has no nodes"


def test_names_that_are_the_same_in_two_namespaces_are_two_gangs():
    gangs = (gang("one/x", 2, created=1.0), gang("two/x", 3, created=2.0))
    decisions = decide(World((node("a", 4.0),), (Queue("q", gpu=Share(9.0)),), gangs))
    assert {bind.gang for bind in decisions.binds} == {"one/x"}
    assert set(decisions.reasons) == {"two/x"}


def test_a_node_that_vanishes_after_a_cycle_leaves_its_pods_nowhere_and_the_others_go_on():
    state = State.build(
        World((node("a", 2.0), node("b", 1.0)), (Queue("q", gpu=Share(9.0)),), (gang("x", 2), gang("y")))
    )
    cycle(state, DEFAULT, NOW)
    surroundings.drop_node(state, "a")
    for name in ("x-0", "x-1"):
        state.put_task("x", Task(name, wish()))
    decisions = cycle(state, DEFAULT, NOW + 1)
    assert not decisions.binds and decisions.reasons["x"].code == "NeverFits"
    assert differences(state) == []


# --- every code a cycle can give ---


def _leaving(name: str, count: int, at: str):
    made = gang(name, count, at=at)
    return replace(made, tasks=tuple(replace(task, status=Status.RELEASING) for task in made.tasks))


def _half_gated(made):
    return replace(made, tasks=(made.tasks[0], replace(made.tasks[1], status=Status.GATED)))


IN_RACK = SubGroup(pod_sets=(PodSet(minimum=3),), constraint=Constraint("t", required="rack"))
SMALL = (Queue("q", gpu=Share(9.0, 1.0)),)
EVERY: dict[str, World] = {
    "InsufficientResource": world("a:4/2", "x:4x1"),
    "Fragmented": world("a:2/1 b:2/1", "x:1x2"),
    "NeverFits": world("a:2", "x:3x1"),
    "FairShare": World(
        (node("a", 4.0),),
        (Queue("q", gpu=Share(2.0, weight=0.0)), Queue("r", gpu=Share(2.0, weight=0.0), created=1.0)),
        (gang("mine", 2, at="a a"), gang("theirs", 2, at="a a", queue="r"), gang("x", created=1.0)),
    ),
    "BehindPriority": World((node("a", 1.0),), Q, (gang("w", priority=75), gang("x"))),
    "BehindOrder": world("a:1", "w:1x1 x:1x1"),
    "Reserved": replace(world("a:2"), gangs=(_leaving("old", 2, "a a"), gang("x", 2, created=1.0))),
    "GangIncomplete": replace(world("a:8"), gangs=(gang("x", 2, least=4),)),
    "SchedulingGated": replace(world("a:8"), gangs=(_half_gated(gang("x", 2)),)),
    "Backoff": replace(world("a:8"), gangs=(replace(gang("x"), held="the server refused it; tried again at 10:00"),)),
    "OverLimit": World((node("a"),), SMALL, (gang("x", 2),)),
    "ParentOverLimit": World(
        (node("a"),), (Queue("p", gpu=Share(9.0, 1.0)), Queue("q", "p", gpu=Share(9.0))), (gang("x", 2),)
    ),
    "NonPreemptibleOverQuota": World((node("a"),), (Queue("q", gpu=Share(1.0)),), (gang("x", 2, preemptible=False),)),
    "QueueDoesNotExist": replace(world("a:2"), gangs=(gang("x", queue="nope"),)),
    "QueueNotLeaf": World((node("a"),), (Queue("q"), Queue("leaf", "q")), (gang("x"),)),
    "QueueClosed": World((node("a"),), (Queue("q", closed=True),), (gang("x"),)),
    "TopologyUnsatisfiable": World(
        tuple(node(f"n{i}", 2.0, labels={"rack": f"r{i}"}) for i in range(2)),
        Q,
        (gang("x", 3, tree=IN_RACK),),
        (Topology("t", ("rack",)),),
    ),
    "NodesUnready": replace(asking(), nodes=(replace(node("a"), unschedulable=True),)),
    "NodeSelectorMismatch": asking(selector=(Requirement("disk", "In", ("ssd",)),)),
    "Tainted": replace(asking(), nodes=(replace(node("a"), taints=(Taint("k", "v"),)),)),
    "VolumeMount": asking(obstacle='persistentvolumeclaim "data" not found'),
    "SecretMissing": asking(obstacle='configmap "settings" not found'),
    "ValidationFailed": asking(obstacle=read({"spec": {"resourceClaims": [{"name": "gpu"}]}}).obstacle),
}
# Not about room, so without numbers of it; what is asked of a queue names the queue's numbers instead.
NUMBERLESS = {
    "Reserved", "GangIncomplete", "SchedulingGated", "Backoff", "QueueDoesNotExist", "QueueNotLeaf", "QueueClosed",
    "VolumeMount", "SecretMissing", "ValidationFailed",
}  # fmt: skip


@pytest.mark.parametrize("code", EVERY)
def test_every_code_says_where_what_and_how_it_ends(code):
    reason = reason_of(EVERY[code])
    assert reason.code == code and reason.message
    assert reason.queue, "whose line it stands in"
    assert reason.unblock, "what would help"
    if code not in NUMBERLESS:
        resource = next(iter(reason.needs))
        assert reason.needs[resource] > 0 and resource in reason.free


def test_the_table_of_codes_in_the_reference_is_complete():
    page = (Path(__file__).parents[2] / "docs/reference/scheduling.md").read_text()
    assert [code for code in EVERY if f"`{code}`" not in page] == []
