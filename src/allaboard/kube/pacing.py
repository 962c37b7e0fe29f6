"""A client that keeps a pace: so many calls a second, after a first burst, as `clientConnection` asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from allaboard.kube.clock import Clock
from allaboard.kube.http import ANSWER_TIMEOUT, Answer, Call, Transport


class Pace:
    """A bucket of turns: `burst` at once, then `qps` more every second; 0 a second is no limit."""

    def __init__(self, qps: float, burst: int) -> None:
        self.qps, self.burst = qps, max(burst, 1)
        self._next: datetime | None = None  # when the bucket would be empty if nobody called any more

    def turn(self, now: datetime) -> datetime:
        """When the next call may be made; it is counted."""
        if not self.qps:
            return now
        step, full = timedelta(seconds=1 / self.qps), timedelta(seconds=(self.burst - 1) / self.qps)
        due = max(self._next or now - full, now - full)
        self._next = due + step
        return max(due, now)


class PacedTransport(Transport):
    """A transport whose calls wait for their turn; what streams has one turn, too."""

    def __init__(self, transport: Transport, pace: Pace, clock: Clock) -> None:
        self.transport, self.pace, self.clock = transport, pace, clock

    async def call(self, call: Call, timeout: float = ANSWER_TIMEOUT) -> Answer:
        await self._wait()
        return await self.transport.call(call, timeout)

    async def stream(self, call: Call) -> tuple[Answer, AsyncIterator[bytes]]:
        await self._wait()
        return await self.transport.stream(call)

    async def close(self) -> None:
        await self.transport.close()

    async def _wait(self) -> None:
        now = self.clock.now()
        if (due := self.pace.turn(now)) > now:
            await self.clock.sleep_until(due)
