"""The zygote's other end: what is opened is closed, whatever the moment."""

import asyncio
import contextlib
import json
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from world import LEVELS

from allaboard.node.families import end_process
from allaboard.node.processes import Processes


@pytest.fixture
def state():
    folder = Path(tempfile.mkdtemp(prefix="aboard-zygote-"))  # short: unix sockets have short paths
    yield folder
    shutil.rmtree(folder)


def running(state: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended just now
            found.append(path.read_bytes().decode(errors="replace"))
    return [line for line in found if str(state) in line]


def test_a_zygote_that_is_just_being_started_does_not_outlive_the_node(state):
    async def story():
        processes = Processes(state, "D", "127.0.0.1")
        opening = asyncio.create_task(processes.open())
        await asyncio.sleep(0)
        await processes.close(kill=True)
        await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(story())
    assert running(state) == []


def test_what_keeps_the_namespaces_goes_also_when_the_zygote_is_dead_already(state):
    if LEVELS[0] == "D":
        pytest.skip("plain processes have no namespaces to keep")

    async def story():
        processes = Processes(state, LEVELS[0], "10.88.0.1")
        await processes.open()
        end_process(json.loads((state / "zygote").read_text())["pid"], signal.SIGKILL)
        assert running(state)
        await processes.close(kill=True)

    asyncio.run(story())
    assert running(state) == []


def test_a_node_that_left_starts_no_zygote_again(state):
    async def story():
        processes = Processes(state, "D", "127.0.0.1")
        await processes.open()
        assert running(state)
        await processes.close(kill=True)
        with pytest.raises(ConnectionError):
            await processes.ask({"do": "settle"})

    asyncio.run(story())
    assert running(state) == []
