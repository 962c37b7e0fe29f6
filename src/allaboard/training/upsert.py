"""Replace in place, else append: how lists of named things take in new ones (seed 000, algorithm 3).

The lists belong to the caller and are changed where they stand; their items are never changed, only replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from allaboard.api.documents import Document, Documents


def env(existing: Documents, new: Iterable[Document]) -> None:
    """Environment variables, by name."""
    _upsert(existing, new, _name)


def volumes(existing: Documents, new: Iterable[Document]) -> None:
    """Volumes, by name."""
    _upsert(existing, new, _name)


def mounts(existing: Documents, new: Iterable[Document]) -> None:
    """Volume mounts, by path: one volume may be mounted twice (ruling 16)."""
    _upsert(existing, new, lambda mount: mount.get("mountPath"))


def ports(existing: Documents, new: Iterable[Document]) -> None:
    """Container ports, by number and protocol, so that an unnamed port never swallows another (defect 17)."""
    _upsert(existing, new, lambda port: (port.get("containerPort"), port.get("protocol") or "TCP"))


def _name(item: Document) -> Hashable:
    return str(item.get("name"))


def _upsert(existing: Documents, new: Iterable[Document], key: Callable[[Document], Hashable]) -> None:
    at: dict[Hashable, int] = {}
    for index, item in enumerate(existing):
        at.setdefault(key(item), index)
    for item in new:
        if (place := at.get(key(item))) is not None:
            existing[place] = item
        else:
            at[key(item)] = len(existing)
            existing.append(item)
