"""The contract of the store: items at revisions, changes in order, and a journal that makes them last.

The truth is in memory (`memory.py`); a journal (`sqlite.py`, or none) makes transactions durable. Writers see the
*head*, which runs ahead of what is committed; readers, watches and answers see committed revisions only. The order
is always: commit, publish, answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from allaboard.api.documents import Document, Key
from allaboard.cluster.packing import Pieces, restamped

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Document).decode


class _Reference(msgspec.Struct, gc=False):
    uid: str = ""


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletionTimestamp: str | None = None  # noqa: N815 - the wire's name
    ownerReferences: list[_Reference] | None = None  # noqa: N815 - the wire's name


class _Envelope(msgspec.Struct, gc=False):
    metadata: _Meta


_NONE: dict[str, str] = {}
_peek = msgspec.json.Decoder(_Envelope).decode


class Item:
    """One object at one revision: its canonical bytes and the little that lookups need; never changed.

    The bytes may be held in pieces: the owners of fields are the same text in every pod of a template.
    """

    __slots__ = ("_held", "document", "is_leaving", "key", "labels", "owners", "revision", "uid")

    def __init__(self, key: Key, revision: int, data: bytes | Pieces, document: Document | None = None) -> None:
        self.key = key
        self.revision = revision
        self._held = data
        self.document = document  # decoded form, kept while it is recent; `Store.document` brings it back
        if document is None:
            self._read(self.data)
            return
        metadata = document["metadata"]
        self.uid: str = metadata.get("uid", "")
        self.labels: dict[str, str] = metadata.get("labels") or _NONE
        self.is_leaving = bool(metadata.get("deletionTimestamp"))
        owners = metadata.get("ownerReferences")
        self.owners: tuple[str, ...] = tuple([owner.get("uid", "") for owner in owners]) if owners else ()

    @property
    def data(self) -> bytes:
        held = self._held
        return held if isinstance(held, bytes) else b"".join(held)

    @property
    def size(self) -> int:
        """How many bytes are held for this item alone."""
        held = self._held
        return len(held) if isinstance(held, bytes) else sum(map(len, held[::2]))

    def moved_to(self, revision: int, document: Document) -> Item:
        """The same object, as this document says it, at another revision."""
        return Item(self.key, revision, restamped(self._held, self.revision, revision), document)

    def starts_with(self, prefix: bytes) -> bool:
        held = self._held
        return (held if isinstance(held, bytes) else held[0]).startswith(prefix)

    def _read(self, data: bytes) -> None:
        metadata = _peek(data).metadata
        self.uid = metadata.uid
        self.labels = metadata.labels or _NONE
        self.is_leaving = bool(metadata.deletionTimestamp)
        self.owners = tuple(owner.uid for owner in metadata.ownerReferences or ())


class Happening(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One change of one object: what it is now (for DELETED: what it last was) and what it was before."""

    type: ChangeType
    table: str
    item: Item
    before: Item | None

    @property
    def weight(self) -> int:
        """The bytes that nothing but the memory of this change keeps."""
        past = self.before.size if self.before is not None else 0
        return past + self.item.size if self.type == "DELETED" else past


Transaction = Sequence[Happening]


class Row(NamedTuple):
    """One stored object, as a journal gives it back at the start."""

    table: str
    key: Key
    revision: int
    data: bytes


class Journal(Protocol):
    """Makes transactions last, in the order they were submitted."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """The revision to go on from, higher than any ever handed out, and every object."""

    def open(self, publish: Callable[[Transaction], None], undo: Callable[[], None]) -> None:
        """Whom to tell: `publish` for each committed transaction in order; `undo` when what is pending is lost."""

    def submit(self, transaction: Transaction) -> Awaitable[None]:
        """Queue a transaction; the answer comes after it was committed and published, or raises `NoSpace`."""

    def close(self) -> None: ...


class Done:
    """An answer that is there already."""

    __slots__ = ()

    def __await__(self):  # type: ignore[no-untyped-def]
        return iter(())


DONE: Awaitable[None] = Done()


class NoJournal:
    """Durability `memory`: a transaction is committed by being published."""

    def __init__(self) -> None:
        self._publish: Callable[[Transaction], None] = lambda transaction: None

    def load(self) -> tuple[int, Iterable[Row]]:
        return 0, ()

    def open(self, publish: Callable[[Transaction], None], undo: Callable[[], None]) -> None:
        self._publish = publish

    def submit(self, transaction: Transaction) -> Awaitable[None]:
        self._publish(transaction)
        return DONE

    def close(self) -> None:
        pass
