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
from allaboard.api.kinds import EVENT
from allaboard.cluster.definitions import Definitions
from allaboard.cluster.garbage import Collector
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import Happening

log = logging.getLogger(__name__)

EVENT_LIFE = timedelta(hours=1)
SWEEP = 30.0  # seconds between looks for events that are too old
RETRY = 1.0  # seconds after a failure, a full disk for instance


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

    def _notice(self, happening: Happening) -> None:
        if happening.table == EVENT.resource:
            if happening.type != "DELETED":
                self.fading.append((self.cluster.world.now() + EVENT_LIFE, happening.key, happening.revision))
            return
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
        store, table = self.cluster.store, self.cluster.store.table(EVENT.resource)
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
