"""What a pod document asks for, in the scheduler's units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import labels
from allaboard.scheduling.demands import ANYWHERE, Demands, Storage, read, requests_of
from allaboard.scheduling.facts import Neighbours, Requirement, Toleration

from .builders import pod


def asking(containers, init=(), **spec):
    def made(amounts):
        always = amounts.pop("always", False) if isinstance(amounts, dict) else False
        container = {"name": "c", "resources": {"requests": amounts}}
        return {**container, "restartPolicy": "Always"} if always else container

    return {
        "metadata": {},
        "spec": {"containers": [*map(made, containers)], "initContainers": [*map(made, init)], **spec},
    }


REQUESTS = {
    "containers add up": (asking([{"cpu": "1"}, {"cpu": "500m"}]), {"cpu": 1500}),
    "memory is bytes": (asking([{"memory": "1Gi"}]), {"memory": 2**30}),
    "GPUs of all makers are gpu": (asking([{"nvidia.com/gpu": "2"}, {"amd.com/gpu": 1}]), {"gpu": 3}),
    "other resources keep their name": (asking([{"rdma/hca": "1"}]), {"rdma/hca": 1}),
    "a hungry init container counts alone": (asking([{"cpu": "1"}], [{"cpu": "4"}]), {"cpu": 4000}),
    "a modest one does not": (asking([{"cpu": "2"}], [{"cpu": "1"}]), {"cpu": 2000}),
    "a sidecar runs along": (asking([{"cpu": "1"}], [{"cpu": "1", "always": True}]), {"cpu": 2000}),
    "init containers run beside earlier sidecars": (
        asking([{"cpu": "1"}], [{"cpu": "1", "always": True}, {"cpu": "3"}]),
        {"cpu": 4000},
    ),
    "overhead is added": (asking([{"cpu": "1"}], overhead={"cpu": "250m"}), {"cpu": 1250}),
    "limits stand in for requests": (
        {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}},
        {"cpu": 2000},
    ),
    "pod-level requests replace the sum": (asking([{"cpu": "1"}], resources={"requests": {"cpu": "3"}}), {"cpu": 3000}),
}


@pytest.mark.parametrize(("document", "want"), REQUESTS.values(), ids=REQUESTS)
def test_requests(document, want):
    assert requests_of(document) == want


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=4), st.lists(st.integers(1, 4000), max_size=4))
def test_requests_read_plainly(containers, init):
    document = asking([{"cpu": f"{c}m"} for c in containers], [{"cpu": f"{c}m"} for c in init])
    assert requests_of(document)["cpu"] == max(sum(containers), *init, 0)


def with_spec(**spec):
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [], **spec}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}

PLACES = {
    "a node selector": (with_spec(nodeSelector={"k": "v"}), "selector", (Requirement("k", "In", ("v",)),)),
    "alternatives of a node affinity": (
        with_spec(
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                        ]
                    }
                }
            }
        ),
        "affinity",
        ((Requirement("k", "Exists"),), (Requirement("metadata.name", "In", ("n",)),)),
    ),
    "tolerations": (
        with_spec(tolerations=[{"key": "k", "operator": "Exists"}, {"key": "j", "value": "v", "effect": "NoExecute"}]),
        "tolerations",
        (Toleration("k", "Exists"), Toleration("j", "Equal", "v", "NoExecute")),
    ),
    "host ports": (
        with_spec(containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 1}]}]),
        "ports",
        (("TCP", 8080),),
    ),
    "every port of the host's network": (
        with_spec(hostNetwork=True, containers=[{"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]),
        "ports",
        (("UDP", 80),),
    ),
    "neighbours": (
        with_spec(affinity={"podAntiAffinity": {REQUIRED: [NEAR]}}),
        "neighbours",
        (Neighbours("zone", (Requirement("a", "In", ("b",)),), anti=True),),
    ),
    "neighbours with the pod's own label": (
        with_spec(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone", "matchLabelKeys": ["app"]}]}}),
        "neighbours",
        (Neighbours("zone", (Requirement("app", "In", ("web",)),)),),
    ),
    "what is not supported is said by name": (
        with_spec(affinity={"podAffinity": {REQUIRED: [{**NEAR, "namespaceSelector": {}}]}}),
        "obstacle",
        "the pod cannot be read: spec.affinity.podAffinity: namespaceSelector is not supported; name the namespaces",
    ),
}


@pytest.mark.parametrize(("document", "field", "want"), PLACES.values(), ids=PLACES)
def test_places(document, field, want):
    assert getattr(read(document), field) == want


def test_a_share_of_two_devices():
    said = {labels.GPU_FRACTION: "0.5", labels.GPU_FRACTION_DEVICES: "2"}
    demand = read(pod("a", said=said))
    assert (demand.portion, demand.gpu_devices, demand.gpu_memory) == (0.5, 2, 0)


def test_a_quantity_that_is_none_becomes_an_obstacle():
    assert read(pod("a", cpu="lots")).obstacle.startswith("the pod cannot be read: quantities must match")


def test_pods_that_ask_for_the_same_share_one_demand():
    demands = Demands()
    assert demands.of(pod("a", cpu="1")) is demands.of(pod("b", cpu="1"))
    assert demands.of(pod("a", cpu="1")) is not demands.of(pod("a", cpu="2"))
    assert demands.of(pod("a")) is not demands.of(pod("a"), Storage(("n",)))
    for field in ({"hostNetwork": True}, {"resourceClaims": [{"name": "c"}]}):
        other = pod("a")
        assert demands.of(pod("a")) is not demands.of({**other, "spec": {**other["spec"], **field}})
    assert demands.of(pod("a")) is demands.of(pod("a"), ANYWHERE)
