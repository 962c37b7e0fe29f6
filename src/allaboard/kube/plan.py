"""A decision, written down: what a controller wants done, as data that can be printed, compared and carried out.

Structs, because they are made at every turn: a frozen dataclass takes many times as long to make.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.kube.client import PatchType


class Apply(Struct, frozen=True):
    """Server-side apply of a document, by force: the controller owns what it states."""

    kind: Kind
    document: Document
    subresource: str = ""


class Create(Struct, frozen=True):
    """Create a document; that it exists already is no error (a repeated plan is harmless)."""

    kind: Kind
    document: Document


class Update(Struct, frozen=True):
    """Replace a document; its resourceVersion must still be current, else the pass is repeated."""

    kind: Kind
    document: Document
    subresource: str = ""


class Patch(Struct, frozen=True):
    """Change part of a document; that it is gone is no error."""

    kind: Kind
    key: Key
    body: object
    type: PatchType = PatchType.MERGE
    subresource: str = ""


class Delete(Struct, frozen=True):
    """Ask for deletion; that it is gone is no error. A uid protects a namesake."""

    kind: Kind
    key: Key
    uid: str = ""
    propagation: str = ""
    grace: int | None = None


class Bind(Struct, frozen=True):
    """Tell a pod its node."""

    pod: Key
    uid: str
    node: str


class Status(Struct, frozen=True):
    """Write the document's status (through the subresource); its resourceVersion must still be current."""

    kind: Kind
    document: Document


class Event(Struct, frozen=True):
    """Words for people about an object."""

    regarding: Document
    reason: str
    message: str
    type: str = "Normal"
    action: str = ""
    is_fact: bool = False  # true once objects are written, whatever becomes of the status
    instant: bool = False  # told by its moment (`eventTime`) and reporter, without a source, as kube-scheduler tells


class Plan(Struct, frozen=True):
    """What to do, in the order it is done: objects first, status once, words last; then come back `again`.

    Within one field the order is free: the loop carries out its entries concurrently. Each group of `together`
    is created whole or not at all.
    """

    apply: tuple[Apply, ...] = ()
    create: tuple[Create, ...] = ()
    together: tuple[tuple[Document, ...], ...] = ()
    update: tuple[Update, ...] = ()
    patch: tuple[Patch, ...] = ()
    bind: tuple[Bind, ...] = ()
    delete: tuple[Delete, ...] = ()
    status: tuple[Status, ...] = ()
    events: tuple[Event, ...] = ()
    again: datetime | None = None

    def __add__(self, other: Plan) -> Plan:
        """Both plans in one; the earlier `again` wins."""
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Plan(
            self.apply + other.apply,
            self.create + other.create,
            self.together + other.together,
            self.update + other.update,
            self.patch + other.patch,
            self.bind + other.bind,
            self.delete + other.delete,
            self.status + other.status,
            self.events + other.events,
            _earlier(self.again, other.again),
        )

    def __bool__(self) -> bool:
        objects = self.apply or self.create or self.together or self.update or self.patch or self.bind or self.delete
        return bool(objects or self.status or self.events or self.again)


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


NOTHING = Plan()
