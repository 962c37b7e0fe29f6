"""The heart of a plane beats with every controller, with some, and with none."""

import asyncio
from contextlib import suppress

import pytest

from allaboard.cluster.store import NoJournal
from allaboard.kube.clock import SystemClock
from allaboard.main.heart import Heart
from allaboard.main.settings import Settings


async def beats(home, controllers):
    """Whether it still runs after everything that is ready has had its turn."""
    heart = Heart(Settings(home, controllers=controllers), SystemClock(), NoJournal())
    task = asyncio.ensure_future(heart.run())
    for _ in range(50):
        await asyncio.sleep(0)
    alive = not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return alive


@pytest.mark.parametrize("controllers", [(), ("accounts",)], ids=["without controllers", "with one"])
def test_a_plane_goes_on_until_it_is_told_to_stop(tmp_path, controllers):
    assert asyncio.run(beats(tmp_path, controllers))
