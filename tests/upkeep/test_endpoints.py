"""A service knows the pods behind it."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.testing.clock import FakeClock
from allaboard.upkeep import endpoints

from .builders import World, finished, thing

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def service(**spec):
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    return thing("Service", "s", spec={"selector": {"app": "a"}, "ports": ports, "clusterIP": "None", **spec})


def pod(name="p", *, address="10.0.0.1", ready=True, phase="Running", worn=None, **spec):
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}
    status = {"phase": phase} | ({"podIP": address} if address else {}) | (READY if ready else {})
    metadata = {"labels": {"app": "a"} if worn is None else worn}
    return thing(
        "Pod", name, metadata=metadata, spec={"containers": [container], "nodeName": "n", **spec}, status=status
    )


BEHIND = {
    "a running pod with an address": (pod(), True),
    "one without address": (pod(address=""), False),
    "one that ended": (pod(phase="Failed"), False),
    "one of others": (pod(worn={"app": "b"}), False),
}


@pytest.mark.parametrize(("who", "want"), BEHIND.values(), ids=BEHIND)
def test_stands_behind(who, want):
    assert endpoints.stands_behind(service(), who) is want


def test_the_slice_names_ports_addresses_and_hosts():
    made = endpoints.slice_of(service(), [pod(hostname="h", subdomain="s")])
    assert made["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    (entry,) = made["endpoints"]
    assert (entry["addresses"], entry["hostname"], entry["nodeName"]) == (["10.0.0.1"], "h", "n")
    assert entry["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_pod_that_is_not_ready_waits_apart_unless_it_is_published_early():
    (subset,) = endpoints.endpoints_of(service(), [pod(ready=False)])["subsets"]
    assert "addresses" not in subset
    (early,) = endpoints.endpoints_of(service(publishNotReadyAddresses=True), [pod(ready=False)])["subsets"]
    assert early["addresses"][0]["ip"] == "10.0.0.1"


def test_who_is_leaving_is_in_the_slice_but_no_longer_in_endpoints():
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (entry,) = endpoints.slice_of(service(), [leaving])["endpoints"]
    assert entry["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert "subsets" not in endpoints.endpoints_of(service(), [leaving])


def test_a_slice_says_where_nodes_are_and_what_is_spoken():
    spoken = service(ports=[{"name": "http", "port": 80, "appProtocol": "h2c"}])
    made = endpoints.slice_of(spoken, [pod()], {"n": "east"})
    assert made["endpoints"][0]["zone"] == "east"
    assert made["ports"][0]["appProtocol"] == "h2c"
    assert made["metadata"]["generateName"] == "s-"


TRIGGERS = {
    "a service was made": ({}, {"": "t1"}, "t1"),
    "a pod became ready": ({"": "t1"}, {"": "t1", "p": "t2"}, "t2"),
    "two did: the first counts": ({"": "t1"}, {"": "t1", "q": "t3", "p": "t2"}, "t2"),
    "nothing happened": ({"": "t1", "p": "t2"}, {"": "t1", "p": "t2"}, ""),
    "a pod went: nobody knows when": ({"": "t1", "p": "t2"}, {"": "t1"}, ""),
}


@pytest.mark.parametrize(("before", "now", "want"), TRIGGERS.values(), ids=TRIGGERS)
def test_what_is_written_says_when_its_cause_happened(before, now, want):
    assert endpoints.trigger_of(before, now) == want


def test_a_cause_nobody_knows_takes_the_note_away():
    made = endpoints.slice_of(service(), [])
    noted = {**made["metadata"], "annotations": {endpoints.TRIGGER: "t1"}}
    plan = endpoints.decide(service(), [pod()], ({**made, "metadata": noted}, None))
    assert "annotations" not in plan.update[0].document["metadata"]


def test_without_a_selector_nothing_is_done():
    assert not endpoints.decide(service(selector=None), [pod()], (None, None))


def test_pods_find_their_services_and_the_same_is_not_written_twice():
    controller = endpoints.Endpoints(None, FakeClock())
    world = World(controller)
    controller.reader = world
    world.put(kinds.POD, pod())
    world.put(kinds.SERVICE, service())
    key = Key("team", "s")
    assert list(controller.watches[1].keys(pod())) == [key]
    assert not list(controller.watches[1].keys(pod(worn={"app": "b"})))
    plan = finished(controller.reconcile(key))
    assert [write.kind for write in plan.create] == [kinds.ENDPOINT_SLICE, kinds.ENDPOINTS]
    for write in plan.create:
        world.put(write.kind, write.document)
    assert not finished(controller.reconcile(key))
    world.put(kinds.POD, pod(phase="Succeeded"))
    assert len(finished(controller.reconcile(key)).update) == 2


def test_endpoints_of_a_service_that_is_gone_go_too():
    controller = endpoints.Endpoints(World(), FakeClock())
    made = endpoints.endpoints_of(service(), [])
    controller.reader.put(kinds.ENDPOINTS, made)
    (removal,) = finished(controller.reconcile(Key("team", "s"))).delete
    assert removal.kind == kinds.ENDPOINTS
