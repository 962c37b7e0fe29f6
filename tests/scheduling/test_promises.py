"""Promises are kept: whoever made room does not take the place back before it is given to whom it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Claim, Constraint, PodSet, Queue, Seat, Share, Status, SubGroup, Topology, World
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.state import State
from allaboard.scheduling.surroundings import put_claim
from allaboard.scheduling.telling import task_of
from tests.scheduling.worlds import NOW, decide, gang, node, told, wish

QUEUES = (Queue("q", gpu=Share(16.0)), Queue("other", gpu=Share(16.0)))


def begun(*more):
    """Two nodes are held by a gang of two, one by another queue, and one is free."""
    machines = tuple(node(f"n{i}") for i in range(4))
    return State.build(World(machines, QUEUES, (gang("low", 2, 8.0, at="n0 n1"), *_other(), *more)))


def _other():
    return (gang("away", 1, 8.0, at="n2", queue="other"),)


def seats(nodes, *roles):
    """Promised places on nodes, for the only role or one role each."""
    names = nodes.split()
    return tuple(map(Seat, names, roles)) if roles else tuple(map(Seat, names))


def decided(state):
    return cycle(state, DEFAULT, NOW)


def replaced(state, *numbers):
    """The owner of evicted pods makes new ones while the old ones are still leaving."""
    for number in numbers:
        old = task_of(state, state.tasks.row_of[f"low-{number}"])
        state.put_task("low", replace(old, name=f"low-{number}-new", status=Status.PENDING, node=""))


def gone(state, *numbers):
    for number in numbers:
        state.drop_task(f"low-{number}")


def test_a_promised_gang_is_asked_in_every_cycle_and_its_place_is_nobody_elses():
    state = begun(gang("first", 2, 8.0, created=1.0), gang("high", 2, 8.0, priority=75, created=2.0))
    assert {eviction.gang for eviction in decided(state).evictions} == {"low"}
    for number in (0, 1):
        replaced(state, number)
        decisions = decided(state)
        assert {promise.gang for promise in decisions.pipelined} == {"high"}
        assert decisions.reasons["high"].code == "Reserved" and not decisions.evictions
    gone(state, 0)
    assert told(decided(state)) == "high->n0 high->n3"
    gone(state, 1)
    assert not decided(state).binds


def test_who_is_replaced_at_once_does_not_come_back_before_the_one_he_made_room_for():
    state = begun(gang("high", 2, 8.0, priority=75, created=2.0))
    decided(state)
    replaced(state, 0, 1)
    decided(state)
    gone(state, 0, 1)
    # Both fit: the one who was promised first of all, then the other on what is left of the four nodes.
    assert told(decided(state)).split()[0] == "high->n0"
    assert state.gangs["high"].pending() == 0


def test_of_two_promises_of_one_place_the_more_deserving_is_kept():
    early = replace(gang("a-early", 2, 8.0, created=1.0), promised=seats("n0 n3"))
    high = replace(gang("z-high", 2, 8.0, priority=75, created=2.0), promised=seats("n0 n3"))
    state = State.build(World(tuple(node(name) for name in ("n0", "n3")), QUEUES, (early, high)))
    assert told(decided(state)) == "z-high->n0 z-high->n3"


# --- what a promise holds, and for how long ---

PAIR = (PodSet("one", 1), PodSet("two", 1))
RACK = Constraint("racks", "rack")


def tempted(tree, promised=""):
    """A gang was promised places on a node; a smaller node of the same rack is free, and packs better."""
    roles = [pod_set.name for pod_set in tree.pod_sets * 2]
    tasks = [replace(task, pod_set=role) for task, role in zip(gang("x", 2).tasks, roles)]
    machines = (node("large", 4.0, labels={"rack": "r"}), node("small", 1.0, labels={"rack": "r"}))
    waits = replace(gang("x", 2), tasks=tuple(tasks), tree=tree, promised=seats(promised, *roles))
    return State.build(World(machines, QUEUES, (waits,), (Topology("racks", ("rack",)),)))


@pytest.mark.parametrize(
    "tree",
    [
        SubGroup(pod_sets=(PodSet("all", 2),)),
        SubGroup(pod_sets=(PodSet("all", 2),), constraint=RACK),
        SubGroup(pod_sets=(PodSet("all", 2, RACK),)),
        SubGroup(pod_sets=PAIR),
        SubGroup(pod_sets=PAIR, constraint=RACK),
    ],
    ids=["plain", "a topology", "a topology of its pods", "two pod sets", "two pod sets in a topology"],
)
def test_a_promise_is_kept_where_it_was_made(tree):
    assert "small" in told(decided(tempted(tree)))
    assert told(decided(tempted(tree, "large large"))) == "x->large x->large"


def test_a_promise_is_kept_as_often_as_it_was_made():
    """Three of four would fit on one of its nodes, but two of these places were promised to somebody else."""
    spread = replace(gang("x", 3), promised=seats("n0 n0 n1"))
    other = replace(gang("y", 2, created=1.0), promised=seats("n1 n1"))
    state = State.build(World((node("n0", 4.0), node("n1", 3.0)), QUEUES, (spread, other)))
    assert told(decided(state)) == "x->n0 x->n0 x->n1 y->n1 y->n1"


def test_a_promise_is_for_what_is_not_bound_yet():
    """One of two places is free: the gang needs no more, and has nothing left of what was promised for that one."""
    grows = replace(gang("x", 2, 8.0, least=1), promised=seats("n0 n1"))
    state = State.build(World((node("n0"), node("n1", 4.0)), QUEUES, (grows,)))
    assert told(decided(state)) == "x->n0"
    assert state.gangs["x"].promised == seats("n1")


def test_whoever_has_to_make_room_has_no_older_promise_any_more():
    low = replace(gang("low", 3, 8.0, at="n0 n1", least=2), promised=seats("n0"))
    state = State.build(World((node("n0"), node("n1")), QUEUES, (low, gang("high", 2, 8.0, priority=75, created=1.0))))
    assert {eviction.gang for eviction in decided(state).evictions} == {"low"}
    assert (state.gangs["low"].promised, state.gangs["high"].promised) == ((), seats("n0 n1"))


def test_a_promise_outlives_pods_that_are_not_replaced_yet():
    gangs = (gang("one", at="a"), gang("two", at="b", created=1.0), gang("x", 1, 2.0, created=2.0))
    state = State.build(World((node("a", 2.0), node("b", 2.0)), QUEUES, gangs))
    (moved,) = decided(state).evictions
    place = state.gangs[moved.gang].promised
    state.put_gang(gang("news", 1, 4.0))  # something that makes another cycle
    decided(state)
    assert state.gangs[moved.gang].promised == place


def test_promises_are_part_of_the_facts():
    """A state built anew from its own facts, for a claim or for a replay, keeps them as the old one would."""
    state = tempted(SubGroup(pod_sets=PAIR), "large large")
    put_claim(state, Claim("c", "nvidia.com/gpu", 1))
    assert told(decided(state)) == "x->large x->large"


def test_a_gang_is_not_promised_what_is_kept_for_another_because_a_part_of_it_stands_there():
    """`large` has waited for four GPUs of one node; `x` stands there and may only grow elsewhere."""
    stays = gang("stays", 1, 1.0, at="a", preemptible=False, priority=100)
    gangs = (
        stays,
        gang("moves", 1, 1.0, at="a"),
        gang("x", 2, 1.0, at="a", least=1, created=5.0),
        gang("large", 1, 8.0, created=1.0),
    )
    decisions = decide(World((node("a", 8.0),), QUEUES, gangs))
    assert not decisions.binds and not {promise for promise in decisions.pipelined if promise.gang == "x"}


def leaving(name, gpus, at):
    """A gang of one pod that is on its way out."""
    goes = gang(name, 1, gpus, at=at)
    return replace(goes, tasks=(replace(goes.tasks[0], status=Status.RELEASING),))


def test_what_is_promised_beyond_a_minimum_that_still_waits_is_kept_too():
    """The minimum of `x` waits for somebody to leave; what was freed for a third pod is not given to an older gang."""
    grows = replace(gang("x", 3, 4.0, least=2, created=5.0), promised=seats("a a b"))
    decisions = decide(World((node("a"), node("b", 4.0)), QUEUES, (grows, leaving("old", 8.0, "a"), gang("y", 1, 4.0))))
    assert sorted(promise.node for promise in decisions.pipelined if promise.gang == "x") == ["a", "a", "b"]
    assert not decisions.binds


@pytest.mark.parametrize("sizes", [(4.0, 1.0), (1.0, 4.0)], ids=["large first", "small first"])
@pytest.mark.parametrize("late", ["large", "small", ""])
def test_every_pod_of_a_mixed_gang_is_kept_the_promised_place_that_fits_it(sizes, late):
    room = {"large": 4.0, "small": 1.0}
    places = {size: name for name, size in room.items()}
    pods = zip(gang("x", 2).tasks, PAIR, sizes)
    tasks = tuple(replace(task, pod_set=role.name, demand=wish(size)) for task, role, size in pods)
    mixed = replace(gang("x", 2), tasks=tasks, tree=SubGroup(pod_sets=PAIR), created=5.0)
    mixed = replace(mixed, promised=tuple(Seat(places[size], role.name) for role, size in zip(PAIR, sizes)))
    gone = (leaving("old", room[late], late),) if late else ()
    machines = tuple(node(name, size) for name, size in room.items())
    decisions = decide(World(machines, QUEUES, (mixed, gang("early", 1, 1.0), *gone)))
    assert {it.gang for it in (*decisions.binds, *decisions.pipelined)} == {"x"}
