"""Streams: changes of a table in order, in batches, to everyone who watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec

from allaboard.cluster.memory import Store, Table
from allaboard.cluster.read import Accept
from allaboard.cluster.store import ChangeType, Happening, Item, encode


class Seen(Protocol):
    """One change as a watcher sees it: as it happened, or through its selector."""

    @property
    def type(self) -> ChangeType: ...
    @property
    def item(self) -> Item: ...


class Selected(msgspec.Struct, frozen=True):
    """One change as it looks through a selector: what comes to match is new, what no longer does is gone."""

    type: ChangeType
    item: Item


class Watcher:
    """A position in a table's ring. `ready` waits until there is more; `take` returns it and moves on."""

    def __init__(self, store: Store, table: Table, position: int, namespace: str, accept: Accept | None) -> None:
        self.store, self.table, self.position = store, table, position
        self.namespace, self.accept = namespace, accept
        self._waiting: asyncio.Future[None] | None = None
        table.watchers.add(self)

    def close(self) -> None:
        self.table.watchers.discard(self)

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def ready(self, until: float | None = None) -> None:
        """Return when there is something to take, or the loop's clock reaches `until`."""
        if self.position != self.table.ring.end:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_at(until, self.wake) if until is not None else None
        try:
            await self._waiting
        finally:
            if timer is not None:
                timer.cancel()

    def take(self) -> Sequence[Seen]:
        """What happened since; raises `Gone` when this watcher fell off the ring."""
        changes = self.table.ring.since(self.position)
        self.position = self.table.ring.end
        if self.namespace:
            changes = [change for change in changes if change.item.key.namespace == self.namespace]
        return changes if self.accept is None else self._selected(changes, self.accept)

    def _selected(self, changes: Sequence[Happening], accept: Accept) -> list[Selected]:
        seen = []
        for change in changes:
            now = change.type != "DELETED" and accept(change.item)
            was = change.before is not None and accept(change.before)
            if now:
                seen.append(Selected("MODIFIED" if was else "ADDED", change.item))
            elif was and change.before is not None:
                gone = change.item if change.type == "DELETED" else self._as_it_was(change.before, change.item.revision)
                seen.append(Selected("DELETED", gone))
        return seen

    def _as_it_was(self, before: Item, revision: int) -> Item:
        """The last state that was selected, at the revision where it no longer is."""
        document = self.store.document(before)
        last = {**document, "metadata": {**document["metadata"], "resourceVersion": str(revision)}}
        return Item(before.key, revision, encode(last), last)

    async def batches(self) -> AsyncGenerator[Sequence[Seen], None]:
        try:
            while True:
                await self.ready()
                if seen := self.take():
                    yield seen
        finally:
            self.close()
