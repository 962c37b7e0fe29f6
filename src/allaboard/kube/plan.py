"""A decision, written down: what a controller wants done, as data that can be printed, compared and carried out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.kube.client import PatchType


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of a document, by force: the controller owns what it states."""

    kind: Kind
    document: Document
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a document; that it exists already is no error (a repeated plan is harmless)."""

    kind: Kind
    document: Document


@dataclass(frozen=True, slots=True)
class Update:
    """Replace a document; its resourceVersion must still be current, else the pass is repeated."""

    kind: Kind
    document: Document
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Change part of a document; that it is gone is no error."""

    kind: Kind
    key: Key
    body: object
    type: PatchType = PatchType.MERGE
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask for deletion; that it is gone is no error. A uid protects a namesake."""

    kind: Kind
    key: Key
    uid: str = ""
    propagation: str = ""
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """Tell a pod its node."""

    pod: Key
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Status:
    """Write the document's status (through the subresource); its resourceVersion must still be current."""

    kind: Kind
    document: Document


@dataclass(frozen=True, slots=True)
class Event:
    """Words for people about an object."""

    regarding: Document
    reason: str
    message: str
    type: str = "Normal"
    action: str = ""
    instant: bool = False  # told by its moment (`eventTime`) and reporter, without a source, as kube-scheduler tells


@dataclass(frozen=True, slots=True)
class Plan:
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
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "again"}
        moments = [moment for moment in (self.again, other.again) if moment is not None]
        return Plan(**sums, again=min(moments, default=None))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))


NOTHING = Plan()
