"""Keys that are due: each waits once, one worker per key, later keys by the clock, failures backed off."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from allaboard.api.documents import Key
from allaboard.kube.clock import Clock
from allaboard.kube.metrics import Meter

# Ruling 6: 5 ms doubling to 1000 s, per key.
FIRST_DELAY = timedelta(milliseconds=5)
LONGEST_DELAY = timedelta(seconds=1000)


def backoff(failures: int, jitter: float = 0.0) -> timedelta:
    """How long to wait after so many failures in a row; jitter (0…1) spreads keys that failed together."""
    if failures > 30:
        return LONGEST_DELAY
    doubled: timedelta = FIRST_DELAY * float(2 ** max(0, failures - 1))
    return min(doubled, LONGEST_DELAY) * (1 + jitter / 10)


class Queue:
    """The keys of one controller, in the order they became due."""

    def __init__(self, clock: Clock, jitter: Callable[[], float] = lambda: 0.0, count: Meter | None = None) -> None:
        self.clock, self.jitter = clock, jitter
        self.count = count or Meter()
        self._ready: deque[Key] = deque()
        self._due: set[Key] = set()  # waiting in _ready, or to be put there when its worker is done
        self._working: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._later: list[tuple[datetime, Key]] = []
        self._at: dict[Key, datetime] = {}  # the moment that counts; older heap entries are skipped
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._alarm = asyncio.Event()

    @property
    def depth(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing is due and nothing is being worked on; delayed keys do not count."""
        return not self._due and not self._working

    def add(self, key: Key) -> None:
        """The key is due now, once, however often this is said."""
        if key in self._due:
            return
        self._due.add(key)
        self.count.adds += 1
        if key not in self._working:
            self._make_ready(key)

    def add_at(self, key: Key, moment: datetime) -> None:
        """The key is due at a moment; the earliest of several wins."""
        if key in self._at and self._at[key] <= moment:
            return
        self._set(key, moment)

    def _set(self, key: Key, moment: datetime) -> None:
        self._at[key] = moment
        heapq.heappush(self._later, (moment, key))
        if self._later[0] == (moment, key):  # else somebody is woken before this anyway
            self._alarm.set()

    async def get(self) -> Key:
        """The next key; the caller must say `done` (or `failed`) with it."""
        while not self._ready:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        key = self._ready.popleft()
        self._due.discard(key)
        self._working.add(key)
        return key

    def come_back(self, key: Key, moment: datetime | None) -> None:
        """A pass that has seen everything says when to look again; that replaces what earlier ones said."""
        if moment is None:
            self._at.pop(key, None)
        elif self._at.get(key) != moment:
            self._set(key, moment)

    def done(self, key: Key) -> None:
        """The pass is over and went well: the back-off starts afresh."""
        self._failures.pop(key, None)
        self._release(key)

    def failed(self, key: Key) -> datetime:
        """The pass failed: the key comes back later, and later each time."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self.count.retries += 1
        moment = self.clock.now() + backoff(self._failures[key], self.jitter())
        self.add_at(key, moment)
        self._release(key)
        return moment

    async def run(self) -> None:
        """Turn delayed keys into due ones when their moment comes."""
        while True:
            self._alarm.clear()
            self._ring()
            if self._later:
                await self._sleep(self._later[0][0])
            else:
                await self._alarm.wait()

    def _ring(self) -> None:
        now = self.clock.now()
        while self._later and self._later[0][0] <= now:
            moment, key = heapq.heappop(self._later)
            if self._at.get(key) == moment:
                del self._at[key]
                self.add(key)

    async def _sleep(self, moment: datetime) -> None:
        """Until the moment, or until an earlier one was asked for."""
        sleeper = asyncio.ensure_future(self.clock.sleep_until(moment))
        alarm = asyncio.ensure_future(self._alarm.wait())
        try:
            await asyncio.wait((sleeper, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            alarm.cancel()

    def _release(self, key: Key) -> None:
        self._working.discard(key)
        if key in self._due:
            self._make_ready(key)

    def _make_ready(self, key: Key) -> None:
        self._ready.append(key)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
