"""The contracts: how a room reads a cluster, and how the loop writes to it.

Two backends satisfy them: `cluster/inside.py` (the same verbs as the server, no wire) and `kube/http.py` (any
Kubernetes API server). Errors are those of `api/errors.py` in both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.api.queries import EVERYTHING as EVERYTHING
from allaboard.api.queries import Change as Change
from allaboard.api.queries import Listing as Listing
from allaboard.api.queries import Select as Select


class PatchType(StrEnum):
    """How a patch body is to be read; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Reader(Protocol):
    """All a controller is given: it can look, and has no way to write."""

    async def get(self, kind: Kind, key: Key) -> Document | None:
        """The document, or None where there is none."""

    async def list(self, kind: Kind, select: Select = EVERYTHING) -> Documents:
        """Every document selected, ordered by namespace and name."""

    async def owned(self, kind: Kind, owner: Document) -> Documents:
        """The documents of this kind in the owner's namespace whose controller reference is the owner's uid."""


class Writer(Protocol):
    """What the loop may do with a plan. `manager` is the field manager (and who to blame)."""

    async def create(self, kind: Kind, document: Document, *, manager: str) -> Document: ...

    async def update(self, kind: Kind, document: Document, *, manager: str, subresource: str = "") -> Document:
        """Replace the document; its resourceVersion, when present, must be the current one."""

    async def patch(
        self, kind: Kind, key: Key, body: object, *, type: PatchType, manager: str, subresource: str = ""
    ) -> Document: ...

    async def apply(
        self, kind: Kind, document: Document, *, manager: str, force: bool = True, subresource: str = ""
    ) -> Document:
        """Server-side apply."""

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", propagation: str = "", grace: int | None = None
    ) -> None:
        """Ask for deletion; a uid makes it conditional. NotFound where there is nothing."""

    async def together(self, documents: Sequence[Document], *, manager: str) -> Documents:
        """Create all of these or none: one transaction embedded; on a cluster taken back at the first failure."""

    async def bind(self, pod: Key, uid: str, node: str) -> None:
        """Tell the pod its node, through the Binding subresource."""


@runtime_checkable
class Batch(Protocol):
    """A writer that can do many writes with one commit; the loop uses it where it is there."""

    async def many(self, writes: Sequence[tuple[Kind, Document]], *, manager: str) -> list[Document | ApiError] | None:
        """Create each of these; the answer to each is its document or its refusal. None: create them one by one."""

    async def apply_new(
        self, writes: Sequence[tuple[Kind, Document]], *, manager: str
    ) -> list[Document | ApiError] | None:
        """Apply each of these, by force, where none of them exists. None: apply them one by one."""

    async def bind_many(self, binds: Sequence[tuple[Key, str, str]]) -> list[ApiError | None]:
        """Tell each pod (key and uid) its node; the answer to each is its refusal, if any."""

    async def delete_many(self, kind: Kind, deletions: Sequence[tuple[Key, str]]) -> list[ApiError | None] | None:
        """Ask each of these (key and uid) to go, in the kind's own way. None: delete them one by one."""


class Watcher(Protocol):
    """The stream side: list once, then follow."""

    async def listing(self, kind: Kind, select: Select = EVERYTHING) -> Listing: ...

    def watch(self, kind: Kind, since: str, select: Select = EVERYTHING) -> AsyncIterator[Sequence[Change]]:
        """Batches of changes after a revision, in order, without end; raises `Gone` when history is too short."""


class Client(Reader, Writer, Watcher, Protocol):
    """Everything an edge may do."""
