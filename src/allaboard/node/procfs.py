"""Processes as Linux shows them: files of /proc, and descriptors that tell the end. `portable.py` is its twin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from allaboard.node import syscalls

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int | str = "self") -> int:
    """When a process began, in the kernel's ticks since boot: with the pid it names the process for ever."""
    return int(_fields(pid)[19])


def is_same(pid: int, ticks: int) -> bool:
    """Whether this pid is still the process that was written down; one that ended and that nobody buries is not."""
    try:
        fields = _fields(pid)
        return int(fields[19]) == ticks and fields[0] != b"Z"
    except (OSError, IndexError, ValueError):
        return False


def own_pid() -> int:
    """Our number in the host's terms, also for the first process of a PID namespace: /proc is the host's until its
    own is mounted."""
    return int(os.readlink("/proc/self"))


def adopt_orphans() -> None:
    """What loses its parent below us becomes our child."""
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)


def descriptor_of(pid: int) -> int:
    """Readable when the process has ended; it means this process and no later one of the same number."""
    return os.pidfd_open(pid)


def table() -> Iterator[tuple[int, int]]:
    """Every living process and its parent, the dead left out."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = _fields(name)
                if fields[0] != b"Z":
                    yield int(name), int(fields[1])


def resident(pid: int) -> int:
    """Memory a process really holds, in bytes; 0 for one that is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return 0


def processor_seconds(pid: int) -> float:
    """Time a process and its buried children spent, in seconds."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return sum(int(number) for number in _fields(pid)[11:15]) / TICKS
    return 0.0


def machine_use() -> tuple[int, float]:
    """Bytes of memory in use on the whole machine, and seconds its processors have worked."""
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    used = sum(sign * int(rows[name].split()[0]) for name, sign in (("MemTotal", 1024), ("MemAvailable", -1024)))
    fields = [int(number) for number in Path("/proc/stat").read_text().split("\n")[0].split()[1:8]]
    return used, (sum(fields) - fields[3] - fields[4]) / TICKS


def terminal_of(pid: int) -> str:
    """The terminal a process writes to."""
    return os.readlink(f"/proc/{pid}/fd/1")


def _fields(pid: int | str) -> list[bytes]:
    """/proc/PID/stat behind the name, which may hold anything: state, parent, …"""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
