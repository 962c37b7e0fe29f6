"""Replace in place, else append: how lists of named things take in new ones (seed 000, algorithm 3).

The lists belong to the caller and are changed where they stand; their items are never changed, only replaced.
"""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Documents


def env(existing: Documents, new: Iterable[Document]) -> None:
    """Environment variables, by name."""
    _upsert(existing, new, "name")


def volumes(existing: Documents, new: Iterable[Document]) -> None:
    """Volumes, by name."""
    _upsert(existing, new, "name")


def mounts(existing: Documents, new: Iterable[Document]) -> None:
    """Volume mounts, by path: one volume may be mounted twice (ruling 16)."""
    _upsert(existing, new, "mountPath")


def ports(existing: Documents, new: Iterable[Document]) -> None:
    """Container ports, by number and protocol or by name; one without a name swallows no other (defect 17)."""
    for port in new:
        index = next((index for index, old in enumerate(existing) if _is_same_port(old, port)), None)
        if index is None:
            existing.append(port)
        else:
            existing[index] = port


def _is_same_port(old: Document, new: Document) -> bool:
    if old.get("name") and old.get("name") == new.get("name"):
        return True
    return all(old.get(member, default) == new.get(member, default) for member, default in _PORT)


_PORT = (("containerPort", None), ("protocol", "TCP"))


def _upsert(existing: Documents, new: Iterable[Document], member: str) -> None:
    at: dict[str | None, int] = {}
    for index, item in enumerate(existing):
        at.setdefault(item.get(member), index)
    for item in new:
        if (place := at.get(item.get(member))) is not None:
            existing[place] = item
        else:
            at[item.get(member)] = len(existing)
            existing.append(item)
