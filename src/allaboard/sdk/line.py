"""The line of those who wait, as it stands at the moment of asking.

The scheduler writes a gang's place when it refuses it, and not again for everybody whenever somebody leaves the line.
Who waits where, and with which rank, is on the PodGroups; so places are counted when somebody wants to know them, and
no two jobs ever have the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.documents import Document, Documents, dig, replace
from allaboard.api.meta import name_of, namespace_of

NAMED = 3  # how many of those ahead are named


def in_line(groups: Sequence[Document]) -> Documents:
    """The same PodGroups; what those who wait say about their place is what it is now."""
    queues: dict[str, list[Document]] = {}
    for group in groups:
        if _why(group).get("verdict") == "Waiting":
            queues.setdefault(str(dig(group, "spec", "queue", default="")), []).append(group)
    places: dict[tuple[str, str], Document] = {}
    for name, waiting in queues.items():
        queues[name] = waiting = sorted(waiting, key=_turn)
        for place, group in enumerate(waiting, start=1):
            ahead = [name_of(other) for other in waiting[max(0, place - 1 - NAMED) : place - 1]]
            places[_id(group)] = {"position": place, "waiting": len(waiting), "ahead": ahead}
    for place, group in enumerate(_overall(queues), start=1):
        places[_id(group)] |= {"overall": place, "waitingOverall": sum(map(len, queues.values()))}
    return [_told(group, places.get(_id(group))) for group in groups]


def _why(group: Document) -> Document:
    found: Document = dig(group, "status", "aboard", "why", default={}) or {}
    return found


def _id(group: Document) -> tuple[str, str]:
    return namespace_of(group), name_of(group)


def _turn(group: Document) -> tuple[int, str, str]:
    """The order inside a queue: rank, then age, then name."""
    priority = int(_why(group).get("priority") or 0)
    return -priority, str(dig(group, "metadata", "creationTimestamp", default="")), name_of(group)


def _overall(queues: dict[str, list[Document]]) -> Documents:
    """All who wait: queues take turns as the scheduler last saw it, each in its own order."""
    everybody = [group for waiting in queues.values() for group in waiting]
    everybody.sort(key=lambda group: (int(_why(group).get("overall") or 0), _turn(group)))
    lines = {name: iter(waiting) for name, waiting in queues.items()}
    return [next(lines[str(dig(group, "spec", "queue", default=""))]) for group in everybody]


def _told(group: Document, place: Document | None) -> Document:
    return group if place is None else replace(group, "status", "aboard", "why", value={**_why(group), **place})
