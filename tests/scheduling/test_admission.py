"""What is refused and what is warned about before it is stored."""

from dataclasses import dataclass

import pytest

from allaboard.api import kinds, labels
from allaboard.api.documents import Key
from allaboard.api.meta import annotations_of, key_of, labels_of
from allaboard.scheduling.admission import Births, PodGroups, QueueLabels, Queues, SharingPods, Topologies
from allaboard.scheduling.podgroups import Settings

from .builders import OURS, jobset, jobset_pods, pod, pod_group, queue


@dataclass
class Asked:
    """A request as the chain makes it."""

    kind: kinds.Kind
    new: dict
    old: dict | None = None
    operation: str = "CREATE"
    subresource: str = ""

    @property
    def key(self):
        return key_of(self.new)


class Seen:
    """What the server knows."""

    def __init__(self, *documents):
        self.documents = documents

    def get(self, kind, key):
        return next((d for k, d in self.documents if k == kind and key_of(d) == key), None)

    def list(self, kind, namespace=""):
        return [document for k, document in self.documents if k == kind]


def fields(verdict):
    return [cause.field for cause in verdict.refusal.causes] if verdict.refusal else []


def group(*roles, **spec):
    return pod_group(
        "g", 1, roles=[dict(zip(("name", "parent"), role.split("<"), strict=False)) for role in roles], **spec
    )


GROUPS = {
    "roles with parents": (group("a", "b<a", "c<a"), []),
    "two roles of one name": (group("a", "a"), ["spec.subGroups[1].name"]),
    "a parent that does not exist": (group("a<ghost"), ["spec.subGroups[0].parent"]),
    "a circle": (group("a<b", "b<a"), ["spec.subGroups[0].parent", "spec.subGroups[1].parent"]),
    "one's own parent": (group("a<a"), ["spec.subGroups[0].parent"]),
    "what is not honoured": (group(preemptionDelay="5m"), ["spec.preemptionDelay"]),
    "two ways to say the minimum": (group(minSubGroup=1), ["spec.minSubGroup"]),
    "grace without an end": (group(stalenessGracePeriod="-1s"), []),
    "grace in words": (group(stalenessGracePeriod="a while"), ["spec.stalenessGracePeriod"]),
}


@pytest.mark.parametrize(("document", "want"), GROUPS.values(), ids=GROUPS)
def test_pod_groups(document, want):
    assert fields(PodGroups().validate(Asked(kinds.POD_GROUP, document), Seen())) == want


PARENT = queue("parent", "") | {"status": {"childQueues": ["leaf"]}}
TREE = ((kinds.QUEUE, PARENT), (kinds.QUEUE, queue("leaf", "parent")))
WARNED = {
    "a leaf that exists": (pod_group("g", 1, queue="leaf"), []),
    "a queue that does not": (
        pod_group("g", 1, queue="leef"),
        ['spec.queue: queue "leef" does not exist; the job waits until it does; did you mean "leaf"?'],
    ),
    "a queue that is no leaf": (
        pod_group("g", 1, queue="parent"),
        ['spec.queue: "parent" is not a leaf queue and runs no jobs; choose one of: leaf'],
    ),
    "a topology that does not exist": (
        pod_group("g", 1, queue="leaf", topologyConstraint={"topology": "t"}),
        ['spec.topologyConstraint.topology: topology "t" does not exist; the group waits until it does'],
    ),
}


@pytest.mark.parametrize(("document", "want"), WARNED.values(), ids=WARNED)
def test_pod_group_warnings(document, want):
    verdict = PodGroups().validate(Asked(kinds.POD_GROUP, document), Seen(*TREE))
    assert list(verdict.warnings) == want


def test_a_group_that_did_not_change_is_not_warned_about_again():
    document = pod_group("g", 1, queue="ghost")
    asked = Asked(kinds.POD_GROUP, document, document, "UPDATE")
    assert not PodGroups().validate(asked, Seen()).warnings


def timed(preempt, reclaim):
    document = queue("q", "")
    return document | {"spec": document["spec"] | {"preemptMinRuntime": preempt, "reclaimMinRuntime": reclaim}}


QUEUES = {
    "a full queue": (queue("q", ""), []),
    "no resources": ({"metadata": {"name": "q"}, "spec": {}}, ["spec.resources"]),
    "a negative quota": (queue("q", "", gpu={"quota": -2}), ["spec.resources.gpu.quota"]),
    "a negative weight": (queue("q", "", cpu={"overQuotaWeight": -1}), ["spec.resources.cpu.overQuotaWeight"]),
    "its own ancestor": (queue("parent", "leaf"), ["spec.parentQueue"]),
    "least times to run": (timed("90s", "1h30m"), []),
    "least times that are none": (timed("soon", "-1h"), ["spec.preemptMinRuntime", "spec.reclaimMinRuntime"]),
}


@pytest.mark.parametrize(("document", "want"), QUEUES.values(), ids=QUEUES)
def test_queues(document, want):
    assert fields(Queues().validate(Asked(kinds.QUEUE, document), Seen(*TREE))) == want


QUEUE_WARNINGS = {
    "a limit of 0": (
        queue("q", "", gpu={"limit": 0}),
        "spec.resources.gpu.limit is 0: no job of this queue gets any gpu; -1 is no limit",
    ),
    "a limit that was forgotten": (
        {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"limit": 1}, "cpu": {"limit": 1}, "memory": {}}}},
        "spec.resources.memory.limit is not set, which means 0: no job of this queue gets any memory; -1 is no limit",
    ),
    "a parent that does not exist": (
        queue("q", "ghost"),
        'spec.parentQueue: queue "ghost" does not exist; jobs of this queue wait until it does',
    ),
    "a quota above the limit": (
        queue("q", "", gpu={"quota": 4, "limit": 2}),
        "spec.resources.gpu.quota is above its limit: 4 of 2",
    ),
}


@pytest.mark.parametrize(("document", "want"), QUEUE_WARNINGS.values(), ids=QUEUE_WARNINGS)
def test_queue_warnings(document, want):
    assert list(Queues().validate(Asked(kinds.QUEUE, document), Seen(*TREE)).warnings) == [want]


def topology(*levels):
    return {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


HOST = "kubernetes.io/hostname"
TOPOLOGIES = {
    "from wide to narrow": (topology("zone", "rack", HOST), None, []),
    "a level twice": (topology("zone", "zone"), None, ["spec.levels[1].nodeLabel"]),
    "the hostname first": (topology(HOST, "zone"), None, ["spec.levels[0].nodeLabel"]),
    "levels that change": (topology("zone", "rack"), topology("zone"), ["spec.levels"]),
}


@pytest.mark.parametrize(("new", "old", "want"), TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_topologies(new, old, want):
    assert fields(Topologies().validate(Asked(kinds.TOPOLOGY, new, old), Seen())) == want


def test_an_alias_of_a_level_may_change_and_is_said_to_mean_nothing():
    new = topology("zone", "rack")
    new["spec"]["levels"][1]["alias"] = "shelf"
    verdict = Topologies().validate(Asked(kinds.TOPOLOGY, new, topology("zone", "rack")), Seen())
    assert not verdict.refusal
    assert verdict.warnings == ('spec.levels[1].alias: "shelf" is not read; constraints name the level "rack"',)


def sharing(**said):
    names = {"fraction": labels.GPU_FRACTION, "memory": labels.GPU_MEMORY, "devices": labels.GPU_FRACTION_DEVICES}
    return pod("p", said={names[name]: value for name, value in said.items()})


GREEDY = sharing(fraction="0.5")
GREEDY["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
SHARING = {
    "half a device": (sharing(fraction="0.5"), 0),
    "half of two devices": (sharing(fraction="0.5", devices="2"), 0),
    "a whole one is no share": (sharing(fraction="1"), 1),
    "words are no share": (sharing(fraction="half"), 1),
    "no memory": (sharing(memory="0"), 1),
    "both ways at once": (sharing(fraction="0.5", memory="100"), 1),
    "devices without a share": (sharing(devices="2"), 1),
    "a share and a whole device": (GREEDY, 1),
}


@pytest.mark.parametrize(("document", "count"), SHARING.values(), ids=SHARING)
def test_sharing(document, count):
    verdict = SharingPods(Settings(OURS)).validate(Asked(kinds.POD, document), Seen())
    assert len(fields(verdict)) == count


# --- births ---


def born(who, *seen):
    return Births(Settings(OURS)).mutate(Asked(kinds.POD, who), Seen(*seen))


def test_a_jobsets_pod_is_born_into_its_gang():
    owner = jobset("x", "init:1", "node:2<init")
    _, (child, *_) = jobset_pods(owner, "node", 2)
    made = born(child, (kinds.JOB_SET, owner))
    assert annotations_of(made)[labels.POD_GROUP] == "pg-x-uid-x-node"
    assert labels_of(made)[labels.SUB_GROUP] == "node"


def test_other_pods_are_left_alone():
    owner = jobset("x", "node:1")
    _, (child,) = jobset_pods(owner, "node", 1)
    stranger = {**child, "spec": {**child["spec"], "schedulerName": "other"}}
    assert born(child) is None, "its JobSet cannot be seen"
    assert born(stranger, (kinds.JOB_SET, owner)) is None
    assert born(pod("p"), (kinds.JOB_SET, owner)) is None
    assert Seen().get(kinds.POD, Key("", "")) is None


LABELLED = {
    "a leaf": ("leaf", None, 0),
    "a queue that does not exist": ("ghost", None, 1),
    "a queue with others below": ("parent", None, 1),
    "what was said before": ("ghost", "ghost", 0),
}


@pytest.mark.parametrize(("name", "before", "count"), LABELLED.values(), ids=LABELLED)
def test_who_submits_a_job_hears_of_its_queue(name, before, count):
    new = jobset("x", "node:1", labels={labels.QUEUE: name})
    old = jobset("x", "node:1", labels={labels.QUEUE: before}) if before else None
    assert len(QueueLabels().validate(Asked(kinds.JOB_SET, new, old), Seen(*TREE)).warnings) == count
