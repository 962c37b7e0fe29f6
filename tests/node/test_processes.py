"""The zygote's other end: what is opened is closed, whatever the moment."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from world import LEVELS

from allaboard.node import families, records
from allaboard.node.families import end_process
from allaboard.node.processes import Processes, forget_earlier_boot, zygote_words

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


def living(state):
    """Who keeps the cluster here: zygotes and holders that run, by the record that names each."""
    return [name for name in ("zygote", "holder") if families.living(state / name)], len(running(state))


@pytest.mark.parametrize("level", LEVELS)
def test_agents_that_die_as_soon_as_they_start_a_zygote_leave_one_between_them(state, level):
    dead = [left_alone(state, level) for _ in range(3)]
    gateway = "127.0.0.1" if level in "CD" else "10.88.0.1"

    async def story():
        processes = Processes(state, level, gateway)
        await processes.open()
        for child in dead:
            if str(child.pid) not in (state / "zygote").read_text():
                child.wait()
        keepers = ["zygote"] if level == "D" else ["zygote", "holder"]
        assert living(state) == (keepers, len(keepers))
        await processes.close(kill=True)

    asyncio.run(story())
    for child in dead:
        child.wait()
    assert running(state) == []


def left_alone(state, level):
    """A zygote whose agent was killed when it had just been started."""
    gateway = "127.0.0.1" if level in "CD" else "10.88.0.1"
    with open(state / "zygote.log", "ab") as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        child = subprocess.Popen(zygote_words(state, level, gateway), cwd="/", **pipes)
    child.stdin.close()
    child.stdout.close()
    return child


def test_a_zygote_that_died_and_that_nobody_buries_is_none(state):
    dead = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    start = families.start_ticks(dead.pid)
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    records.replace(state / "zygote", json.dumps({"pid": dead.pid, "start": start, "level": "D"}))

    async def story():
        processes = Processes(state, "D", "127.0.0.1")
        await processes.open()
        assert len(running(state)) == 1
        await processes.close(kill=True)

    asyncio.run(story())
    dead.communicate()
    assert running(state) == []


BOOTS = {
    "the first agent of all loses nothing": (None, False),
    "nor does one of the same boot": ("this", False),
    "one of a later boot loses what ran": ("another", True),
}


@pytest.mark.parametrize(("before", "lost"), BOOTS.values(), ids=BOOTS)
def test_what_ran_in_an_earlier_boot_is_lost(state, before, lost):
    record = attempt_of_boot(state, before)
    assert forget_earlier_boot(state, "this", NOW) is lost
    assert ("exit" in records.read(record)) is lost
    assert (state / "boot").read_text() == "this"


def test_an_agent_of_the_same_boot_does_not_touch_its_name(state):
    attempt_of_boot(state, "this")
    (state / "boot").chmod(0o444)
    before = (state / "boot").stat()
    forget_earlier_boot(state, "this", NOW)
    assert (state / "boot").stat() == before


def test_an_agent_that_is_killed_while_it_says_what_was_lost_leaves_the_rest_to_the_next(state, monkeypatch):
    record = attempt_of_boot(state, "another")
    with monkeypatch.context() as killed:
        killed.setattr(records, "note", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            forget_earlier_boot(state, "this", NOW)
    assert forget_earlier_boot(state, "this", NOW)
    assert records.read(record).get("exit")["reason"] == "ContainerStatusUnknown"


def attempt_of_boot(state, boot):
    """The record of a container that runs, in a state directory of this boot."""
    place = state / "pods" / "uid" / "main.0"
    place.mkdir(parents=True)
    records.note(place / records.NAME, "process", {"pid": 1, "start": 1, "at": 0})
    if boot is not None:
        (state / "boot").write_text(boot)
    return place / records.NAME
