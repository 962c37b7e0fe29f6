"""The post of a node agent: one at a time works in a state directory, and whoever comes next can tell who it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from allaboard.api.errors import AboardError
from allaboard.node.families import end_process, is_same, start_ticks

LOOK_AGAIN = 0.01


class PostTaken(AboardError):
    """Two agents in one directory would start every container twice."""

    exit_code = 7


def take(state: Path) -> int:
    """Hold the post as long as the descriptor is open; the kernel gives it back when we die."""
    descriptor = os.open(state / "agent", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if who := _settled(descriptor):
        os.close(descriptor)
        raise PostTaken(f"{state}: a node agent (process {who}) works here already; stop it first")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {start_ticks()}".encode(), 0)
    return descriptor


def holder(state: Path) -> int:
    """The process that holds the post, 0 where nobody does."""
    try:
        descriptor = os.open(state / "agent", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return _settled(descriptor)
    finally:
        os.close(descriptor)


def relieve(state: Path) -> None:
    """End the agent of a plane that died; its pods go on, and the next agent adopts them."""
    if pid := holder(state):
        end_process(pid, signal.SIGKILL)


def _settled(descriptor: int) -> int:
    """0 once the post is ours, else who holds it; one that has just come, or only looks, is waited for."""
    while not _lock(descriptor):
        if pid := _named(descriptor):
            return pid
        time.sleep(LOOK_AGAIN)
    return 0


def _lock(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _named(descriptor: int) -> int:
    """Who wrote its name, if it lives: that of an earlier holder may be anybody's by now."""
    pid, _, ticks = os.pread(descriptor, 64, 0).partition(b" ")
    return int(pid) if ticks and is_same(int(pid), int(ticks)) else 0
