"""A namespace that must go is emptied first, pods before everything, and then let go."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.testing.clock import FakeClock
from allaboard.upkeep import namespaces

from .builders import World, finished, namespace, thing

NOW = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
POD, MAP = thing("Pod", "p"), thing("ConfigMap", "c")
HELD = thing("ConfigMap", "c", leaving=True, metadata={"finalizers": ["example.com/hold"]})
ALL = {kinds.POD: [POD], kinds.CONFIG_MAP: [MAP]}

CASES = {
    #                                       namespace                   content                     deleted
    "a living namespace is left alone": (namespace(), ALL, []),
    "pods go first": (namespace(leaving=True), ALL, ["p"]),
    "then the rest": (namespace(leaving=True), {kinds.POD: [], kinds.CONFIG_MAP: [MAP]}, ["c"]),
    "what is leaving is not asked again": (namespace(leaving=True), {kinds.CONFIG_MAP: [HELD]}, []),
    "a namespace we have let go of": (namespace(leaving=True, finalizers=["example.com/other"]), ALL, []),
}


@pytest.mark.parametrize(("document", "content", "want"), CASES.values(), ids=CASES)
def test_deletions(document, content, want):
    assert [write.key.name for write in namespaces.decide(document, content, NOW).delete] == want


def test_an_empty_namespace_is_let_go():
    document = namespace(leaving=True, finalizers=["kubernetes", "example.com/other"])
    (write,) = namespaces.decide(document, {kinds.POD: []}, NOW).update
    assert write.subresource == "finalize"
    assert write.document["spec"]["finalizers"] == ["example.com/other"]


def conditions(plan):
    (write,) = plan.status
    return {c["type"]: c for c in write.document["status"]["conditions"]}


def test_what_is_left_is_said():
    found = conditions(namespaces.decide(namespace(leaving=True), {kinds.CONFIG_MAP: [HELD]}, NOW))
    assert found["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert found["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"]["status"] == "False"


def test_the_same_is_not_said_twice():
    first = namespaces.decide(namespace(leaving=True), {kinds.CONFIG_MAP: [HELD]}, NOW)
    again = namespaces.decide(first.status[0].document, {kinds.CONFIG_MAP: [HELD]}, NOW + timedelta(seconds=9))
    assert not again.status
    assert again.again is not None


def test_every_kind_the_server_has_is_looked_at():
    served = (kinds.POD, kinds.CONFIG_MAP, kinds.NODE)
    world = World()
    clock = FakeClock()
    controller = namespaces.Namespaces(world, clock, world, lambda: served)
    world.put(kinds.NAMESPACE, namespace(leaving=True))
    world.put(kinds.CONFIG_MAP, MAP)
    world.put(kinds.NODE, thing("Node", "n", ""))
    assert not finished(controller.reconcile(Key("", "team"))).delete, "requests under way may still end"
    clock.advance(1)
    plan = finished(controller.reconcile(Key("", "team")))
    assert [(write.kind, write.key.name) for write in plan.delete] == [(kinds.CONFIG_MAP, "c")]
