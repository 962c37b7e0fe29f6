"""The shapes we read: a Kubernetes object is a plain JSON document, named by a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

# A document is never changed after it was handed over: copy the path you change (`replace`), share the rest.
Document = dict[str, Any]
Documents = list[Document]


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a document lives: its namespace ("" for cluster-scoped kinds) and its name.

    Keys are made at every turn: a struct is made several times as fast as a named tuple, and holds half the memory.
    """

    namespace: str
    name: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.namespace, self.name))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def dig(document: Any, *path: str | int, default: Any = None) -> Any:
    """The value at a path, or the default where the path ends early: `dig(pod, "spec", "containers", 0)`."""
    for step in path:
        if type(document) is dict:  # nearly always, and often without the key: an exception would cost more
            document = document.get(step)
            continue
        if document is None:
            return default
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return default
    return default if document is None else document


def same_fields(one: Document, other: Document, names: Iterable[str]) -> bool:
    """Whether two documents say the same, or nothing, in all of these fields."""
    return list(map(one.get, names)) == list(map(other.get, names))


def replace(document: Document, *path: str, value: Any) -> Document:
    """A copy of the document with the value at the path; only the dicts along the path are copied."""
    copy = dict(document)
    head, rest = path[0], path[1:]
    copy[head] = replace(copy.get(head) or {}, *rest, value=value) if rest else value
    return copy


def without(document: Document, *path: str) -> Document:
    """A copy of the document with nothing at the path."""
    head, rest = path[0], path[1:]
    if head not in document:
        return document
    copy = dict(document)
    if rest:
        copy[head] = without(copy[head] or {}, *rest)
    else:
        del copy[head]
    return copy
