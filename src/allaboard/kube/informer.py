"""Watched memory: the documents of a kind, kept current by list and watch, with every change told to handlers."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from allaboard.api import selectors
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError, Gone, NotFound
from allaboard.api.kinds import Kind
from allaboard.api.meta import controller_of, key_of, namespace_of, revision_of, uid_of
from allaboard.kube.client import EVERYTHING, Change, Select, Watcher
from allaboard.kube.clock import Clock
from allaboard.kube.queue import backoff

log = logging.getLogger(__name__)

# Told (old, new): None for old is new to us, None for new is gone.
Handler = Callable[[Document | None, Document | None], None]

# How often a kind that is not served is asked for again: somebody may install it.
UNSERVED = timedelta(seconds=15)
_GRAVES = 1000  # deletions remembered of each kind


class Informer:
    """One kind, as last seen. Handlers hear changes in order, also those missed while the watch was broken."""

    def __init__(self, client: Watcher, kind: Kind, clock: Clock, select: Select = EVERYTHING) -> None:
        self.client, self.kind, self.clock, self.select = client, kind, clock, select
        self.documents: dict[Key, Document] = {}
        self._graves: dict[Key, int] = {}
        self.revision = 0
        self.synced = asyncio.Event()
        self._by_namespace: dict[str, dict[Key, Document]] = {}
        self._by_controller: dict[str, dict[Key, Document]] = {}  # "" holds what nobody controls
        self._handlers: list[Handler] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def subscribe(self, handler: Handler) -> None:
        """Hear every change from now on, and everything already known as new."""
        self._handlers.append(handler)
        for document in self.documents.values():
            handler(None, document)

    def in_namespace(self, namespace: str) -> Iterable[Document]:
        """Every document of a namespace; of all for ""."""
        return (self._by_namespace.get(namespace, {}) if namespace else self.documents).values()

    def controlled_by(self, uid: str) -> Iterable[Document]:
        return self._by_controller.get(uid, {}).values()

    async def reached(self, revision: int) -> None:
        """Wait until changes up to a revision have been seen, so that a reader sees its own writes."""
        if revision <= self.revision:
            return
        seen = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, id(seen), seen))
        await seen

    async def run(self) -> None:
        """List, then follow; when the watch breaks, follow on; when history is gone, list again."""
        failures = 0
        while True:
            try:
                await self._list()
                failures = 0
                await self._follow()
            except Gone:
                log.info("watch history is gone; listing again", extra={"kind": self.kind.kind})
            except NotFound:  # the cluster does not serve this kind: there is nothing to know until it does
                self.synced.set()
                await self.clock.sleep_until(self.clock.now() + UNSERVED)
            except (TimeoutError, ApiError, OSError, asyncio.IncompleteReadError) as error:
                failures += 1
                log.debug("list and watch of %s failed: %s", self.kind, error)
                await self.clock.sleep_until(self.clock.now() + max(backoff(failures), timedelta(milliseconds=100)))

    async def _list(self) -> None:
        listing = await self.client.listing(self.kind, self.select)
        current = {key_of(document): _lean(document) for document in listing.items}
        for key in [key for key in self.documents if key not in current]:
            self._forget(key)
        for key, document in current.items():
            old = self.documents.get(key)
            if old is None or revision_of(old) != revision_of(document):
                self._remember(key, document)
        self._advance(int(listing.revision or 0))
        self.synced.set()

    async def _follow(self) -> None:
        while True:
            try:
                async for changes in self.client.watch(self.kind, str(self.revision), self.select):
                    self.take(changes)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                log.debug("watch of %s broke off: %s", self.kind, error)
                await self.clock.sleep_until(self.clock.now() + timedelta(milliseconds=100))

    def take(self, changes: Sequence[Change]) -> None:
        """Take in a batch of changes. What comes twice or too late, as after a broken connection, is no news."""
        revision = self.revision
        for change in changes:
            document, goes = _lean(change.document), change.type == "DELETED"
            at = int(document["metadata"].get("resourceVersion") or 0)
            if at > revision:
                revision = at
            if change.type == "BOOKMARK":
                continue
            key = key_of(document)
            known = self.documents.get(key)
            since = self._graves.get(key, 0) if known is None else int(known["metadata"].get("resourceVersion") or 0)
            if goes and at >= since:
                self._bury(key, at)
                self._forget(key, document)
            elif not goes and at > since:
                self._remember(key, document)
        self._advance(revision)

    def _bury(self, key: Key, revision: int) -> None:
        """Remember for a while when a document went, so that no straggler brings it back."""
        self._graves[key] = revision
        while len(self._graves) > _GRAVES:
            del self._graves[next(iter(self._graves))]

    def _remember(self, key: Key, document: Document) -> None:
        old, controller = self.documents.get(key), _controller(document)
        if old is not None and uid_of(old) != uid_of(document):  # a namesake: the old one is gone
            self._forget(key)
            old = None
        if old is not None and (before := _controller(old)) != controller:
            _drop(self._by_controller, before, key)
        self.documents[key] = document
        self._by_namespace.setdefault(key.namespace, {})[key] = document
        self._by_controller.setdefault(controller, {})[key] = document
        for handler in self._handlers:
            handler(old, document)

    def _forget(self, key: Key, last: Document | None = None) -> None:
        """`last` is the document as it was when deleted, which may be newer than what we knew."""
        old = self.documents.pop(key, None)
        if old is None:
            return
        _drop(self._by_namespace, key.namespace, key)
        _drop(self._by_controller, _controller(old), key)
        for handler in self._handlers:
            handler(last or old, None)

    def _advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        while self._waiting and self._waiting[0][0] <= self.revision:
            seen = heapq.heappop(self._waiting)[2]
            if not seen.done():
                seen.set_result(None)


def _lean(document: Document) -> Document:
    """The document without the owners of its fields: nobody here asks for them, and they are half of its size.

    Written back without them, a document keeps those it has.
    """
    metadata = document["metadata"]
    if "managedFields" not in metadata:
        return document
    lean = dict(metadata)
    del lean["managedFields"]
    return {**document, "metadata": lean}


def _controller(document: Document) -> str:
    """The uid of whoever manages a document; "" where nobody does."""
    owner = controller_of(document)
    return str(owner["uid"]) if owner else ""


def _drop(index: dict[str, dict[Key, Document]], value: str, key: Key) -> None:
    bucket = index.get(value)
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del index[value]


class Informers:
    """The informers of one process, one per kind, and a `Reader` over them."""

    def __init__(self, client: Watcher, clock: Clock) -> None:
        self.client, self.clock = client, clock
        self._informers: dict[Kind, Informer] = {}
        self._started = False

    def of(self, kind: Kind) -> Informer:
        """The informer of a kind. Kinds are named before `run`: one asked for later would stay empty for ever."""
        informer = self._informers.get(kind)
        if informer is None:
            if self._started:
                raise LookupError(f"{kind.resource} is read but not watched; add it to the controller's watches")
            informer = self._informers[kind] = Informer(self.client, kind, self.clock)
        return informer

    async def run(self) -> None:
        """Keep every informer running."""
        self._started = True
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run(), name=f"informer {informer.kind}")

    async def synced(self) -> None:
        """Wait until every informer has listed once."""
        for informer in self._informers.values():
            await informer.synced.wait()

    async def reached(self, kind: Kind, revision: int) -> None:
        """Wait, not for ever, until a kind's informer has seen a revision."""
        informer = self._informers.get(kind)
        if informer is not None and revision > informer.revision:
            # Not wait_for: until 3.12 it can swallow a cancellation that comes with the answer.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await informer.reached(revision)

    async def get(self, kind: Kind, key: Key) -> Document | None:
        return self.of(kind).documents.get(key)

    async def owned(self, kind: Kind, owner: Document) -> Documents:
        namespace = namespace_of(owner)
        found = self.of(kind).controlled_by(uid_of(owner))
        return sorted((d for d in found if not namespace or namespace_of(d) == namespace), key=key_of)

    async def list(self, kind: Kind, select: Select = EVERYTHING) -> Documents:
        found = self.of(kind).in_namespace(select.namespace)
        if select.labels:
            found = filter(selectors.parse_labels(select.labels).matches_document, found)
        if select.fields:
            found = filter(selectors.parse_fields(select.fields).matches_document, found)
        return sorted(found, key=key_of)
