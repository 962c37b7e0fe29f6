"""The one process that forks containers: single-threaded, small, inside the cluster's namespaces.

The agent has threads and must never fork; a fresh interpreter per container would be too slow. So one zygote is
started, enters the cluster's namespaces (making them the first time), and answers requests on a unix socket: make a
pod's namespaces, start a container, run a command in one, open a socket in one. It outlives the agent, and keeps the
pods' namespaces open by descriptor. A second process, the holder, does nothing but keep the cluster's namespaces in
case the zygote dies.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from allaboard.api.documents import Document
from allaboard.node import families, inits, netlink, records, sandbox, syscalls
from allaboard.node.builder import StartError

HEADER = struct.Struct("=I")
SPACES = ("user", "uts", "ipc", "net", "mnt")
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def send(connection: socket.socket, document: Document, descriptors: list[int] | None = None) -> None:
    """One message: its length, its text, and (with the length) open descriptors; at once, so that nobody is woken by
    half of it."""
    body = json.dumps(document).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = connection.sendmsg([HEADER.pack(len(body)), body], rights)
    if sent < HEADER.size + len(body):
        connection.sendall(body[sent - HEADER.size :])


def receive(connection: socket.socket) -> tuple[Document, list[int]] | None:
    """The next message, or None at the end."""
    head, ancillary, _, _ = connection.recvmsg(HEADER.size, socket.CMSG_SPACE(8 * 4), _CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if len(head) < HEADER.size:
        return None
    left, parts = HEADER.unpack(head)[0], []
    while left:
        part = connection.recv(left)
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return json.loads(b"".join(parts)), list(descriptors)


class Homeless(OSError):
    """A pod's namespaces could not be made."""


@dataclass(frozen=True, slots=True)
class Start:
    """A container that was asked for and is being made by another."""

    connection: socket.socket
    request: Document
    descriptors: list[int]


class Zygote:
    """What is held: the network, the pods' namespaces, and which container is which child."""

    def __init__(self, state: Path, level: str, gateway: str) -> None:
        self.state, self.level, self.gateway = state, level, gateway
        self.network: sandbox.Network | None = None
        self.pods: dict[str, dict[str, int]] = {}
        self.children: dict[int, str] = {}
        self.guests: set[int] = set()  # commands run beside a workload
        self.helper: socket.socket | None = None  # the compiled init, where there is one
        self.helper_pid = 0
        self.waiting: deque[Start] = deque()  # for its answers, which come in order
        self.homes: sandbox.Homes | None = None
        self.selector = selectors.DefaultSelector()
        self.leaving = False

    def settle_in(self) -> None:
        """Open what the level needs, and remember what forked children will want to know."""
        if self.level != "D":
            self.homes = sandbox.Homes()
        if self.level in "AB":
            self.network = sandbox.open_network(self.gateway)

    def serve(self, door: socket.socket) -> None:
        wake, alarm = os.pipe()
        for end in (wake, alarm):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.selector.register(door, selectors.EVENT_READ, self._welcome)
        self.selector.register(wake, selectors.EVENT_READ, self._bury)
        gc.collect()
        gc.freeze()
        while not self.leaving:
            for key, _ in self.selector.select():
                key.data(key.fileobj)

    def _welcome(self, door: socket.socket) -> None:
        connection, _ = door.accept()
        self.selector.register(connection, selectors.EVENT_READ, self._listen)

    def _bury(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                self.children.pop(pid, None)
                self.guests.discard(pid)

    def _listen(self, connection: socket.socket) -> None:
        try:
            message = receive(connection)
        except OSError:
            message = None
        if message is None:
            self.selector.unregister(connection)
            connection.close()
            return
        request, descriptors = message
        start = Start(connection, request, descriptors)
        if not (request["do"] == "start" and self._is_housed(request) and self._hand_on(start)):
            self._answer(connection, request, descriptors)

    def _answer(self, connection: socket.socket, request: Document, descriptors: list[int]) -> None:
        try:
            answer, given = getattr(self, "on_" + request["do"])(request, descriptors)
        except OSError as problem:
            words = {"error": problem.strerror or str(problem), "errno": problem.errno or 0}
            answer, given = {**words, "homeless": isinstance(problem, Homeless)}, []
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            send(connection, answer | {"id": request["id"]}, given)
        for descriptor in given:
            os.close(descriptor)

    def on_settle(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """What still waits, here or on other connections, is done first; then: which children live."""
        self._hear_all()
        children = {place: pid for pid, place in self.children.items()}
        return {"children": children, "pods": sorted(self.pods), "users": _how_many_users()}, []

    def on_remove(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """Take a tree away that belongs to users only we can name; a child does it, and the pipe tells the end."""
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                shutil.rmtree(request["path"], ignore_errors=True)
            os._exit(0)
        return {"pid": pid}, []

    def on_pod(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """Make the namespaces of a pod, or (we may be newer than it) find them in a process of it that runs."""
        if request["pod"] not in self.pods and self.homes is not None:
            self.pods[request["pod"]] = self._found(request["witnesses"]) or self._new_pod(request)
        return {}, []

    def _found(self, witnesses: list[int]) -> dict[str, int]:
        """The namespaces some processes of a pod stand in; none where nobody stands in all of them."""
        for pid in witnesses:
            with contextlib.suppress(OSError):
                held = _namespaces_of(pid)
                if sandbox.kinds_of(self.network) <= held.keys():
                    return held
                for descriptor in held.values():
                    os.close(descriptor)
        return {}

    def _is_housed(self, request: Document) -> bool:
        """Whether a container's pod has namespaces, by now at least; where it has none, `on_start` will say why."""
        with contextlib.suppress(OSError):
            self.on_pod(request["house"], [])
        return request["pod"] in self.pods

    def _new_pod(self, request: Document) -> dict[str, int]:
        assert self.homes is not None
        return sandbox.make_pod(request, self.network, self.homes)

    def on_memory(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """A piece of memory with a size, where all containers of a pod will see it."""
        if not os.path.ismount(request["path"]):
            syscalls.mount("tmpfs", request["path"], "tmpfs", syscalls.MS_NODEV, request["options"])
        return {}, []

    def on_release(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """The pod's namespaces vanish with their last descriptor, and its device with them (asking takes 40 ms)."""
        for path in request.get("memory", ()):
            with contextlib.suppress(OSError):  # a directory like any other
                syscalls.unmount(path)
        for descriptor in self.pods.pop(request["pod"], {}).values():
            os.close(descriptor)
        return {}, []

    def on_helper(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """From now on the compiled init makes containers; it ends with us."""
        self._part()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            words = [request["path"], str(self.state), str(theirs.fileno())]
            self.helper_pid = os.posix_spawn(request["path"], words, {})
        self.helper = ours
        self.selector.register(ours, selectors.EVENT_READ, self._hear_helper)
        return {"pid": self.helper_pid}, []

    def on_start(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """A container's init: the first process of a new PID namespace. A pod's first brings along what its namespaces
        are to be: one way less to us for every pod."""
        try:
            self.on_pod(request["house"], [])
        except OSError as problem:
            raise Homeless(problem.errno, problem.strerror or str(problem)) from problem
        place, held = request["dir"], self.pods.get(request["pod"], {})
        if "pid" in request:  # the compiled init made it, or (less than 0) could not
            if request["pid"] < 0:
                raise OSError(-request["pid"], f"clone: {os.strerror(-request['pid'])}")
            self._remember(request["pid"], place)
            return {"pid": request["pid"]}, []
        pid = syscalls.fork_into(syscalls.NEWPID | syscalls.NEWNS) if self.level != "D" else os.fork()
        if pid == 0:
            self._leave_to(lambda: inits.run(inits.Place(place, *descriptors), held, self.level))
        self.children[pid] = place
        return {"pid": pid}, []

    def _hand_on(self, start: Start) -> bool:
        """Let the compiled init make a container, and go on with others until it answers; False where it cannot."""
        pod = start.request["pod"]
        if self.helper is None or not start.request.get("helper") or pod not in self.pods:
            return False
        held = self.pods[pod]
        self.waiting.append(start)
        try:
            text = f"{start.request['dir']}\n{' '.join(held)}".encode()
            socket.send_fds(self.helper, [text], [*start.descriptors, *held.values()])
        except OSError:
            self._part()
        return True

    def _hear_helper(self, helper: socket.socket) -> None:
        """The number of the container that waits longest; none at all: then we make those that wait ourselves."""
        try:
            pid = int(struct.unpack("=i", helper.recv(4))[0])
        except (OSError, struct.error):
            self._part()
            return
        start = self.waiting.popleft()
        self._answer(start.connection, start.request | {"pid": pid}, start.descriptors)

    def _hear_all(self) -> None:
        while self.waiting and self.helper is not None:
            self._hear_helper(self.helper)

    def _part(self) -> None:
        """From the compiled init, where there is one: what it was asked for is done by us."""
        if self.helper is not None:
            self.selector.unregister(self.helper)
            self.helper.close()
            self.helper = None
        while self.waiting:
            start = self.waiting.popleft()
            self._answer(start.connection, start.request, start.descriptors)

    def _remember(self, pid: int, place: str) -> None:
        """Not our child, so nobody tells us of its end but the kernel, through a descriptor."""
        with contextlib.suppress(ProcessLookupError):
            self.selector.register(os.pidfd_open(pid), selectors.EVENT_READ, lambda ended: self._forget_one(ended, pid))
            self.children[pid] = place

    def _forget_one(self, ended: int, pid: int) -> None:
        self.selector.unregister(ended)
        os.close(ended)
        self.children.pop(pid, None)

    def _leave_to(self, work: Callable[[], NoReturn]) -> NoReturn:
        """In a child: whatever happens, it must not come back into the zygote's loop."""
        try:
            self._forget()
            work()
        finally:
            os._exit(1)

    def _forget(self) -> None:
        """In a child: no signal tricks, no connections of the zygote."""
        signal.set_wakeup_fd(-1)
        os.setsid()
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        if self.helper is not None:
            self.helper.close()

    def on_exec(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """Run a command beside a container's workload; stdio and the place for its exit code come as descriptors."""
        pid, held = os.fork(), self.pods.get(request["pod"], {})
        if pid == 0:
            self._leave_to(lambda: _execute(request, descriptors, held, self.level))
        self.guests.add(pid)
        return {"pid": pid}, []

    def on_window(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """Another size for the terminal of a workload; a child steps into the container to say so."""
        pid = os.fork()
        if pid == 0:
            self._leave_to(lambda: _set_window(request, self.level))
        self.guests.add(pid)
        return {"pid": pid}, []

    def on_socket(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """A socket of the cluster's network (or of one pod's): it stays there, wherever it is used."""
        held = self.pods.get(request.get("pod", ""), {})
        if "net" in held:
            syscalls.setns(held["net"])
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if request.get("udp") else socket.SOCK_STREAM)
        finally:
            if "net" in held and self.homes is not None:
                self.homes.back(frozenset({"net"}))
        if request.get("alias") and self.network is not None:
            self.network.wire.ask(netlink.address(socket.if_nametoindex("lo"), request["address"]))
        if "port" in request:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((request["address"], request["port"]))
            if not request.get("udp"):
                made.listen(128)
        return {}, [made.detach()]

    def on_leave(self, request: Document, descriptors: list[int]) -> tuple[Document, list[int]]:
        """The machine is going down: nothing of ours stays."""
        self._hear_all()
        for pid in self.guests:  # those of a container end with it; without namespaces they must be ended
            families.kill_descendants(pid)
        families.end_all((*self.children, *self.guests))
        for pod in list(self.pods):
            self.on_release({"pod": pod}, [])
        if self.helper is not None:
            self._part()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.helper_pid, 0)
        self.leaving = True
        return {}, []


def _how_many_users() -> int:
    try:
        return sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
    except OSError:
        return 1


def _namespaces_of(pid: int) -> dict[str, int]:
    """Those of a container's init; its users are those of the workload, its first child."""
    found = {}
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for who, kind in ((pid, "net"), (pid, "uts"), (pid, "ipc"), *([(children[0], "user")] if children else [])):
        if os.readlink(f"/proc/{who}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"):
            found[kind] = os.open(f"/proc/{who}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    return found


def _execute(request: Document, descriptors: list[int], held: dict[str, int], level: str) -> NoReturn:
    """In a forked child: step into the container, run, and tell the code."""
    result = descriptors[-1]
    code, words = inits.START_ERROR, ""
    try:
        spec = (records.read(Path(request["dir"], records.NAME)).get("spec") or {}) | {"argv": request["argv"]}
        inits.join_cgroups(spec)
        if level != "D":
            _step_into(request["pid"])
        child = os.fork()
        if child == 0:
            _speak(spec, descriptors, held, tty=request["tty"])
        for descriptor in descriptors[:-1]:
            os.close(descriptor)
        code = inits.code_of(os.waitpid(child, 0)[1])
    except OSError as problem:
        words = str(problem)
    finally:
        with contextlib.suppress(OSError):  # nobody may be waiting any more
            os.write(result, json.dumps({"code": code, "message": words}).encode())
        os._exit(0)


def _set_window(request: Document, level: str) -> NoReturn:
    try:
        # The workload's own terminal, whatever it is called where it lives.
        path = "/dev/pts/0"
        if level == "D":
            shown = [families.terminal_of(child) for child in families.family().children.get(request["pid"], ())]
            path = next(name for name in shown if name.startswith(("/dev/pts/", "/dev/tty")))
        else:
            _step_into(request["pid"])
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", request["rows"], request["columns"], 0, 0))
    finally:
        os._exit(0)


def _step_into(pid: int) -> None:
    """The namespaces of a running container; of the PID namespace only children become members."""
    _join(pid, ("ipc", "uts", "net", "pid", "mnt"))
    os.chdir("/")


def _join(pid: int, kinds: tuple[str, ...]) -> None:
    """Enter another process's namespaces, in this order; those we share already would be refused to pseudo-root."""
    held = [
        os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        for kind in kinds
        if os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    ]
    for descriptor in held:
        syscalls.setns(descriptor)
        os.close(descriptor)


def _speak(spec: Document, descriptors: list[int], held: dict[str, int], *, tty: bool) -> NoReturn:
    """The command itself: the descriptors become its stdio; a terminal is the container's own, and handed out."""
    code = 126
    try:
        os.setsid()
        streams = [_own_terminal(descriptors[0])] * 3 if tty else descriptors[:3]
        for target, source in enumerate(streams):
            os.dup2(source, target)
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        inits.become(spec, held)
    except StartError as problem:
        code = 127 if "not found" in str(problem) or "no such file" in str(problem) else 126
        os.write(2, f"{problem}\n".encode())
    except BaseException as problem:
        os.write(2, f"{problem}\n".encode())
    finally:
        os._exit(code)


def _own_terminal(link: int) -> int:
    """A terminal of the container we are in; its outer end goes to who asked."""
    master, slave = inits.open_terminal()
    with socket.socket(fileno=link) as there:
        socket.send_fds(there, [b"t"], [master])
    os.close(master)
    return slave


def enter_cluster(state: Path, level: str) -> None:
    """Join the namespaces a holder keeps, or make new ones and leave a holder in them."""
    if holder := families.living(state / "holder"):
        _join(holder["pid"], SPACES)
        return
    if level == "A":
        syscalls.unshare(syscalls.NEWNET)
    elif level in "BC":
        _new_user_namespace(with_network=level == "B")
    _leave_holder(state)


def _new_user_namespace(*, with_network: bool) -> None:
    """Pseudo-root: one user at least (ourselves), the sub-users of this account where the agent can map them."""
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.NEWUSER)
    _say({"map": os.getpid()})
    answer = sys.stdin.readline().strip()
    if not answer:
        raise SystemExit("the agent ended before it mapped our users")
    if answer != "mapped":
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    os.setuid(0)
    os.setgid(0)
    flags = syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWIPC
    syscalls.unshare(flags | (syscalls.NEWNET if with_network else 0))
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    if with_network:
        with contextlib.suppress(OSError):
            syscalls.mount("sysfs", "/sys", "sysfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _leave_holder(state: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for target in range(3):
            os.dup2(null, target)
        os.closerange(3, 64)
        while True:
            signal.pause()
    records.replace(state / "holder", json.dumps({"pid": pid, "start": families.start_ticks(pid)}))


def open_door(state: Path) -> socket.socket:
    """The unix socket; bound through a descriptor, because the path may be longer than an address allows."""
    directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(FileNotFoundError):
        os.unlink("zygote.sock", dir_fd=directory)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchdir(directory)
    door.bind("zygote.sock")
    os.chdir("/")
    os.close(directory)
    door.listen(8)
    return door


def main() -> None:
    """`zygote STATE LEVEL GATEWAY`: says {"ready": true} on stdout once the socket listens, then is silent."""
    state, level, gateway = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.setsid()
    os.umask(0o077)
    with _one_at_a_time(state):
        if families.living(state / "zygote"):
            return  # its agent died before it was ready; ours will reach it
        if level != "D":
            enter_cluster(state, level)
        zygote = Zygote(state, level, gateway)
        zygote.settle_in()
        door = open_door(state)
        identity = {"pid": os.getpid(), "start": families.start_ticks(), "level": level}
        records.replace(state / "zygote", json.dumps(identity))
    with contextlib.suppress(BrokenPipeError):  # the next agent will find us
        _say({"ready": True})
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    zygote.serve(door)


@contextlib.contextmanager
def _one_at_a_time(state: Path) -> Iterator[None]:
    """Agents that die and start in quick succession would each make a cluster; the later zygote waits for the first."""
    directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(directory, fcntl.LOCK_UN)
        os.close(directory)


def _say(document: Document) -> None:
    os.write(1, json.dumps(document).encode() + b"\n")
