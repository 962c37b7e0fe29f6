"""Tasks that end together, and how a process writes its log."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable


async def first_of(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Until one of the tasks is over; a failure of it is ours."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def end(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def log_lines(*, verbose: bool) -> None:
    """`level=… msg=…` lines on standard error, as seed 003 shows them."""
    for number, word in ((logging.INFO, "info"), (logging.WARNING, "warning"), (logging.ERROR, "error")):
        logging.addLevelName(number, word)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # that a port is open we say ourselves
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="level=%(levelname)s %(message)s")
