"""What containers use, read from the kernel: memory now, processor time so far."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.node.families import Family
from allaboard.node.processes import Attempt

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def of_container(attempt: Attempt, tree: Family) -> Document:
    """One container: memory in bytes, processor time in nanoseconds."""
    pids = tree.below(attempt.pid)
    memory = sum(resident(pid) for pid in pids)
    seconds = sum(processor_seconds(pid) for pid in pids)
    return {
        "name": attempt.container,
        "time": time.time(),
        "cpu": {"usageCoreNanoSeconds": int(seconds * 10**9)},
        "memory": {"workingSetBytes": memory, "rssBytes": memory},
    }


def resident(pid: int) -> int:
    """Memory a process really holds, in bytes; 0 for one that is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return 0


def processor_seconds(pid: int) -> float:
    """Time a process and its buried children spent, in seconds."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(number) for number in fields[11:15]) / TICKS
    return 0.0


def of_machine() -> Document:
    total = available = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                total = int(rest.split()[0]) * 1024
            if name == "MemAvailable":
                available = int(rest.split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = [int(number) for number in Path("/proc/stat").read_text().split("\n")[0].split()[1:8]]
        busy = (sum(fields) - fields[3] - fields[4]) / TICKS
        return _machine(total - available, busy)
    return _machine(total - available, 0.0)


def _machine(memory: int, seconds: float) -> Document:
    nanoseconds = int(seconds * 10**9)
    return {"time": time.time(), "memory": {"workingSetBytes": memory}, "cpu": {"usageCoreNanoSeconds": nanoseconds}}
