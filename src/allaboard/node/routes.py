"""Where a service's own address leads: its ports, and the pods behind each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from allaboard.api.documents import Document, dig
from allaboard.api.meta import is_leaving, labels_of, namespace_of


@dataclass(frozen=True, slots=True)
class Door:
    """One port of a service: where it is knocked at, and the port (or its name) behind."""

    address: str
    port: int
    target: str


def doors(service: Document) -> frozenset[Door]:
    """The TCP ports of a service with an address of its own; datagrams are not carried."""
    address = dig(service, "spec", "clusterIP", default="None")
    if address in ("", "None") or ":" in address or dig(service, "spec", "type") == "ExternalName":
        return frozenset()
    return frozenset(
        Door(address, int(port["port"]), str(port.get("targetPort") or port["port"]))
        for port in dig(service, "spec", "ports", default=[])
        if port.get("protocol", "TCP") == "TCP"
    )


def backends(service: Document, door: Door, pods: Iterable[tuple[Document, str]]) -> list[tuple[str, int]]:
    """Who may answer at a door: the ready pods the service selects, each at its own port, in a steady order."""
    selector = dig(service, "spec", "selector", default={})
    early = bool(dig(service, "spec", "publishNotReadyAddresses"))
    found = []
    for pod, address in pods:
        chosen = namespace_of(pod) == namespace_of(service) and selector.items() <= labels_of(pod).items()
        port = _port(pod, door.target)
        if selector and chosen and address and port and (early or _is_ready(pod)):
            found.append((address, port))
    return sorted(found)


def _is_ready(pod: Document) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return not is_leaving(pod) and any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _port(pod: Document, target: str) -> int:
    if target.isdigit():
        return int(target)
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or [])
    return next((int(port["containerPort"]) for port in ports if port.get("name") == target), 0)
