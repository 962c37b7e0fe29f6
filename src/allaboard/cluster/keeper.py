"""What the cluster does by itself: dependents collected, definitions settled, old events forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from allaboard.api.documents import Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import CRD, EVENT
from allaboard.api.meta import is_leaving
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.definitions import CLEANUP, MANAGER, emptied
from allaboard.cluster.delete import Wish, delete
from allaboard.cluster.garbage import Collector
from allaboard.cluster.plane import DEFINITIONS, Cluster
from allaboard.cluster.store import Item, Transaction
from allaboard.cluster.update import change as rewrite

log = logging.getLogger(__name__)

EVENTS = EVENT.resource
EVENT_LIFE = timedelta(hours=1)
SWEEP = 30.0  # seconds between looks for events that are too old
RETRY = 1.0  # seconds after a failure, a full disk for instance


class Definitions:
    """Ends definitions whose deletion was asked for: their objects go first."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.leaving: dict[Key, None] = {}
        for item in cluster.store.table(DEFINITIONS).items():
            self._look(item)
        cluster.store.listeners.append(self._notice)

    def _notice(self, transaction: Transaction) -> None:
        for change in transaction:
            if change.table == DEFINITIONS and change.type != "DELETED":
                self._look(change.item)

    def _look(self, item: Item) -> None:
        if is_leaving(self.cluster.store.document(item)):
            self.leaving[item.key] = None

    async def settle(self) -> None:
        for key in list(self.leaving):
            definition = self.cluster.head.get(CRD, key)
            if definition is None or CLEANUP not in (definition["metadata"].get("finalizers") or ()):
                del self.leaving[key]
                continue
            await self._empty(key)
            if not any(self.cluster.store.table(key.name).latest_items()):
                place = Place(self.cluster.registry.of(CRD), key, "status")  # past the rules of the spec
                await rewrite(self.cluster, place, emptied, Ask(manager=MANAGER))

    async def _empty(self, key: Key) -> None:
        for rules in self.cluster.registry.custom.get(key.name, ())[:1]:
            for item in list(self.cluster.store.table(key.name).latest_items()):
                if not is_leaving(self.cluster.store.document(item)):
                    await delete(self.cluster, Place(rules, item.key), Wish("Background"), Ask(manager=MANAGER))


class Keeper:
    """Wakes when something changed, and does what follows from it."""

    def __init__(self, cluster: Cluster, *, garbage: bool = True) -> None:
        self.cluster = cluster
        self.definitions = Definitions(cluster)
        self.collector = Collector(cluster) if garbage else None
        self.fading: deque[tuple[datetime, Key, int]] = deque()  # when an event ends, if it is still at that revision
        self._awake = asyncio.Event()
        if self.collector is not None:
            self.collector.notice_all()
        self._awake.set()
        cluster.store.listeners.append(self._notice)

    def _notice(self, transaction: Transaction) -> None:
        said = [change.item for change in transaction if change.table == EVENTS and change.type != "DELETED"]
        if said:
            end = self.cluster.world.now() + EVENT_LIFE
            self.fading.extend([(end, item.key, item.revision) for item in said])
        # Nearly every change leaves nothing to do; whoever looks at it for a reason has done so by now.
        if self.definitions.leaving or (self.collector is not None and self.collector.due):
            self._awake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP):
                    await self._awake.wait()
            self._awake.clear()
            try:
                await self.settle()
            except ApiError as error:
                log.warning("upkeep of the cluster failed, trying again: %s", error)
                self._awake.set()
                await asyncio.sleep(RETRY)

    async def settle(self) -> None:
        """Do everything that is due now."""
        await self.definitions.settle()
        if self.collector is not None:
            await self.collector.collect()
        await self.forget(self.cluster.world.now())

    async def forget(self, now: datetime) -> None:
        """Drop events whose hour is over."""
        store, table = self.cluster.store, self.cluster.store.table(EVENTS)
        changes = []
        while self.fading and self.fading[0][0] <= now:
            _, key, revision = self.fading.popleft()
            item = table.latest(key)
            if item is not None and item.revision == revision:
                changes.append(store.remove(table.name, item))
        if changes:
            await store.commit(*changes)


@contextlib.asynccontextmanager
async def keeping(cluster: Cluster, *, garbage: bool = True) -> AsyncIterator[Keeper]:
    """Keep the cluster while the block runs."""
    keeper = Keeper(cluster, garbage=garbage)
    task = asyncio.ensure_future(keeper.run())
    try:
        yield keeper
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
