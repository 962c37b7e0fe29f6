"""Starting and stopping the plane of this machine as a process of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from allaboard.api.errors import AboardError
from allaboard.cli import screen
from allaboard.sdk.home import Home, Running

NODES_PATIENCE = 180.0
LONG = 5.0  # seconds until somebody who waits is told what for
START_PATIENCE = 180.0  # a machine may be very busy; one that dies is noticed at once
STOP_PATIENCE = 120.0
LOOK_AGAIN = 0.02
ROOM_TO_SPEAK = 64 * 1024  # bytes


class PlaneError(AboardError):
    """A plane that did not start or stop; the message carries its own last words."""

    exit_code = 4


class NoRoom(PlaneError):
    """The disk of the home is full."""

    exit_code = 8


class PortBusy(PlaneError):
    """Somebody else listens there."""

    exit_code = 7


def start(home: Home, options: Sequence[str] = ()) -> Running:
    """Start `aboard serve` in the background and wait until it answers."""
    home.make()
    home.state.unlink(missing_ok=True)
    log = home.logs / "plane.log"
    command = [sys.executable, "-m", "allaboard", "serve", "--home", str(home.path), *options]
    with log.open("ab") as output:
        before = output.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, close_fds=True
        )
    try:
        return _answering(home, process, log, before)
    except KeyboardInterrupt:  # nobody waits for it any more
        process.terminate()
        process.wait()
        raise


def _answering(home: Home, process: subprocess.Popen[bytes], log: Path, before: int) -> Running:
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        running = home.running()
        if running is not None:
            return running
        if process.poll() is not None:
            raise _died(process.returncode, log, before)
        time.sleep(LOOK_AGAIN)
    os.kill(process.pid, signal.SIGTERM)
    raise PlaneError(f"the plane did not answer in {START_PATIENCE:.0f} s; its log: {log}")


async def nodes_are_ready(home: Home, running: Running) -> bool:
    """Wait until every node of the plane has said so; False where that takes too long."""
    began = time.monotonic()
    told = False
    while running.nodes and not home.ready.exists():
        waited = time.monotonic() - began
        if waited > NODES_PATIENCE:
            return False
        if waited > LONG and not told:
            screen.say(f"  waits for its nodes to be ready; what they say: {home.logs / 'node.log'}")
            told = True
        await asyncio.sleep(LOOK_AGAIN)
    return True


def stop(running: Running) -> None:
    """Ask the plane to end, wait for it, and insist when it does not."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(running.pid, how)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise PlaneError(
                f"the plane (process {running.pid}) belongs to another user; stop it as that user"
            ) from error
        if _is_gone(running.pid, STOP_PATIENCE):
            return
    raise PlaneError(f"the plane (process {running.pid}) does not end")


def _died(code: int, log: Path, since: int) -> PlaneError:
    """The plane's own last sentence, without its prefix; the exit code tells which kind of trouble."""
    with log.open("rb") as file:
        file.seek(since)
        words = file.read().decode("utf-8", "replace").strip().splitlines()
    if not words and shutil.disk_usage(log.parent).free < ROOM_TO_SPEAK:  # it could not even write its last words
        return NoRoom(f"{log.parent.parent}: no space left on its disk; free some, or set ABOARD_HOME elsewhere")
    said = words[-1].removeprefix("error: ") if words else f"it ended with code {code}"
    return PortBusy(said) if code == PortBusy.exit_code else PlaneError(f"the plane did not start: {said} (log: {log})")


def _is_gone(pid: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:  # not our child: started by an earlier command
            if is_over(pid):
                return True
        time.sleep(LOOK_AGAIN)
    return False


def is_over(pid: int) -> bool:
    """Whether a process has ended, also one that nobody buries: the first process of many a container never does."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return not _answers(pid)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
