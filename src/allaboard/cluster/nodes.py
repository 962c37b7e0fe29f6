"""Reaching a pod where it runs: the contract of the call function that main hands in, and the paths it is given.

The paths are a kubelet's: `/containerLogs/NS/POD/CONTAINER`, `/exec/…`, `/attach/…`, `/portForward/NS/POD`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest
from allaboard.cluster import refusals
from allaboard.cluster.ask import Place
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import check_log_options, log_container

Message = MutableMapping[str, object]
STATS = "/stats/summary"  # what the pods of a node use
STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A node's answer: code, content type, and the body as it comes."""

    code: int
    type: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Socket:
    """A client's WebSocket, as ASGI gives it: the protocols it offers, and how to talk to it."""

    protocols: Sequence[str]
    receive: Callable[[], Awaitable[Message]]
    send: Callable[[Message], Awaitable[None]]


class Nodes(Protocol):
    """How main lets the server reach a node; `target` is a path with its query."""

    async def fetch(self, node: Document, target: str) -> Fetched: ...

    async def relay(self, node: Document, target: str, socket: Socket) -> None:
        """Connect the client's socket with the node's until either closes."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where a request about a running pod goes."""

    node: Document
    target: str


def way_to_log(cluster: Cluster, place: Place, query: Mapping[str, Sequence[str]]) -> Way | None:
    """Where a container's log is; None while the pod has no node, so no log."""
    pod = pod_at(cluster, place)
    check_log_options(place.key.name, query)
    container = log_container(pod, (query.get("container") or [""])[0])
    if not pod["spec"].get("nodeName"):
        return None
    kept = {name: values for name, values in query.items() if name != "container"}
    return Way(node_of(cluster, pod), _target("containerLogs", place.key, container, kept))


def way_to_process(cluster: Cluster, place: Place, query: Mapping[str, Sequence[str]]) -> Way:
    """Where exec, attach and port-forward of a pod go."""
    pod = pod_at(cluster, place)
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {place.key.name} does not have a host assigned")
    if place.subresource == "portforward":
        return Way(node_of(cluster, pod), _target("portForward", place.key, "", query))
    container = (query.get("container") or [""])[0] or _first_container(pod)
    log_container(pod, container)
    kept = {name: values for name, values in query.items() if name != "container"}
    return Way(node_of(cluster, pod), _target(place.subresource, place.key, container, kept))


def not_running(cluster: Cluster, place: Place, query: Mapping[str, Sequence[str]]) -> str:
    """A kubelet's words for a container in which nothing can be run just now; "" where it runs."""
    pod = pod_at(cluster, place)
    name = (query.get("container") or [""])[0] or _first_container(pod)
    status = pod.get("status") or {}
    known = [one for field in STATUSES for one in status.get(field) or () if one.get("name") == name]
    running = place.subresource == "portforward" or any("running" in (one.get("state") or {}) for one in known)
    return "" if running else f'container not found ("{name}")'


def _first_container(pod: Document) -> str:
    """Upstream: exec without a container means the annotated one, else the first."""
    chosen = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    return str(chosen or pod["spec"]["containers"][0]["name"])


def pod_at(cluster: Cluster, place: Place) -> Document:
    item = cluster.store.table(kinds.POD.resource).get(place.key)
    if item is None:
        raise refusals.not_found(place.rules.kind, place.key.name)
    return cluster.store.document(item)


def node_of(cluster: Cluster, pod: Document) -> Document:
    name = pod["spec"]["nodeName"]
    item = cluster.store.table(kinds.NODE.resource).get(Key("", name))
    if item is None:
        raise refusals.not_found(kinds.POD, name)  # Upstream speaks of a pod here
    return cluster.store.document(item)


def node_named(cluster: Cluster, name: str) -> Document:
    item = cluster.store.table(kinds.NODE.resource).get(Key("", name))
    if item is None:
        raise refusals.not_found(kinds.NODE, name)
    return cluster.store.document(item)


def _target(what: str, key: Key, container: str, query: Mapping[str, Sequence[str]]) -> str:
    path = f"/{what}/{key.namespace}/{key.name}" + (f"/{container}" if container else "")
    return f"{path}?{urlencode(query, doseq=True)}" if query else path
