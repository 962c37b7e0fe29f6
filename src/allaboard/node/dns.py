"""Domain names, as much as pods ask: one question, answered with addresses, with nothing, or with "no such name"."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping

from allaboard.api.documents import Document, dig
from allaboard.api.meta import labels_of, name_of, namespace_of
from allaboard.node.hosts import DOMAIN, names_of

A, PTR, AAAA = 1, 12, 28
NO_ERROR, NO_SUCH_NAME = 0, 3
SECONDS = 5


def answer(question: bytes, resolve: Callable[[str], list[str] | None]) -> bytes:
    """The reply to one packet; empty where it is no question."""
    if len(question) < 17:
        return b""
    name, place = _read_name(question, 12)
    if place + 4 > len(question):
        return b""
    kind = struct.unpack_from("!H", question, place)[0]
    asked = question[12 : place + 4]
    found = resolve(name.lower())
    records = [_address(address) for address in found or []] if kind == A else []
    code = NO_SUCH_NAME if found is None else NO_ERROR
    flags = 0x8580 | code  # an answer, of authority, recursion offered
    head = question[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
    return head + asked + b"".join(records)


def _read_name(packet: bytes, place: int) -> tuple[str, int]:
    labels = []
    while place < len(packet) and packet[place] and packet[place] < 64:
        length = packet[place]
        labels.append(packet[place + 1 : place + 1 + length].decode("latin-1"))
        place += 1 + length
    return ".".join(labels), place + 1


def _address(text: str) -> bytes:
    packed = bytes(int(part) for part in text.split("."))
    # 0xC00C: the name asked for, which stands right behind the head.
    return struct.pack("!HHHIH", 0xC00C, A, 1, SECONDS, 4) + packed


def lookup(name: str, pods: Iterable[tuple[Document, str]], services: Iterable[Document], api: str) -> list[str] | None:
    """Every address of a name: a pod's, a service's own, or (a headless one's) those of the pods it selects."""
    name = name.removesuffix(".")
    known = [(pod, address) for pod, address in pods if address]
    for pod, address in known:
        if "." in name and name in names_of(pod):
            return [address]
    inner = name.removesuffix(f".svc.{DOMAIN}") if name.endswith(f".svc.{DOMAIN}") else name.removesuffix(".svc")
    if inner == "kubernetes.default":
        return [api]
    parts = inner.split(".")
    if len(parts) != 2:
        return None
    for service in services:
        if (name_of(service), namespace_of(service)) == (parts[0], parts[1]):
            own = dig(service, "spec", "clusterIP", default="None")
            return _selected(service, known) if own in ("", "None") or ":" in own else [own]
    return None


def _selected(service: Document, pods: Iterable[tuple[Document, str]]) -> list[str]:
    selector: Mapping[str, str] = dig(service, "spec", "selector", default={})
    space = namespace_of(service)
    return [
        address
        for pod, address in pods
        if namespace_of(pod) == space and selector and all(labels_of(pod).get(k) == v for k, v in selector.items())
    ]
