"""The first process of a container: makes its file system, starts the workload, passes signals on, reaps, and writes
the exit code where a restarted agent will find it.

One `Launch` document (`spec.json` in the attempt's directory) says everything. All files of the attempt are reached
through a directory descriptor, because their paths are gone once the container has its own root.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import time
from typing import NamedTuple, NoReturn

from allaboard.api.documents import Document
from allaboard.node import families, sandbox, syscalls

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
START_ERROR = 128
DEFAULT_CAPABILITIES = frozenset(
    syscalls.CAPABILITIES[name]
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip


class Place(NamedTuple):
    """The directory of an attempt, and the pipe whose writing (or closing) tells the agent that it began (or not)."""

    path: str
    pipe: int


class StartError(Exception):
    """The container could not be made; the words go into its status."""


def start_ticks(pid: int | str = "self") -> int:
    """When a process began, in the kernel's ticks since boot: with the pid it names the process for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def write(directory: int, name: str, document: Document) -> None:
    """Put a small document into the attempt's directory, whole or not at all."""
    descriptor = os.open(name + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        os.write(descriptor, json.dumps(document).encode())
    finally:
        os.close(descriptor)
    os.rename(name + ".new", name, src_dir_fd=directory, dst_dir_fd=directory)


def read(directory: int, name: str) -> Document:
    with open(os.open(name, os.O_RDONLY, dir_fd=directory), "rb") as file:
        found: Document = json.load(file)
    return found


def run(place: Place, held: dict[str, int], tree: list[tuple[str, str]], level: str) -> NoReturn:
    """The whole life of an init; it never returns into the zygote's code."""
    code = START_ERROR
    try:
        directory = os.open(place.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        write(directory, "pids", _identity())
        spec = read(directory, "spec.json")
        try:
            workload = _begin(spec, directory, held, tree, level)
            with contextlib.suppress(OSError):  # the agent may be gone; its successor looks for "started"
                os.write(place.pipe, b"!")
            os.close(place.pipe)
            code = _watch(workload)
            if level == "D":  # elsewhere the PID namespace takes everybody along
                families.kill_descendants(os.getpid())
            write(directory, "exit", _ending(code))
        except (OSError, StartError) as problem:
            write(directory, "exit", _ending(START_ERROR, "StartError", str(problem)))
    finally:
        os._exit(code)


def _identity() -> Document:
    """Who we are in the host's terms; /proc is still the host's here."""
    try:
        return {"pid": int(os.readlink("/proc/self")), "start": start_ticks(), "at": time.time()}
    except OSError:
        return {"pid": os.getpid(), "start": 0, "at": time.time()}


def _ending(code: int, reason: str = "", message: str = "") -> Document:
    return {"code": code, "reason": reason, "message": message, "at": time.time()}


def _begin(spec: Document, directory: int, held: dict[str, int], tree: list[tuple[str, str]], level: str) -> int:
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    join_cgroups(spec)
    streams = _streams(spec, directory)
    if level == "D":
        with contextlib.suppress(OSError, AttributeError):
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    else:
        sandbox.enter_pod(held)
        sandbox.build_root(spec, tree, rootless=os.getuid() != 0 or level != "A")
    workload = _spawn(spec, streams, level)
    write(directory, "started", {"at": time.time()})
    for descriptor in streams:
        os.close(descriptor)
    return workload


def join_cgroups(spec: Document) -> None:
    """Put this process (and so everything it starts) under the container's limits; 0 is the writer itself."""
    for path in spec.get("cgroups", []):
        with open(f"{path}/cgroup.procs", "w") as file:
            file.write("0")


def _streams(spec: Document, directory: int) -> tuple[int, int]:
    log = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=directory)
    if not spec.get("stdin"):
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), log
    # Opened for both directions, so that it neither blocks nor ends when one who attached goes away.
    return os.open("stdin", os.O_RDWR | os.O_CLOEXEC, dir_fd=directory), log


def _spawn(spec: Document, streams: tuple[int, int], level: str) -> int:
    """Fork the workload; what goes wrong before its exec comes back through a pipe that exec closes."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec, streams, level)
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


def _become(spec: Document, streams: tuple[int, int], level: str) -> NoReturn:
    """Turn this process into the workload."""
    os.setsid()
    os.dup2(streams[0], 0)
    os.dup2(streams[1], 1)
    os.dup2(streams[1], 2)
    become(spec, level)


def become(spec: Document, level: str) -> NoReturn:
    """Place, limits, rights, user, program: everything between a forked process and its command."""
    for number in (*FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    _limit(spec.get("limits", {}))
    if level != "D":
        _give_up_rights(spec)
    _enter_directory(spec.get("cwd") or "/")
    env = {str(name): str(value) for name, value in spec["env"].items()}
    argv = [str(word) for word in spec["argv"]]
    os.execve(_find(argv[0], env), argv, env)


def _limit(limits: Document) -> None:
    if limits.get("affinity"):
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, limits["affinity"])
    if limits.get("nice"):
        os.nice(limits["nice"])
    if limits.get("data"):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = limits["data"] if hard == resource.RLIM_INFINITY else min(hard, limits["data"])
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if limits.get("processes"):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))


def _give_up_rights(spec: Document) -> None:
    """Groups, group, user and capabilities, in the one order that works."""
    user: Document = spec.get("user", {})
    kept = DEFAULT_CAPABILITIES | _numbers(spec.get("capAdd", [])) - _numbers(spec.get("capDrop", []))
    if "ALL" in spec.get("capDrop", []):
        kept = _numbers(spec.get("capAdd", []))
    with contextlib.suppress(PermissionError):
        os.setgroups(user.get("groups", []))
    uid, gid = user.get("uid", 0), user.get("gid", 0)
    if gid != os.getgid():
        os.setgid(gid)
    if uid == os.getuid():
        syscalls.keep_capabilities(frozenset(kept))
    else:
        _bound(frozenset(kept))
        os.setuid(uid)
    if spec.get("noNewPrivileges"):
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _numbers(names: list[str]) -> frozenset[int]:
    return frozenset(syscalls.CAPABILITIES[name] for name in names if name in syscalls.CAPABILITIES)


def _bound(kept: frozenset[int]) -> None:
    """Changing the user empties the working sets anyway; SETUID must last until then."""
    needed = {syscalls.CAPABILITIES[name] for name in ("SETUID", "SETGID", "SETPCAP")}
    syscalls.keep_capabilities(kept | needed)


def _enter_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EROFS):
            raise
    os.chdir(path)


def _find(command: str, env: dict[str, str]) -> str:
    """Upstream: the runtime's words for a command that is not there or may not run."""
    if "/" in command:
        if not os.path.exists(command):
            raise StartError(f'exec: "{command}": stat {command}: no such file or directory')
        if not os.access(command, os.X_OK) or os.path.isdir(command):
            raise StartError(f'exec: "{command}": permission denied')
        return command
    for place in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(place, command)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise StartError(f'exec: "{command}": executable file not found in $PATH')


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
