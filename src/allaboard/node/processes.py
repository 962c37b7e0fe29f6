"""Containers as processes, seen from the agent: start them through the zygote, learn their end, find them again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.node import inits, levels, volumes, zygote
from allaboard.node.facts import Run
from allaboard.node.families import kill_descendants

log = logging.getLogger(__name__)

KILLED = 137
LOST = "The container could not be located when the pod was terminated"


@dataclass(slots=True)
class Attempt:
    """One attempt of a container, as its directory and its process tell it."""

    place: Path
    container: str
    number: int
    streak: int
    id: str
    created: datetime
    pid: int = 0
    pidfd: int = -1
    started: datetime | None = None
    ended: datetime | None = None
    code: int = 0
    reason: str = ""
    message: str = ""

    def run(self) -> Run:
        return Run(
            attempt=self.number,
            id=self.id,
            created=self.created,
            started=self.started,
            ended=self.ended,
            code=self.code,
            reason=self.reason,
            message=self.message,
            streak=self.streak,
        )

    @property
    def spec(self) -> Document:
        found: Document = json.loads((self.place / "spec.json").read_text())
        return found


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class Processes:
    """The zygote's other end."""

    def __init__(self, state: Path, level: str, gateway: str) -> None:
        self.state, self.level, self.gateway = state, level, gateway
        self._socket: socket.socket | None = None
        self._waiting: deque[asyncio.Future[tuple[Document, list[int]]]] = deque()
        self._opening = asyncio.Lock()
        self._closed = False
        self.children: dict[str, int] = {}
        self.users = 1

    async def open(self) -> None:
        """Reach the zygote that runs, or start one."""
        async with self._opening:
            if self._socket is not None:
                return
            if self._closed:
                raise ConnectionError("the node is leaving")
            if not self._reach():
                await asyncio.to_thread(self._spawn)
                if not self._reach():
                    raise AboardError(f"the zygote did not start; see {self.state / 'zygote.log'}")
        answer, _ = await self.ask({"do": "settle"})
        self.children, self.users = answer["children"], answer["users"]

    async def remove(self, place: Path) -> None:
        """Take a tree away, also what belongs to users of the cluster's namespace."""
        await asyncio.to_thread(volumes.take_away, place)
        if not place.exists() or self.level == "D":
            return
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            await self.ask({"do": "remove", "path": str(place)}, [writing])
        finally:
            os.close(writing)
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, over.set)
        try:
            await asyncio.wait_for(over.wait(), 60)
        finally:
            loop.remove_reader(reading)
            os.close(reading)

    def _reach(self) -> bool:
        """Connect; the path may be longer than a socket address allows, so it is reached from its directory."""
        record = self._record()
        if record is None:
            return False
        if record["level"] != self.level:
            raise AboardError(f"a node of level {record['level']} still runs in {self.state}; stop it first")
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor = os.open(self.state, os.O_RDONLY)
        try:
            link.connect(_short(self.state, descriptor))
        except OSError:
            link.close()
            return False
        finally:
            os.close(descriptor)
        self._socket = link
        asyncio.get_running_loop().add_reader(link, self._hear)
        return True

    def _record(self) -> Document | None:
        try:
            record: Document = json.loads((self.state / "zygote").read_text())
        except (OSError, ValueError):
            return None
        return record if same_process(record["pid"], record["start"]) else None

    def _spawn(self) -> None:
        place = repr(str(levels.package_root()))
        code = f"import sys; sys.path.insert(0, {place}); from allaboard.node import zygote; zygote.main()"
        with open(self.state / "zygote.log", "ab") as errors:
            child = subprocess.Popen(
                [sys.executable, "-c", code, str(self.state), self.level, self.gateway],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
            )
        assert child.stdin and child.stdout
        for line in child.stdout:
            said = json.loads(line)
            if "map" in said:
                child.stdin.write(b"mapped\n" if _map_users(said["map"]) else b"alone\n")
                child.stdin.flush()
            if said.get("ready"):
                break
        child.stdin.close()
        child.stdout.close()

    def _hear(self) -> None:
        link = self._socket
        assert link is not None
        try:
            message = zygote.receive(link)
        except OSError:
            message = None
        if message is None:
            self._lost()
            return
        waiter = self._waiting.popleft()
        if not waiter.cancelled():
            waiter.set_result(message)

    def _lost(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ConnectionError("the zygote is gone"))

    async def ask(self, request: Document, descriptors: Sequence[int] = ()) -> tuple[Document, list[int]]:
        """One request; answers come in order. An answer with an error raises it."""
        if self._socket is None:
            await self.open()
        assert self._socket is not None
        waiter: asyncio.Future[tuple[Document, list[int]]] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            zygote.send(self._socket, request, list(descriptors))
        except OSError:
            self._lost()
        answer, given = await waiter
        if "error" in answer:
            raise OSError(answer["errno"], answer["error"])
        return answer, given

    async def start(self, attempt: Attempt, pod: str, spec: Document, on_start: Callable[[], None]) -> None:
        """Write the attempt down, then let the zygote fork it; `on_start` tells that its command runs or never will."""
        attempt.place.mkdir(parents=True, exist_ok=True)
        if spec.get("stdin"):
            os.mkfifo(attempt.place / "stdin", 0o600)
        inner = {"number": attempt.number, "streak": attempt.streak, "id": attempt.id}
        text = json.dumps({**spec, "attempt": inner, "created": attempt.created.timestamp()})
        write_private(attempt.place / "spec.json", text)
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            answer, _ = await self.ask({"do": "start", "dir": str(attempt.place), "pod": pod}, [writing])
        finally:
            os.close(writing)
        attempt.pid = answer["pid"]
        loop = asyncio.get_running_loop()

        def began() -> None:
            loop.remove_reader(reading)
            os.close(reading)
            on_start()

        loop.add_reader(reading, began)

    def follow(self, attempt: Attempt, on_end: Callable[[], None]) -> None:
        """Call back once when the attempt's init has ended, also if it already has."""
        loop = asyncio.get_running_loop()
        try:
            attempt.pidfd = os.pidfd_open(attempt.pid)
        except OSError:
            loop.call_soon(on_end)
            return

        def over() -> None:
            loop.remove_reader(attempt.pidfd)
            os.close(attempt.pidfd)
            attempt.pidfd = -1
            on_end()

        loop.add_reader(attempt.pidfd, over)

    def signal(self, attempt: Attempt, number: int) -> None:
        """To the init, which passes it on to the workload."""
        if attempt.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(attempt.pidfd, number)

    def kill(self, attempt: Attempt) -> None:
        """End everything of the attempt now."""
        if self.level == "D":
            kill_descendants(attempt.pid)
        self.signal(attempt, signal.SIGKILL)

    async def close(self, *, kill: bool) -> None:
        """Leave the zygote alone (it outlives us), or take it and everything of it down."""
        async with self._opening:  # one that is just being started would stay behind
            self._closed, reached = True, self._socket is not None
        if kill and reached:
            with contextlib.suppress(OSError):
                await self.ask({"do": "leave"})
            await asyncio.to_thread(self._bury)
        self._lost()

    def _bury(self) -> None:
        """Wait for the zygote's end and end the holder."""
        for name in ("zygote", "holder"):
            with contextlib.suppress(OSError, ValueError):
                record = json.loads((self.state / name).read_text())
                if same_process(record["pid"], record["start"]):
                    end_process(record["pid"], signal.SIGKILL if name == "holder" else 0)
            with contextlib.suppress(OSError):
                (self.state / name).unlink()


def end_process(pid: int, number: int, patience: float = 5.0) -> None:
    """Send a signal (0: none) and wait for the end."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    with contextlib.suppress(ProcessLookupError):
        if number:
            signal.pidfd_send_signal(descriptor, number)
        select.select([descriptor], [], [], patience)
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.close(descriptor)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _short(state: Path, descriptor: int) -> str:
    name = str(state / "zygote.sock")
    return name if len(name) < 100 else f"/proc/self/fd/{descriptor}/zygote.sock"


def _map_users(pid: int) -> bool:
    """Give a user namespace its sub-users: ourselves as root, and the range of this account behind."""
    if not levels.can_map():
        return False
    for tool, path, own in (("newuidmap", "/etc/subuid", os.getuid()), ("newgidmap", "/etc/subgid", os.getgid())):
        found = levels.sub_range(path)
        program = shutil.which(tool)
        if found is None or program is None:
            return False
        first, count = found
        words = [program, str(pid), "0", str(own), "1", "1", str(first), str(count)]
        if subprocess.run(words, check=False, capture_output=True).returncode:
            return False
    return True


def same_process(pid: int, ticks: int) -> bool:
    """Whether this pid is still the process that was written down."""
    try:
        return inits.start_ticks(pid) == ticks
    except (OSError, IndexError, ValueError):
        return False


def write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)


def started_at(place: Path) -> datetime | None:
    found = _document(place / "started")
    return moment(found["at"]) if found else None


def _document(path: Path) -> Document | None:
    try:
        found: Document = json.loads(path.read_text())
        return found
    except (OSError, ValueError):
        return None


def learn_end(attempt: Attempt, now: datetime) -> None:
    """What became of an attempt whose init is gone: its own record, or death by SIGKILL where there is none."""
    found = _document(attempt.place / "exit")
    attempt.started = attempt.started or started_at(attempt.place)
    if found is None:
        attempt.ended, attempt.code = now, KILLED
        attempt.reason = attempt.reason or "Error"
        return
    attempt.ended, attempt.code = moment(found["at"]), found["code"]
    attempt.reason = attempt.reason or found.get("reason", "")
    attempt.message = found.get("message", "")


def adopt(place: Path, children: dict[str, int], now: datetime) -> Attempt | None:
    """An attempt found on disk after a restart; None where it never came to life (its directory may go)."""
    spec = _document(place / "spec.json")
    if spec is None:
        return None
    inner = spec["attempt"]
    attempt = Attempt(place, place.parent.name, inner["number"], inner["streak"], inner["id"], moment(spec["created"]))
    attempt.started = started_at(place)
    record = _document(place / "pids")
    if (place / "exit").exists():
        learn_end(attempt, now)
        return attempt
    if record is None:
        attempt.pid = children.get(str(place), 0)
        return attempt if attempt.pid else None
    if same_process(record["pid"], record["start"]):
        attempt.pid = record["pid"]
        return attempt
    # It may have written its code between our two looks.
    if (place / "exit").exists():
        learn_end(attempt, now)
        return attempt
    attempt.ended, attempt.code, attempt.reason, attempt.message = now, KILLED, "ContainerStatusUnknown", LOST
    return attempt
