"""Queues as a tree: what each deserves, may have, holds and is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document, dig
from allaboard.api.meta import name_of
from allaboard.api.quantity import BadQuantity, parse

UNLIMITED = -1.0
RESOURCES = ("gpu", "cpu", "memory")
# What one is, in devices, processors and Gi: in a Queue's spec, in the scheduler's numbers, in a status.
WRITTEN = {"gpu": 1.0, "cpu": 0.001, "memory": 10**6 / 2**30}
COUNTED = {"gpu": 1.0, "cpu": 0.001, "memory": 1 / 2**30}
STATED = {"gpu": 1.0, "cpu": 1.0, "memory": 1 / 2**30}


@dataclass(frozen=True, slots=True)
class Branch:
    """One queue at its place in the tree. -1 is no limit; a `share` of None is not known."""

    name: str
    depth: int
    deserved: float
    limit: float
    share: float | None
    used: float
    asked: float
    waiting: int

    @property
    def state(self) -> str:
        """What it has beyond its own, or does not use of it."""
        if self.deserved == UNLIMITED:
            return ""
        over = round(self.used - self.deserved, 3)
        if over:
            return f"borrowing {over:g}" if over > 0 else f"{-over:g} of its own unused"
        return ""


def tree(
    queues: Sequence[Document], groups: Iterable[Document], shares: Mapping[str, Mapping[str, float]], resource: str
) -> list[Branch]:
    """Every queue below its parent; one without a parent, or whose parent is gone, stands at the top."""
    order = list(_walk(_children(queues), "", 0))
    waits = _waiting(groups)
    return [
        _branch(queue, depth, shares, resource, sum(waits[name_of(q)] for q in _with_those_below(order, place)))
        for place, (depth, queue) in enumerate(order)
    ]


def _children(queues: Sequence[Document]) -> dict[str, list[Document]]:
    names = {name_of(queue) for queue in queues}
    below: dict[str, list[Document]] = {}
    for queue in sorted(queues, key=name_of):
        parent = str(dig(queue, "spec", "parentQueue", default=""))
        below.setdefault(parent if parent in names else "", []).append(queue)
    return below


def _walk(below: Mapping[str, list[Document]], parent: str, depth: int) -> Iterator[tuple[int, Document]]:
    for queue in below.get(parent, []):
        yield depth, queue
        yield from _walk(below, name_of(queue), depth + 1)


def _with_those_below(order: Sequence[tuple[int, Document]], place: int) -> Iterator[Document]:
    top, queue = order[place]
    yield queue
    for depth, other in order[place + 1 :]:
        if depth <= top:
            return
        yield other


def _waiting(groups: Iterable[Document]) -> Counter[str]:
    """How many gangs wait in each queue: those with pods to place and none placed."""
    waits = (
        g for g in groups if dig(g, "status", "pending", default=0) and not dig(g, "status", "allocated", default=0)
    )
    return Counter(str(dig(group, "spec", "queue", default="")) for group in waits)


def _branch(
    queue: Document, depth: int, shares: Mapping[str, Mapping[str, float]], resource: str, waiting: int
) -> Branch:
    said = dig(queue, "spec", "resources", resource, default={})
    share = shares.get(name_of(queue), {}).get(resource)
    return Branch(
        name_of(queue),
        depth,
        _limit(said.get("quota", 0), resource),
        _limit(said.get("limit", UNLIMITED), resource),
        None if share is None else share * COUNTED[resource],
        held(dig(queue, "status", "allocated", default={}), resource),
        held(dig(queue, "status", "requested", default={}), resource),
        waiting,
    )


def _limit(number: float, resource: str) -> float:
    return UNLIMITED if number < 0 else number * WRITTEN[resource]


def held(amounts: Mapping[str, str], resource: str) -> float:
    """How much of a resource a list of quantities says; devices of every vendor are devices."""
    found = [value for name, value in amounts.items() if name == resource or (resource == "gpu" and "gpu" in name)]
    try:
        return float(sum(float(parse(value)) for value in found) * STATED[resource])
    except BadQuantity:
        return 0.0


def capacity(nodes: Iterable[Document], resource: str) -> float:
    """What all nodes offer of a resource."""
    return sum(held(dig(node, "status", "allocatable", default={}), resource) for node in nodes)
