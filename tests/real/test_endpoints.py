"""Endpoints and EndpointSlices: both control planes write the same shape for the same services and pods."""

import time

import pytest

from tests.conformance.kube import FULL

from .conftest import eventually
from .referee import Side, differences, ours

pytestmark = pytest.mark.real

NAMESPACE, MERGE = "/api/v1/namespaces/ends", "application/merge-patch+json"
PORTS = [
    {"name": "http", "port": 80, "targetPort": "web"},
    {"name": "m", "port": 90, "protocol": "UDP", "appProtocol": "x"},
]
SERVICES = {
    "plain": {"ports": PORTS},
    "headless": {"ports": PORTS, "clusterIP": "None"},
    "early": {"ports": PORTS, "clusterIP": "None", "publishNotReadyAddresses": True},
    "bare": {"clusterIP": "None"},
    "unselective": {"ports": PORTS, "selector": None},
}
# Name, address, phase, and whether it is ready.
PODS = (("a", "10.1.0.1", "Running", True), ("b", "10.1.0.2", "Running", False), ("c", "10.1.0.3", "Succeeded", True))
LEAVING = ("d", "10.1.0.4", "Running", True)
VOLATILE = ("uid", "resourceVersion", "managedFields", "creationTimestamp", "name", "annotations")


def fill(side):
    zone = {"topology.kubernetes.io/zone": "east"}
    side.ask("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": zone}})
    side.ask("POST", "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ends"}})
    assert eventually(lambda: side.ask("GET", f"{NAMESPACE}/serviceaccounts/default").code == 200)
    for name, spec in SERVICES.items():
        metadata = {"name": name, "labels": {"team": "x"}}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "a"}, **spec}}
        assert side.ask("POST", f"{NAMESPACE}/services", body).code == 201
    for pod in (*PODS, LEAVING):
        run(side, *pod)
    side.ask("DELETE", f"{NAMESPACE}/pods/d")


def run(side, name, address, phase, ready):
    container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
    spec = {"containers": [container], "nodeName": "n", "hostname": name, "subdomain": "headless"}
    metadata = {"name": name, "labels": {"app": "a"}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "terminationGracePeriodSeconds": 600},
    }
    assert side.ask("POST", f"{NAMESPACE}/pods", body).code == 201
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    assert side.ask("PATCH", f"{NAMESPACE}/pods/{name}/status", {"status": status}, MERGE).code == 200


def written(side):
    """Everything both controllers wrote, by service; ports by name: upstream orders them by a hash."""
    slices = side.ask("GET", "/apis/discovery.k8s.io/v1/namespaces/ends/endpointslices").shape[1]["items"]
    older = side.ask("GET", f"{NAMESPACE}/endpoints").shape[1]["items"]
    found = {one["metadata"]["labels"]["kubernetes.io/service-name"]: plain(one) for one in slices}
    return found | {f"{one['metadata']['name']}, as Endpoints": plain(one) for one in older}


def plain(document):
    metadata = {name: value for name, value in document["metadata"].items() if name not in VOLATILE}
    ports = sorted(document.get("ports") or (), key=lambda port: port["name"])
    return {**document, "metadata": {**metadata, "generation": None}, "ports": ports}


def test_what_stands_behind_services_is_told_in_the_same_shape(cluster):
    real = Side(cluster.server)
    with ours(FULL) as our:
        for side in (real, our):
            fill(side)
        time.sleep(1)  # both may still say what was before
        eventually(lambda: written(real) == written(our), 20)
        assert differences(written(real), written(our)) == []
