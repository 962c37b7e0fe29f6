"""The first process of a container: makes its file system, starts the workload, passes signals on, reaps, and writes
the exit code where a restarted agent will find it.

The attempt's record says what to run, and is where we note what became of it; the steps that make the file tree come
as a descriptor. All files of the attempt are reached through descriptors, because their paths are gone once the
container has its own root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import stat
import struct
import sys
import termios
import time
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from allaboard.api.documents import Document
from allaboard.node import families, records, sandbox, steps
from allaboard.node.builder import Builder, StartError, find
from allaboard.node.records import note_at

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
TIOCGPTN, TIOCSPTLCK = 0x80045430, 0x40045431  # which terminal this is; let its other end be opened
START_ERROR = 128
DRAINING = 2.0  # seconds a terminal may take to give its last words


class Place(NamedTuple):
    """The directory of an attempt, the pipe whose writing (or closing) tells the agent that it began (or not), and a
    file with its steps (none for a plain process)."""

    path: str
    pipe: int
    steps: int = -1


def run(place: Place, held: dict[str, int], level: str) -> NoReturn:
    """The whole life of an init; it never returns into the zygote's code."""
    code = START_ERROR
    try:
        directory = os.open(place.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        record = os.open(records.NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=directory)
        note_at(record, "process", _identity())
        spec = records.read(records.NAME, at=directory).get("spec") or {}
        if place.steps >= 0:
            spec |= steps.parts_of(steps.decode(os.pread(place.steps, os.fstat(place.steps).st_size, 0)))
        try:
            workload, terminal = _begin(spec, directory, held, level)
            note_at(record, "started", {"at": time.time()})
            with contextlib.suppress(OSError):  # the agent may be gone; its successor looks for "started"
                os.write(place.pipe, b"!")
            os.close(place.pipe)
            code = _watch(workload)
            if level == "D":  # elsewhere the PID namespace takes everybody along
                families.kill_descendants(os.getpid(), workload, spared=terminal)
            if terminal and not _drain(terminal):
                os.kill(terminal, signal.SIGKILL)
            note_at(record, "exit", _ending(code))
        except (OSError, StartError) as problem:
            note_at(record, "exit", _ending(START_ERROR, "StartError", str(problem)))
    finally:
        os._exit(code)


def _identity() -> Document:
    """Who we are in the host's terms."""
    return {"pid": families.own_pid(), "start": families.start_ticks(), "at": time.time()}


def _ending(code: int, reason: str = "", message: str = "") -> Document:
    return {"code": code, "reason": reason, "message": message, "at": time.time()}


def _begin(spec: Document, directory: int, held: dict[str, int], level: str) -> tuple[int, int]:
    """The container's world, then its workload: (its pid, that of the process that serves its terminal)."""
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    Builder(held).follow(spec.get("groups", []))
    streams = _streams(spec, directory)
    if level == "D":
        families.adopt_orphans()
    else:
        sandbox.enter_pod(held)
        Builder(held).follow(spec["steps"])
    terminal = 0
    if spec.get("tty"):
        terminal, streams = _serve_terminal(streams)
    workload = _spawn(spec, streams, held, level)
    for descriptor in set(streams):
        os.close(descriptor)
    return workload, terminal


def join_cgroups(spec: Document) -> None:
    """Put this process under the limits of a container that runs."""
    Builder().follow(["set", door, "0"] for door in spec.get("doors", []))


def _streams(spec: Document, directory: int) -> tuple[int, int]:
    log = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=directory)
    if not spec.get("stdin"):
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), log
    # Opened for both directions, so that it neither blocks nor ends when one who attached goes away.
    return os.open("stdin", os.O_RDWR | os.O_CLOEXEC, dir_fd=directory), log


def open_terminal() -> tuple[int, int]:
    """A terminal of the file tree we are in: its two ends."""
    if sys.platform != "linux":
        return os.openpty()
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    number = struct.unpack("i", fcntl.ioctl(master, TIOCGPTN, struct.pack("i", 0)))[0]
    return master, os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def _serve_terminal(streams: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """A process beside the workload: what is typed goes in, what is shown goes to the log."""
    master, slave = open_terminal()
    pid = os.fork()
    if pid == 0:
        os.close(slave)
        with contextlib.suppress(BaseException):
            _pump(master, streams)
        os._exit(0)
    for descriptor in (master, *streams):
        os.close(descriptor)
    return pid, (slave, slave)


def _pump(master: int, streams: tuple[int, int]) -> None:
    typed, shown = streams
    watched = [master, *([typed] if stat.S_ISFIFO(os.fstat(typed).st_mode) else [])]
    while True:
        for ready in select.select(watched, [], [])[0]:
            data = os.read(ready, 65536)  # EIO: nobody holds the other end any more
            os.write(master if ready == typed else shown, data)


def _drain(terminal: int) -> bool:
    """The workload is gone; what it showed last may still be on its way. False where that takes too long."""
    deadline = time.monotonic() + DRAINING
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(terminal, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
                continue
        return True
    return False


def _spawn(spec: Document, streams: tuple[int, int], held: dict[str, int], level: str) -> int:
    """Fork the workload; what goes wrong before its exec comes back through a pipe that exec closes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for target, source in enumerate((streams[0], streams[1], streams[1])):
                os.dup2(source, target)
            if spec.get("tty"):
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            become(spec, held)
        except BaseException as problem:
            os.write(writing, str(problem).encode()[:2000])
        finally:
            os._exit(START_ERROR)
    os.close(writing)
    words = b""
    while chunk := os.read(reading, 4096):
        words += chunk
    os.close(reading)
    if words:
        os.waitpid(pid, 0)
        raise StartError(words.decode(errors="replace"))
    return pid


def become(spec: Document, held: Mapping[str, int]) -> NoReturn:
    """Place, limits, rights, user, program: everything between a forked process and its command."""
    for number in (*FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    Builder(held).follow(spec["become"])
    env = {str(name): str(value) for name, value in spec["env"].items()}
    argv = [str(word) for word in spec["argv"]]
    os.execve(find(argv[0], env.get("PATH", "")), argv, env)


def _watch(workload: int) -> int:
    """Pass signals on and bury the dead until the workload itself has ended."""
    while True:
        number = signal.sigwait({*FORWARDED, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workload, number)
        for pid, status in _reaped():
            if pid == workload:
                return code_of(status)


def _reaped() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append((pid, status))
    return found


def code_of(status: int) -> int:
    """An exit status as Kubernetes shows it: a signal is 128 and its number."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
