"""A pod's own claims are made from its templates."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.meta import owner_reference
from allaboard.testing.clock import FakeClock
from allaboard.upkeep import ephemeral

from .builders import World, finished, thing

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def pod(*, phase="Pending", leaving=False):
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}, {"name": "other", "emptyDir": {}}]
    return thing("Pod", "p", leaving=leaving, spec={"volumes": volumes}, status={"phase": phase})


OURS = thing("PersistentVolumeClaim", "p-scratch", metadata={"ownerReferences": [owner_reference(pod())]})
CASES = {
    "a missing claim is made": (pod(), None, ["p-scratch"], 0),
    "its own claim is enough": (pod(), OURS, [], 0),
    "somebody else's is not touched": (pod(), thing("PersistentVolumeClaim", "p-scratch"), [], 1),
    "a finished pod needs none": (pod(phase="Succeeded"), None, [], 0),
    "nor does a leaving one": (pod(leaving=True), None, [], 0),
}


@pytest.mark.parametrize(("who", "claim", "made", "complaints"), CASES.values(), ids=CASES)
def test_decide(who, claim, made, complaints):
    plan = ephemeral.decide(who, {"p-scratch": claim})
    assert [write.document["metadata"]["name"] for write in plan.create] == made
    assert len(plan.events) == complaints


def test_the_claim_is_what_the_template_says_and_belongs_to_the_pod():
    world = World()
    world.put(kinds.POD, pod())
    (write,) = finished(ephemeral.EphemeralVolumes(world, FakeClock()).reconcile(Key("team", "p"))).create
    assert write.document["spec"] == TEMPLATE["spec"]
    assert write.document["metadata"]["labels"] == {"a": "b"}
    assert write.document["metadata"]["ownerReferences"][0]["uid"] == "uid-p"


def test_pods_without_templates_wake_nobody():
    assert not list(ephemeral.pods_with_templates(thing("Pod", "q", spec={})))
    assert list(ephemeral.owner_pod(OURS)) == [Key("team", "p")]
