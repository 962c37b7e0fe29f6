"""Containers as processes, seen from the agent: start them through the zygote, learn their end, find them again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.node import cgroups, levels, records, steps, volumes, zygote
from allaboard.node.facts import Run
from allaboard.node.families import LOOK, Grip, end_process, grip, is_same, kill_descendants, living
from allaboard.node.zygote import Homeless

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
    grip: Grip | None = None
    started: datetime | None = None
    ended: datetime | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    record: str = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.record, self.log = f"{self.place}/{records.NAME}", self.place / "log"

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
        return records.read(self.record).get("spec") or {}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class Processes:
    """The zygote's other end."""

    def __init__(self, state: Path, level: str, gateway: str) -> None:
        self.state, self.level, self.gateway = state, level, gateway
        self._socket: socket.socket | None = None
        self._waiting: dict[int, asyncio.Future[tuple[Document, list[int]]]] = {}
        self._number = itertools.count()
        self._opening = asyncio.Lock()
        self._closed = False
        self.children: dict[str, int] = {}
        self.users = 1
        self.helper: Path | None = None  # the compiled init, where there is one
        self.helper_pid = 0

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
        await self._introduce()

    async def use(self, helper: Path) -> None:
        """From now on containers are made by the compiled init."""
        self.helper = helper
        await self._introduce()

    async def _introduce(self) -> None:
        if self.helper is not None:
            try:
                answer, _ = await self.ask({"do": "helper", "path": str(self.helper)})
                self.helper_pid = answer["pid"]
            except OSError as problem:
                log.warning("compiled init %s: %s; containers are started without it", self.helper, problem)
                self.helper = None

    async def give_memory(self, place: Path, options: str) -> None:
        """Make a directory a piece of memory of its own, where it is not one already."""
        await self.ask({"do": "memory", "path": str(place), "options": options})

    async def remove(self, place: Path) -> None:
        """Take a tree away, also what belongs to users of the cluster's namespace."""
        if not place.exists():
            return
        await asyncio.to_thread(volumes.take_away, place)
        if not place.exists() or self.level == "D":
            return
        reading, writing = pipe()
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
        """Connect; the path may be longer than a socket address allows, so it is reached by a short one."""
        record = living(self.state / "zygote")
        if record is None:
            return False
        if record["level"] != self.level:
            raise AboardError(f"a node of level {record['level']} still runs in {self.state}; stop it first")
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with tempfile.TemporaryDirectory(prefix="aboard-") as short:
                os.symlink(self.state, f"{short}/state")
                link.connect(f"{short}/state/zygote.sock")
        except OSError:
            link.close()
            return False
        self._socket = link
        asyncio.get_running_loop().add_reader(link, self._hear)
        return True

    def _spawn(self) -> None:
        with open(self.state / "zygote.log", "ab") as errors:
            child = subprocess.Popen(
                zygote_words(self.state, self.level, self.gateway),
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
        waiter = self._waiting.pop(message[0]["id"])
        if not waiter.cancelled():
            waiter.set_result(message)

    def _lost(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(ConnectionError("the zygote is gone"))

    async def ask(self, request: Document, descriptors: Sequence[int] = ()) -> tuple[Document, list[int]]:
        """One request; its answer bears its number. An answer with an error raises it."""
        if self._socket is None:
            await self.open()
        assert self._socket is not None
        waiter: asyncio.Future[tuple[Document, list[int]]] = asyncio.get_running_loop().create_future()
        number = next(self._number)
        self._waiting[number] = waiter
        try:
            zygote.send(self._socket, request | {"id": number}, list(descriptors))
        except OSError:
            self._lost()
        answer, given = await waiter
        if "error" in answer:
            raise (Homeless if answer["homeless"] else OSError)(answer["errno"], answer["error"])
        return answer, given

    async def start(self, attempt: Attempt, house: Document, spec: Document, on_start: Callable[[], None]) -> None:
        """Write the attempt down, then let the zygote fork it; `on_start` tells that its command runs or never will.
        `house` says what its pod's namespaces are to be, where there are none yet."""
        attempt.place.mkdir(parents=True, exist_ok=True)
        if spec.get("stdin") and not (attempt.place / "stdin").exists():
            os.mkfifo(attempt.place / "stdin", 0o600)
        inner = {"number": attempt.number, "streak": attempt.streak, "id": attempt.id}
        document = {name: value for name, value in spec.items() if name not in ("steps", "groups")}
        document |= {"attempt": inner, "created": attempt.created.timestamp()}
        records.note(attempt.record, "spec", document)
        reading, writing = pipe()
        given = [writing, *([_in_memory(steps.encode(steps.whole(spec)))] if "steps" in spec else [])]
        try:
            request = {"do": "start", "dir": str(attempt.place), "pod": house["pod"], "house": house}
            answer, _ = await self.ask(request | {"helper": self.helper is not None}, given)
        finally:
            for descriptor in given:
                os.close(descriptor)
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
            held = attempt.grip = grip(attempt.pid)
        except ProcessLookupError:
            loop.call_soon(on_end)
            return

        def over() -> None:
            if held.descriptor >= 0:
                loop.remove_reader(held.descriptor)
            held.let_go()
            attempt.grip = None
            on_end()

        def look() -> None:
            over() if held.is_over() else loop.call_later(LOOK, look)

        if held.descriptor >= 0:
            loop.add_reader(held.descriptor, over)
        else:
            look()

    def signal(self, attempt: Attempt, number: int) -> None:
        """To the init, which passes it on to the workload."""
        if attempt.grip is not None:
            attempt.grip.send(number)

    def kill(self, attempt: Attempt) -> None:
        """End everything of the attempt now."""
        if self.level == "D":
            kill_descendants(attempt.pid)
        cgroups.unleash(attempt.spec.get("doors", ()))
        self.signal(attempt, signal.SIGKILL)

    async def close(self, *, kill: bool) -> None:
        """Leave the zygote alone (it outlives us), or take it and everything of it down."""
        async with self._opening:  # one that is just being started would stay behind
            self._closed = True
        if kill:
            with contextlib.suppress(OSError, AboardError):
                if self._socket is not None or self._reach():
                    await self.ask({"do": "leave"})
            await asyncio.to_thread(self._bury)
        self._lost()

    def _bury(self) -> None:
        """Wait for the zygote's end and end the holder."""
        for name in ("zygote", "holder"):
            if record := living(self.state / name):
                end_process(record["pid"], signal.SIGKILL if name == "holder" else 0)
            with contextlib.suppress(OSError):
                (self.state / name).unlink()


def zygote_words(state: Path, level: str, gateway: str) -> list[str]:
    """The command that starts a zygote; the interpreter need not have us installed."""
    place = repr(str(levels.package_root()))
    code = f"import sys; sys.path.insert(0, {place}); from allaboard.node import zygote; zygote.main()"
    return [sys.executable, "-c", code, str(state), level, gateway]


def pipe() -> tuple[int, int]:
    """Two ends, of which neither is inherited nor holds anybody up."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


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


def _in_memory(content: bytes) -> int:
    """A file that is on no disk and has no name, for whoever is handed its descriptor."""
    descriptor = os.memfd_create("steps", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor


def started_at(place: Path) -> datetime | None:
    found = records.read(f"{place}/{records.NAME}").get("started")
    return moment(found["at"]) if found else None


def has_ended(place: Path) -> bool:
    """Whether an attempt's end is written down."""
    return "exit" in records.read(f"{place}/{records.NAME}")


def learn_end(attempt: Attempt, now: datetime) -> bool:
    """What became of an attempt whose init is gone: its own word, or (then False) death by SIGKILL."""
    record = records.read(attempt.record)
    found, began = record.get("exit"), record.get("started")
    attempt.started = attempt.started or (moment(began["at"]) if began else None)
    if found is None:
        attempt.ended, attempt.code = now, KILLED
        attempt.reason = attempt.reason or "Error"
        return False
    attempt.ended, attempt.code = moment(found["at"]), found["code"]
    attempt.reason = attempt.reason or found.get("reason", "")
    attempt.message = found.get("message", "")
    return True


def keep_end(attempt: Attempt) -> None:
    """Write an end down as we know it: a later agent will not be able to find out again."""
    assert attempt.ended is not None
    ending = {"code": attempt.code, "reason": attempt.reason, "message": attempt.message}
    with contextlib.suppress(FileNotFoundError):
        records.note(attempt.record, "exit", {**ending, "at": attempt.ended.timestamp()})


def are_left(state: Path) -> bool:
    """Whether pods may still run here: an agent that ended them took its zygote's record away."""
    return (state / "zygote").exists()


def forget_earlier_boot(state: Path, boot: str, now: datetime) -> bool:
    """After a restart of the machine its pids and times mean nothing: what ran then is lost, and said to be."""
    path = state / "boot"
    before = path.read_text() if path.exists() else None
    if before == boot:
        return False
    if before is not None:
        _lose_everything(state, now)
    # Last and whole: killed before this, the next agent does it again; a half-written name would lose all that runs.
    records.replace(path, boot)
    return before is not None


def _lose_everything(state: Path, now: datetime) -> None:
    for name in ("zygote", "holder"):
        (state / name).unlink(missing_ok=True)
    for path in state.glob(f"pods/*/*/{records.NAME}"):
        if "exit" not in records.read(path):
            ending = {"code": KILLED, "reason": "ContainerStatusUnknown", "message": LOST, "at": now.timestamp()}
            records.note(path, "exit", ending)


def adopt(place: Path, children: dict[str, int], now: datetime) -> Attempt | None:
    """An attempt found on disk after a restart; None where it never came to life (its directory may go)."""
    record = records.read(f"{place}/{records.NAME}")
    spec, process = record.get("spec"), record.get("process")
    if spec is None:
        return None
    inner, name = spec["attempt"], place.name.rpartition(".")[0]
    attempt = Attempt(place, name, inner["number"], inner["streak"], inner["id"], moment(spec["created"]))
    attempt.started = started_at(place)
    if "exit" in record:
        learn_end(attempt, now)
        return attempt
    if process is None:
        attempt.pid = children.get(str(place), 0)
        return attempt if attempt.pid else None
    if is_same(process["pid"], process["start"]):
        attempt.pid = process["pid"]
        return attempt
    # It may have written its code between our two looks.
    if has_ended(place):
        learn_end(attempt, now)
        return attempt
    attempt.ended, attempt.code, attempt.reason, attempt.message = now, KILLED, "ContainerStatusUnknown", LOST
    return attempt
