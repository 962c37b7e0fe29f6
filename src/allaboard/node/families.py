"""Processes and who started them: what must end together where no namespace holds it together."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def kill_descendants(pid: int) -> None:
    """Without a PID namespace: everything below a process, again and again until nothing is left."""
    for _ in range(1000):
        below = descendants(pid)
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
    """The process table as it is now, the dead left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    return Family(children)


def descendants(pid: int) -> list[int]:
    """Every living process below this one."""
    return family().below(pid)
