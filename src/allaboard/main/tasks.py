"""Tasks that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def first_of(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Until one of the tasks is over; a failure of it is ours."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def end(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
