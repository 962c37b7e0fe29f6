"""What the watches tell becomes the scheduler's state, however it arrives."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import kinds, labels
from allaboard.api.meta import key_of
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Status
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.snapshot import FOLLOWED, Snapshot
from allaboard.scheduling.telling import world_of

from .builders import OURS, at, node, pod, pod_group, queue, thing

IN_GROUP = {labels.POD_GROUP: "pg-x"}
NOW = 1_800_000_000.0


def told(snapshot):
    """Gangs and their tasks: `default/pg-x: a=PENDING b=BINDING@n`, then strangers."""
    lines = []
    for gang in world_of(snapshot.state).gangs:
        tasks = (f"{t.name.partition('/')[2]}={t.status.name}" + (f"@{t.node}" if t.node else "") for t in gang.tasks)
        lines.append(f"{gang.name}: {' '.join(sorted(tasks))}".strip())
    strangers = sorted(f"{task.name}@{task.node}" for task in snapshot.state.strangers.all())
    return lines + strangers


def heard(*changes):
    snapshot = Snapshot(OURS)
    for kind, document in [(kinds.NODE, node("n")), (kinds.QUEUE, queue("default-queue", "")), *changes]:
        snapshot.observe(kind, None, document)
    snapshot.flush(NOW)
    return snapshot


def request(name, **status):
    spec = {"podName": name, "selectedNode": "n"}
    return thing("scheduling.run.ai/v1alpha2", "BindRequest", name, spec) | {"status": status}


GROUP = (kinds.POD_GROUP, pod_group("pg-x", 2))
JOB = thing("batch/v1", "Job", "j")
WISHFUL = thing("batch/v1", "Job", "j", labels={labels.QUEUE: "q"})
COSCHEDULED = thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 2})
VOLCANO = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "g", {"minMember": 2, "queue": "default"})
LEAVING = pod("a", said=IN_GROUP, node="n", phase="Running")
LEAVING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
ROLES = pod_group("pg-x", 2, roles=[{"name": "r", "minMember": 2}])

CASES = {
    "pods of a group are its tasks": (
        [GROUP, (kinds.POD, pod("a", said=IN_GROUP)), (kinds.POD, pod("b", said=IN_GROUP))],
        ["default/pg-x: a=PENDING b=PENDING"],
    ),
    "the group may come last": ([(kinds.POD, pod("a", said=IN_GROUP)), GROUP], ["default/pg-x: a=PENDING"]),
    "a request binds": (
        [GROUP, (kinds.POD, pod("a", said=IN_GROUP)), (kinds.BIND_REQUEST, request("a"))],
        ["default/pg-x: a=BINDING@n"],
    ),
    "a failed request holds its pod back until it is gone": (
        [GROUP, (kinds.POD, pod("a", said=IN_GROUP)), (kinds.BIND_REQUEST, request("a", phase="Failed"))],
        ["default/pg-x: a=UNKNOWN"],
    ),
    "a running pod runs": (
        [GROUP, (kinds.POD, pod("a", said=IN_GROUP, node="n", phase="Running"))],
        ["default/pg-x: a=RUNNING@n"],
    ),
    "a leaving pod is being released": ([GROUP, (kinds.POD, LEAVING)], ["default/pg-x: a=RELEASING@n"]),
    "a pod whose group is gone takes room as a stranger": (
        [(kinds.POD, pod("a", said=IN_GROUP, node="n", phase="Running"))],
        ["default/a@n"],
    ),
    "a pod of another scheduler is a stranger": (
        [(kinds.POD, pod("a", scheduler="other", node="n"))],
        ["default/a@n"],
    ),
    "a pod of another scheduler without node is nobody": ([(kinds.POD, pod("a", scheduler="other"))], []),
    "a bare pod stands alone": ([(kinds.POD, pod("a"))], ["default/a.pod: a=PENDING"]),
    "a plain Job's pod stands alone": (
        [(kinds.JOB, JOB), (kinds.POD, pod("a", JOB))],
        ["default/a.pod: a=PENDING"],
    ),
    "it waits until its Job is seen": ([(kinds.POD, pod("a", JOB))], []),
    "a Job with wishes waits for its group": ([(kinds.JOB, WISHFUL), (kinds.POD, pod("a", JOB))], []),
    "a pod of kai-scheduler waits for its group": ([(kinds.POD, pod("a", scheduler="kai-scheduler"))], []),
    "a coscheduling group is a gang": (
        [(kinds.POD_GROUP_COSCHEDULING, COSCHEDULED), (kinds.POD, pod("a", worn={labels.POD_GROUP_COSCHEDULING: "g"}))],
        ["default/g.scheduling.x-k8s.io: a=PENDING"],
    ),
    "the seed's label means the same": (
        [(kinds.POD_GROUP_COSCHEDULING, COSCHEDULED), (kinds.POD, pod("a", worn={labels.POD_GROUP_SEED: "g"}))],
        ["default/g.scheduling.x-k8s.io: a=PENDING"],
    ),
    "a volcano group is a gang": (
        [(kinds.POD_GROUP_VOLCANO, VOLCANO), (kinds.POD, pod("a", said={labels.POD_GROUP_VOLCANO: "g"}))],
        ["default/g.scheduling.volcano.sh: a=PENDING"],
    ),
    "a pod without its role is left out": (
        [(kinds.POD_GROUP, ROLES), (kinds.POD, pod("a", said=IN_GROUP)), (kinds.POD, pod("b", {}, None, IN_GROUP))],
        ["default/pg-x:"],
    ),
    "a pod with its role is in": (
        [(kinds.POD_GROUP, ROLES), (kinds.POD, pod("a", worn={labels.SUB_GROUP: "r"}, said=IN_GROUP))],
        ["default/pg-x: a=PENDING"],
    ),
}


@pytest.mark.parametrize(("changes", "want"), CASES.values(), ids=CASES)
def test_reading(changes, want):
    assert told(heard(*changes)) == want


@pytest.mark.parametrize(("changes", "want"), CASES.values(), ids=CASES)
def test_order_of_arrival_does_not_matter(changes, want):
    assert told(heard(*reversed(changes))) == want


def test_a_heartbeat_is_no_news():
    snapshot = heard()
    snapshot.observe(kinds.NODE, node("n"), node("n"))
    assert not snapshot.moved


def test_a_node_that_cannot_be_read_is_as_good_as_gone():
    snapshot = heard((kinds.POD, pod("a", cpu="1")))
    assert len(snapshot.state.nodes) == 1
    snapshot.observe(kinds.NODE, node("n"), node("n", cpu="lots"))
    snapshot.flush(NOW)
    assert len(snapshot.state.nodes) == 0


def test_what_was_decided_holds_until_the_watch_shows_it():
    waiting = pod("a", said=IN_GROUP)
    snapshot = heard((kinds.POD_GROUP, pod_group("pg-x", 1)), (kinds.POD, waiting))
    (bind,) = cycle(snapshot.state, DEFAULT, NOW).binds
    snapshot.assume_bound(at("a"), bind.node, (), NOW)
    snapshot.observe(kinds.BIND_REQUEST, None, request("a"))
    snapshot.observe(kinds.BIND_REQUEST, request("a"), None)
    snapshot.flush(NOW)
    # The request is carried out and gone, the pod's own document still says nothing.
    assert told(snapshot) == ["default/pg-x: a=BINDING@n"]
    snapshot.observe(kinds.POD, waiting, pod("a", said=IN_GROUP, node="n"))
    snapshot.flush(NOW)
    assert told(snapshot) == ["default/pg-x: a=BOUND@n"]


def test_a_bind_that_was_never_written_is_forgotten():
    snapshot = heard(GROUP, (kinds.POD, pod("a", said=IN_GROUP)))
    snapshot.assume_bound(at("a"), "n", (), NOW)
    snapshot.flush(NOW)
    assert told(snapshot) == ["default/pg-x: a=PENDING"]


def test_a_failed_bind_frees_its_place():
    snapshot = heard(GROUP, (kinds.POD, pod("a", said=IN_GROUP)))
    snapshot.assume_bound(at("a"), "n", (), NOW)
    for old, new in ((None, request("a")), (request("a"), request("a", phase="Failed"))):
        snapshot.observe(kinds.BIND_REQUEST, old, new)
    assert [key for key, _ in snapshot.records.failed_requests()] == [at("a")]
    snapshot.observe(kinds.BIND_REQUEST, request("a", phase="Failed"), None)
    snapshot.flush(NOW)
    assert told(snapshot) == ["default/pg-x: a=PENDING"]


def test_an_eviction_nobody_carried_out_is_given_up():
    snapshot = heard(GROUP, (kinds.POD, pod("a", said=IN_GROUP, node="n", phase="Running")))
    (gang,) = world_of(snapshot.state).gangs
    snapshot.state.put_task(gang.name, replace(gang.tasks[0], status=Status.RELEASING))  # as a cycle does
    snapshot.assume_leaving(at("a"), NOW)
    snapshot.flush(NOW)
    assert told(snapshot) == ["default/pg-x: a=RELEASING@n"]
    snapshot.flush(NOW + 31)
    assert told(snapshot) == ["default/pg-x: a=RUNNING@n"]


PRIORITY = {
    "the class's value": ("high", [("high", 200, False)], 200, False),
    "the cluster's default": ("", [("usual", 70, True)], 70, True),
    "an unknown class is the default": ("ghost", [("usual", 120, True)], 120, False),
    "nobody says anything": ("", [], 50, True),
}


@pytest.mark.parametrize(("name", "classes", "priority", "preemptible"), PRIORITY.values(), ids=PRIORITY)
def test_priority(name, classes, priority, preemptible):
    documents = [{"metadata": {"name": n}, "value": v, "globalDefault": g} for n, v, g in classes]
    changes = [(kinds.PRIORITY_CLASS, document) for document in documents]
    group = pod_group("pg-x", 1, priorityClassName=name)
    snapshot = heard(*changes, (kinds.POD_GROUP, group), (kinds.POD, pod("a", said=IN_GROUP)))
    (gang,) = world_of(snapshot.state).gangs
    assert (gang.priority, gang.preemptible) == (priority, preemptible)


def claim(made="", **status):
    spec = {"storageClassName": made} | ({"volumeName": "v"} if status else {})
    return thing("v1", "PersistentVolumeClaim", "data", spec) | {"status": status}


LOCAL = thing("v1", "PersistentVolume", "v") | {
    "spec": {
        "claimRef": {"namespace": "default", "name": "data"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}
                ]
            }
        },
    }
}
PATIENT = {"metadata": {"name": "slow"}, "volumeBindingMode": "WaitForFirstConsumer"}
STORAGE = {
    "no claim": ([], ('persistentvolumeclaim "data" not found', None)),
    "a claim nobody bound": ([(kinds.CLAIM, claim())], ("pod has unbound immediate PersistentVolumeClaims", None)),
    "a class that waits for the pod": ([(kinds.STORAGE_CLASS, PATIENT), (kinds.CLAIM, claim("slow"))], ("", None)),
    "a bound claim": ([(kinds.CLAIM, claim(phase="Bound"))], ("", None)),
    "a volume that is on one node": ([(kinds.VOLUME, LOCAL), (kinds.CLAIM, claim(phase="Bound"))], ("", ("n",))),
}


@pytest.mark.parametrize(("changes", "want"), STORAGE.values(), ids=STORAGE)
def test_claims_decide_where_a_pod_may_go(changes, want):
    mounting = pod("a")
    mounting["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    snapshot = heard((kinds.POD, mounting))
    for kind, document in changes:
        snapshot.observe(kind, None, document)
    snapshot.flush(NOW)
    (gang,) = world_of(snapshot.state).gangs
    demand = gang.tasks[0].demand
    assert (demand.obstacle, demand.only_nodes) == want


# --- whatever happens, in whatever order, the state is what a fresh start would make of the facts ---

pods = st.builds(
    lambda name, group, role, place, phase, ours: pod(
        name, said=group, worn=role, node=place, phase=phase, scheduler="aboard" if ours else "other", cpu="1"
    ),
    st.sampled_from("abc"),
    st.sampled_from([None, IN_GROUP, {labels.POD_GROUP: "pg-y"}]),
    st.sampled_from([None, {labels.SUB_GROUP: "r"}]),
    st.sampled_from(["", "n", "m"]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.booleans(),
)
pod_groups = st.builds(
    lambda name, least, roles, backoff, refused: (
        pod_group(name, least, roles=roles, schedulingBackoff=backoff)
        | {"status": {"schedulingConditions": [{"status": refused}]}}
    ),
    st.sampled_from(["pg-x", "pg-y"]),
    st.sampled_from([1, 2, 3, "many"]),
    st.sampled_from([(), ({"name": "r", "minMember": 1},), ({"name": "r", "parent": "r"},)]),
    st.sampled_from([-1, 1]),
    st.sampled_from(["True", "False"]),
)
documents = st.one_of(
    st.tuples(st.just(kinds.POD), pods),
    st.tuples(st.just(kinds.POD_GROUP), pod_groups),
    st.tuples(st.just(kinds.NODE), st.builds(node, st.sampled_from("nm"), ready=st.booleans())),
    st.tuples(st.just(kinds.QUEUE), st.just(queue("default-queue", ""))),
    st.tuples(st.just(kinds.BIND_REQUEST), st.builds(request, st.sampled_from("abc"))),
)
steps = st.lists(st.tuples(documents, st.sampled_from(["put", "put", "put", "drop", "flush"])), max_size=25)


@given(steps)
def test_the_state_is_what_a_fresh_start_would_make(history):
    snapshot, there = Snapshot(OURS), {}
    for (kind, document), action in history:
        place = (kind, key_of(document))
        if action == "flush":
            snapshot.flush(NOW)
        elif action == "put":
            snapshot.observe(kind, there.get(place), document)
            there[place] = document
        elif place in there:
            snapshot.observe(kind, there.pop(place), None)
    fresh = Snapshot(OURS)
    for (kind, _), document in sorted(there.items(), key=lambda item: (FOLLOWED.index(item[0][0]), item[0][1])):
        fresh.observe(kind, None, document)
    snapshot.flush(NOW)
    fresh.flush(NOW)
    assert told(snapshot) == told(fresh)
    assert [gang.tree for gang in world_of(snapshot.state).gangs] == [gang.tree for gang in world_of(fresh.state).gangs]
    assert (snapshot.state.nodes.idle == fresh.state.nodes.idle).all()


# --- what people write by hand ---

words = st.sampled_from(["", "-1", "--1", "0.5", "nan", "1e999", "²", "a" * 300, "2026-13-45T99:99:99Z", "1h", "-1h"])
KEYS = (
    labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES, labels.LAST_START, labels.STALE_SINCE,
    "kai.scheduler/task-priority", "nvidia.com/gpu.memory", labels.SUB_GROUP, "aboard.dev/max-runtime",
)  # fmt: skip
scribbles = st.dictionaries(st.sampled_from(KEYS), words, max_size=4)
odd_roles = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"parent": st.sampled_from("abz")}), max_size=3
)


@given(scribbles, scribbles, odd_roles, words)
def test_nothing_people_write_stops_a_cycle(worn, said, roles, grace):
    group = pod_group("pg-x", 1, roles=roles, stalenessGracePeriod=grace)
    group["metadata"] |= {"labels": worn, "annotations": said}
    member = pod("a", worn=worn, said={**said, **IN_GROUP}, cpu="1")
    other = pod("z", cpu="1")
    snapshot = heard(
        (kinds.NODE, node("n", worn=worn)), (kinds.POD_GROUP, group), (kinds.POD, member), (kinds.POD, other)
    )
    decisions = cycle(snapshot.state, DEFAULT, NOW)
    assert "default/z" in {bind.task for bind in decisions.binds}, "the others go on"
