"""The loop: a key is due, its controller decides, the plan is carried out, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.api.meta import controller_of, key_of, namespace_of, refers_to
from allaboard.kube.plan import Plan


def own_key(document: Document) -> Iterable[Key]:
    """The document's own key: for the kind a controller is about."""
    return (key_of(document),)


def controller_key(kind: Kind) -> Callable[[Document], Iterable[Key]]:
    """The key of the owner of this kind that manages a document: for what a controller makes."""

    def keys(document: Document) -> Iterable[Key]:
        owner = controller_of(document)
        return (Key(namespace_of(document), owner["name"]),) if owner and refers_to(owner, kind) else ()

    return keys


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind to follow, and which keys are due when a document of it changes.

    `keys` is asked about the old and the new document, so an object that moves wakes both owners.
    """

    kind: Kind
    keys: Callable[[Document], Iterable[Key]] = own_key


class Controller(Protocol):
    """Load the facts and decide. It is handed a `Reader` and has no way to write."""

    name: str  # field manager, event source, metrics label
    watches: tuple[Watch, ...]

    async def reconcile(self, key: Key) -> Plan: ...
