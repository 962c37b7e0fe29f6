"""The binder binds a gang whole, or takes it back."""

import pytest

from allaboard.api import kinds, labels
from allaboard.kube.plan import Delete, Patch
from allaboard.scheduling.binder import Binder, Case, Fate, decide, has_minimum, judge
from allaboard.scheduling.facts import PodSet, SubGroup
from allaboard.testing.clock import FakeClock

from .builders import World, at, finished, node, pod, pod_group
from .builders import thing as anything

GANG = "pg-x"


def request(name, where="n", *, uid="", **status):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid or f"uid-{name}"}
    spec = {"podName": name, "selectedNode": where, "receivedResourceType": "Regular"}
    metadata = {"annotations": {labels.POD_GROUP: GANG}, "ownerReferences": [owner]}
    made = anything("scheduling.run.ai/v1alpha2", "BindRequest", name, spec, **metadata)
    return {**made, "status": status} if status else made


LEAVING = {**pod("a"), "metadata": {**pod("a")["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
FATES = {
    #                              request                     pod                 node        fate
    "a pod without node": (request("a"), pod("a"), node("n"), Fate.READY),
    "a pod on its node": (request("a"), pod("a", node="n"), node("n"), Fate.DONE),
    "a pod elsewhere": (request("a"), pod("a", node="m"), node("n"), Fate.BROKEN),
    "a pod that is gone": (request("a"), None, node("n"), Fate.BROKEN),
    "a pod that is leaving": (request("a"), LEAVING, node("n"), Fate.BROKEN),
    "a namesake": (request("a", uid="other"), pod("a"), node("n"), Fate.BROKEN),
    "a node that is gone": (request("a"), pod("a"), None, Fate.BROKEN),
    "a request that failed": (request("a", phase="Failed"), pod("a"), node("n"), Fate.BROKEN),
}


@pytest.mark.parametrize(("asked", "who", "where", "fate"), FATES.values(), ids=FATES)
def test_fate(asked, who, where, fate):
    assert judge(asked, who, where).fate is fate


def cases(text):
    """`a+` is ready, `b*` is done, `c-` is broken."""
    fates = {"+": Fate.READY, "*": Fate.DONE, "-": Fate.BROKEN}
    found = []
    for word in text.split():
        name, fate = word[:-1], fates[word[-1]]
        found.append(Case(request(name), pod(name) if fate is not Fate.BROKEN else None, fate, "it broke"))
    return found


def told(plan):
    """What happens to whom: `bind a`, `done a` (its request goes), `kill a`, `fail a`."""
    words = [f"bind {bind.pod.name}" for bind in plan.bind]
    for write in plan.delete:
        assert isinstance(write, Delete)
        words.append(f"{'done' if write.kind == kinds.BIND_REQUEST else 'kill'} {write.key.name}")
    for write in plan.patch:
        assert isinstance(write, Patch)
        words.append(f"fail {write.key.name}")
    return " ".join(sorted(words))


DECISIONS = {
    "all ready, all bound": ("a+ b+", {}, "bind a bind b done a done b"),
    "what is done is tidied up": ("a* b*", {}, "done a done b"),
    "one broken, none bound": ("a+ b-", {}, "fail a fail b"),
    "one broken, the bound is taken back": ("a* b-", {}, "fail a fail b kill a"),
    "an interrupted pass is finished": ("a* b+", {}, "bind b done a done b"),
    "a pass of ours that failed is taken back": ("a* b+", {"tried": True}, "fail a fail b kill a"),
    "a pass of ours that bound nothing is repeated": ("a+ b+", {"tried": True}, "bind a bind b done a done b"),
    "a gang that has enough goes on": ("a+ b-", {"enough": True}, "bind a done a fail b"),
}


@pytest.mark.parametrize(("text", "facts", "want"), DECISIONS.values(), ids=DECISIONS)
def test_decide(text, facts, want):
    assert told(decide(cases(text), **{"tried": False, "enough": False, **facts})) == want


MINIMA = {
    "every role has its minimum": (SubGroup(pod_sets=(PodSet("a", 2), PodSet("b", 1))), {"a": 2, "b": 1}, True),
    "one role is short": (SubGroup(pod_sets=(PodSet("a", 2), PodSet("b", 1))), {"a": 2}, False),
    "one of two roles is enough": (SubGroup(pod_sets=(PodSet("a", 2), PodSet("b", 1)), minimum=1), {"b": 1}, True),
    "an inner group is short": (SubGroup(groups=(SubGroup("g", pod_sets=(PodSet("a", 2),)),)), {"a": 1}, False),
}


@pytest.mark.parametrize(("tree", "counts", "want"), MINIMA.values(), ids=MINIMA)
def test_minimum(tree, counts, want):
    assert has_minimum(tree, counts) is want


def world(*pods, requests, least=2):
    binder = Binder(None, FakeClock())
    around = World(binder)
    binder.reader = around
    around.put(kinds.NODE, node("n"))
    around.put(kinds.POD_GROUP, pod_group(GANG, least))
    for document in pods:
        around.put(kinds.POD, document)
    for document in requests:
        around.put(kinds.BIND_REQUEST, document)
    return binder, around


def member(name, **more):
    return pod(name, said={labels.POD_GROUP: GANG}, **more)


def test_one_pass_binds_the_gang_and_says_so():
    binder, _ = world(member("a"), member("b"), requests=[request("a"), request("b")])
    plan = finished(binder.reconcile(at(GANG)))
    assert told(plan) == "bind a bind b done a done b"
    assert [event.message for event in plan.events][:1] == ["Successfully assigned default/a to n"]


def test_an_elastic_gang_survives_a_lost_extra():
    binder, _ = world(member("a", node="n"), member("b", node="n"), member("c"), requests=[request("c"), request("d")])
    assert told(finished(binder.reconcile(at(GANG)))) == "bind c done c fail d"


def test_a_gang_below_its_minimum_does_not():
    binder, _ = world(member("a"), requests=[request("a"), request("d")])
    assert told(finished(binder.reconcile(at(GANG)))) == "fail a fail d"


def test_failed_requests_are_left_to_the_scheduler():
    binder, _ = world(member("a"), requests=[request("a", phase="Failed")])
    assert not finished(binder.reconcile(at(GANG)))


def test_a_sharing_pod_learns_its_gpu_group_before_it_is_bound():
    asked = request("a")
    asked["spec"] |= {"receivedResourceType": "Fraction", "selectedGPUGroups": ["g1"]}
    binder, _ = world(member("a"), requests=[asked])
    (patch,) = finished(binder.reconcile(at(GANG))).patch
    assert patch.body == {
        "metadata": {"labels": {"runai-gpu-group": "g1"}, "annotations": {"received-resource-type": "Fraction"}}
    }


def mounting(name):
    made = member(name)
    made["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return made


def claim(**status):
    spec = {"volumeName": "v"} if status else {}
    return anything("v1", "PersistentVolumeClaim", "data", spec) | {"status": status}


def test_a_gang_waits_for_volumes_that_are_made_on_its_node():
    binder, around = world(mounting("a"), member("b"), requests=[request("a"), request("b")])
    around.put(kinds.CLAIM, claim())
    plan = finished(binder.reconcile(at(GANG)))
    assert plan.patch[0].body == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
    assert not plan.bind
    assert plan.again is not None
    around.put(kinds.CLAIM, claim(phase="Bound"))
    assert told(finished(binder.reconcile(at(GANG)))) == "bind a bind b done a done b"


def test_a_volume_that_never_comes_takes_the_gang_back():
    binder, around = world(mounting("a"), member("b"), requests=[request("a"), request("b")])
    around.put(kinds.CLAIM, claim())
    finished(binder.reconcile(at(GANG)))
    binder.clock.advance(121)
    assert told(finished(binder.reconcile(at(GANG)))) == "fail a fail b"
