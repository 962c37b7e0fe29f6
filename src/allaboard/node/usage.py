"""What containers use, read from the kernel: memory now, processor time so far."""

from __future__ import annotations

import time

from allaboard.api.documents import Document
from allaboard.node.families import Family, machine_use, processor_seconds, resident
from allaboard.node.processes import Attempt


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


def of_machine() -> Document:
    memory, seconds = machine_use()
    nanoseconds = int(seconds * 10**9)
    return {"time": time.time(), "memory": {"workingSetBytes": memory}, "cpu": {"usageCoreNanoSeconds": nanoseconds}}
