"""Processes as any Unix shows them, through psutil; without descriptors, so that ends must be looked for.

`procfs.py` is its twin. The other systems have no reaper for a whole subtree either: there a process counts as below
another one also when it is of a session that one of those below leads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil

ROUNDING = 2000  # milliseconds by which two looks at one beginning may differ: the boot's own time is an estimate


def start_ticks(pid: int | str = "self") -> int:
    """When a process began, in milliseconds of the clock."""
    process = _process(os.getpid() if pid == "self" else int(pid))
    with _gone():
        status, began = process.status(), process.create_time()
    if status == psutil.STATUS_ZOMBIE:
        raise ProcessLookupError(f"process {pid} is dead")
    return int(began * 1000)


def is_same(pid: int, ticks: int) -> bool:
    try:
        return abs(start_ticks(pid) - ticks) <= ROUNDING
    except OSError:
        return False


def own_pid() -> int:
    return os.getpid()


def adopt_orphans() -> None:
    """Not to be had: see `_parent`."""


def descriptor_of(pid: int) -> int:
    """None to be had; -1 says so."""
    start_ticks(pid)
    return -1


def table() -> Iterator[tuple[int, int]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid, _parent(process)


def _parent(process: psutil.Process) -> int:
    """An orphan belongs to the leader of its session, as long as that has not led another since."""
    parent = process.ppid()
    if parent > 1:
        return parent
    leader = os.getsid(process.pid)
    return leader if leader != process.pid else parent


def resident(pid: int) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return int(_process(pid).memory_info().rss)
    return 0


def processor_seconds(pid: int) -> float:
    with contextlib.suppress(psutil.Error, OSError):
        spent = _process(pid).cpu_times()
        return float(spent.user + spent.system + spent.children_user + spent.children_system)
    return 0.0


def machine_use() -> tuple[int, float]:
    memory, spent = psutil.virtual_memory(), psutil.cpu_times()
    return int(memory.total - memory.available), float(spent.user + spent.system)


def terminal_of(pid: int) -> str:
    process = _process(pid)
    with _gone():
        terminal = process.terminal()
    return terminal or ""


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.Error as problem:
        raise ProcessLookupError(str(problem)) from problem


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except psutil.Error as problem:
        raise ProcessLookupError(str(problem)) from problem
