"""What every cluster has from its first start: namespaces, the API server's own service, the system's priorities."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.kinds import PRIORITY_CLASS
from allaboard.upkeep import roles

MANAGER = "kube-apiserver"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# Upstream: scheduling.SystemPriorityClasses; the words are part of the API.
PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def objects(port: int) -> list[Document]:
    """The documents to create where they are missing, in this order; `port` is where the server listens."""
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    priorities = [_priority(name, *facts) for name, facts in PRIORITIES.items()]
    return [*spaces, *priorities, *roles.objects(), _service(port)]


def _priority(name: str, value: int, words: str) -> Document:
    body = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind, "metadata": {"name": name}}
    return {**body, "value": value, "description": words}


def _service(port: int) -> Document:
    """How pods know the API server; it has no selector, so nobody looks for pods behind it."""
    metadata = {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    }
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports, "type": "ClusterIP"}}
