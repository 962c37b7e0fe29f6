"""A clock that stands still until told to move."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Time for tests: `advance` moves it and wakes who was waiting."""

    def __init__(self, now: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) -> None:
        self._now = now
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    async def sleep_until(self, moment: datetime) -> None:
        if moment <= self._now:
            await asyncio.sleep(0)
            return
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, id(waking), waking))
        await waking

    def advance(self, by: timedelta | float) -> None:
        """Move on (seconds or a timedelta), waking sleepers whose moment has come."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waking = heapq.heappop(self._sleepers)[2]
            if not waking.done():
                waking.set_result(None)
