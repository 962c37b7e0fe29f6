"""Processes and who started them: their names for ever, their ends, and what must end together where no namespace holds
it together."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from allaboard.api.documents import Document

if sys.platform == "linux" and not os.environ.get("ABOARD_PORTABLE"):
    from allaboard.node.procfs import (
        adopt_orphans,
        descriptor_of,
        is_same,
        machine_use,
        own_pid,
        processor_seconds,
        resident,
        start_ticks,
        table,
        terminal_of,
    )
else:
    from allaboard.node.portable import (
        adopt_orphans,
        descriptor_of,
        is_same,
        machine_use,
        own_pid,
        processor_seconds,
        resident,
        start_ticks,
        table,
        terminal_of,
    )

__all__ = [
    "adopt_orphans",
    "is_same",
    "machine_use",
    "own_pid",
    "processor_seconds",
    "resident",
    "start_ticks",
    "terminal_of",
]

PATIENCE = 30.0  # seconds within which a killed process is gone, however busy the machine
LOOK = 0.02  # seconds between two looks at a process that nobody tells us about


def living(path: Path) -> Document | None:
    """What a process wrote of itself into this file, while it runs."""
    try:
        record: Document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if is_same(record["pid"], record["start"]) else None


@dataclass(slots=True)
class Grip:
    """A hold on one process, whoever started it; a later process of the same number is never meant."""

    pid: int
    start: int
    descriptor: int  # -1 where the system has none

    def is_over(self) -> bool:
        if self.descriptor >= 0:
            return bool(_ended([self.descriptor], 0))
        return not is_same(self.pid, self.start)

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.descriptor >= 0:
                signal.pidfd_send_signal(self.descriptor, number)
            elif not self.is_over():
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ended in time."""
        if self.descriptor >= 0:
            return bool(_ended([self.descriptor], seconds))
        deadline = time.monotonic() + seconds
        while not (over := self.is_over()) and time.monotonic() < deadline:
            time.sleep(LOOK)
        return over

    def let_go(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _ended(descriptors: Iterable[int], seconds: float) -> list[tuple[int, int]]:
    """`select` would refuse descriptors of a thousand and more."""
    ends = select.poll()
    for descriptor in descriptors:
        ends.register(descriptor, select.POLLIN)
    return ends.poll(seconds * 1000)


def grip(pid: int) -> Grip:
    """Take hold of a living process; one that is gone raises ProcessLookupError."""
    descriptor = descriptor_of(pid)
    return Grip(pid, start_ticks(pid) if descriptor < 0 else 0, descriptor)


def end_process(pid: int, number: int, patience: float = PATIENCE) -> None:
    """Send a signal (0: none), wait for the end, and insist."""
    with contextlib.suppress(ProcessLookupError):
        held = grip(pid)
        if number:
            held.send(number)
        if not held.wait(patience):
            held.send(signal.SIGKILL)
            held.wait(patience)
        held.let_go()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def end_all(pids: Iterable[int], patience: float = PATIENCE) -> None:
    """Kill these processes and wait until the kernel is done with each: a signal sent is not yet an end."""
    dying: list[Grip] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            dying.append(grip(pid))
            dying[-1].send(signal.SIGKILL)
    deadline = time.monotonic() + patience
    for held in dying:
        held.wait(max(0.0, deadline - time.monotonic()))
        held.let_go()


def kill_descendants(*pids: int, spared: int = 0) -> None:
    """Without a PID namespace: everything below these processes, again and again until nothing is left but the one."""
    for _ in range(1000):
        tree = family()
        below = [child for pid in pids for child in tree.below(pid) if child != spared]
        if not below:
            return
        for child in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Family:
    """Who is whose child, at one moment."""

    children: Mapping[int, list[int]]

    def below(self, pid: int) -> list[int]:
        found, todo = [], [pid]
        while todo:
            below = self.children.get(todo.pop(), [])
            found += below
            todo += below
        return found


def family() -> Family:
    """The process table as it is now."""
    children: dict[int, list[int]] = {}
    for pid, parent in table():
        children.setdefault(parent, []).append(pid)
    return Family(children)
