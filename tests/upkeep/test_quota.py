"""A quota says what its namespace uses."""

from datetime import UTC, datetime

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.testing.clock import FakeClock
from allaboard.upkeep import quota

from .builders import World, finished, thing

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def limited(hard, **spec):
    return thing("ResourceQuota", "q", spec={"hard": dict.fromkeys(hard.split(), "9"), **spec})


def pod(name="p", phase="Running", init=(), **requests):
    containers = [{"name": "c", "resources": {"requests": requests, "limits": requests}}]
    early = [{"name": "i", "resources": {"requests": amounts}} for amounts in init]
    status = {"phase": phase, "qosClass": "Burstable" if requests else "BestEffort"}
    return thing("Pod", name, spec={"containers": containers, "initContainers": early}, status=status)


def leaving(grace):
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
    return pod(f"p{grace}") | {"metadata": {"name": f"p{grace}", "namespace": "team", **gone}}


def sidecar(document):
    document["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    return document


def whole(document, **requests):
    return document | {"spec": {**document["spec"], "resources": {"requests": requests}}}


def near(**where):
    term = {"topologyKey": "zone", **where}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod() | {"spec": {**pod()["spec"], "affinity": affinity}}


SERVICE = thing("Service", "s", spec={"type": "LoadBalancer", "ports": [{}, {}]})
CLAIM = thing(
    "PersistentVolumeClaim", "c", spec={"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}
)
SCOPED = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}

USES = {
    "nothing is 0": (limited("pods requests.cpu"), {}, {"pods": "0", "requests.cpu": "0"}),
    "pods and what they ask for": (
        limited("pods requests.cpu cpu limits.cpu"),
        {"pods": [pod(cpu="500m"), pod("q", cpu="1")]},
        {"pods": "2", "requests.cpu": "1500m", "cpu": "1500m", "limits.cpu": "1500m"},
    ),
    "a hungry init container": (
        limited("requests.cpu"),
        {"pods": [pod(cpu="1", init=[{"cpu": "3"}])]},
        {"requests.cpu": "3"},
    ),
    "a finished pod uses nothing": (
        limited("pods requests.cpu"),
        {"pods": [pod(phase="Failed", cpu="1")]},
        {"pods": "0", "requests.cpu": "0"},
    ),
    "but is counted as an object": (limited("count/pods"), {"pods": [pod(phase="Failed")]}, {"count/pods": "1"}),
    "one that should be gone uses nothing either": (
        limited("pods count/pods"),
        {"pods": [leaving(0), leaving(600)]},
        {"pods": "1", "count/pods": "2"},
    ),
    "what runs beside everything is added": (
        limited("requests.cpu"),
        {"pods": [sidecar(pod(cpu="1", init=[{"cpu": "1"}, {"cpu": "3"}]))]},
        {"requests.cpu": "4"},
    ),
    "a pod may say it as a whole": (
        limited("requests.cpu"),
        {"pods": [whole(pod(cpu="1"), cpu="5")]},
        {"requests.cpu": "5"},
    ),
    "what nobody counts is not mentioned": (limited("pods limits.nvidia.com/gpu"), {}, {"pods": "0"}),
    "pods that look at other namespaces": (
        limited("pods", scopes=["CrossNamespacePodAffinity"]),
        {"pods": [pod(), near(namespaces=["x"]), near(namespaceSelector={}), near()]},
        {"pods": "2"},
    ),
    "a quota of some pods counts nothing else": (
        limited("pods count/secrets", scopes=["BestEffort"]),
        {"secrets": [thing("Secret", "s")]},
        {"pods": "0", "count/secrets": "0"},
    ),
    "balancers that open no ports": (
        limited("services.nodeports"),
        {"services": [thing("Service", "s", spec={**SERVICE["spec"], "allocateLoadBalancerNodePorts": False})]},
        {"services.nodeports": "0"},
    ),
    "extended resources": (
        limited("requests.nvidia.com/gpu"),
        {"pods": [pod(**{"nvidia.com/gpu": "2"})]},
        {"requests.nvidia.com/gpu": "2"},
    ),
    "objects by their old names": (
        limited("secrets count/secrets"),
        {"secrets": [thing("Secret", "a"), thing("Secret", "b")]},
        {"secrets": "2", "count/secrets": "2"},
    ),
    "objects of any kind": (limited("count/jobs.batch"), {"jobs.batch": [{}]}, {"count/jobs.batch": "1"}),
    "services": (
        limited("services services.loadbalancers services.nodeports"),
        {"services": [SERVICE]},
        {"services": "1", "services.loadbalancers": "1", "services.nodeports": "2"},
    ),
    "storage, in all and of a class": (
        limited("requests.storage fast.storageclass.storage.k8s.io/requests.storage"),
        {"persistentvolumeclaims": [CLAIM]},
        {"requests.storage": "5Gi", "fast.storageclass.storage.k8s.io/requests.storage": "5Gi"},
    ),
    "only pods that ask for nothing": (
        limited("pods", scopes=["BestEffort"]),
        {"pods": [pod(), pod("q", cpu="1")]},
        {"pods": "1"},
    ),
    "only pods of a class": (limited("pods", scopeSelector=SCOPED), {"pods": [pod()]}, {"pods": "0"}),
    "only pods that end": (limited("pods", scopes=["Terminating"]), {"pods": [pod()]}, {"pods": "0"}),
}


@pytest.mark.parametrize(("document", "objects", "want"), USES.values(), ids=USES)
def test_used(document, objects, want):
    assert quota.used(document, {"pods": [], **objects}, NOW) == want


def test_a_change_in_the_namespace_counts_again_and_the_same_is_not_written_twice():
    controller = quota.Quotas(None, FakeClock(), None, lambda: (kinds.POD, kinds.SECRET))
    world = World(controller)
    controller.reader = controller.live = world
    world.put(kinds.RESOURCE_QUOTA, limited("pods"))
    world.put(kinds.POD, pod())
    key = Key("team", "q")
    assert list(controller.watches[1].keys(pod())) == [key]
    assert finished(controller.reconcile(key)).again is not None
    controller.clock.advance(1)
    (write,) = finished(controller.reconcile(key)).status
    assert write.document["status"] == {"hard": {"pods": "9"}, "used": {"pods": "1"}}
    world.put(kinds.RESOURCE_QUOTA, write.document)
    finished(controller.reconcile(key))
    controller.clock.advance(1)
    assert not finished(controller.reconcile(key)).status


def counted(hard, **amounts):
    return limited(hard) | {"status": {"hard": dict.fromkeys(hard.split(), "9"), "used": amounts}}


GROWTH = {
    "never counted": (limited("pods"), {"pods": "1"}, False),
    "one more": (counted("pods", pods="0"), {"pods": "1"}, True),
    "one less": (counted("pods", pods="2"), {"pods": "1"}, False),
    "another limit": (counted("secrets", secrets="0"), {"pods": "1"}, False),
}


@pytest.mark.parametrize(("document", "used", "want"), GROWTH.values(), ids=GROWTH)
def test_growth_is_written_in_the_name_of_admission(document, used, want):
    status = {"hard": dict.fromkeys(used, "9"), "used": used}
    assert quota.grew(document, status) is want
