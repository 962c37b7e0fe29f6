"""Logs on disk: marks while they grow, following them, and giving old bytes back.

An idle log costs nothing: the kernel tells us once when it grows, then its size is looked at every 50 ms until it
rests again. A log that grew too long loses its oldest bytes by a hole in the file; no byte moves, so writers and
readers notice nothing and no line is lost at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from allaboard.node import records, syscalls
from allaboard.node.journal import MARK, Index, View, read_index, stamped

GRAIN = 0.05
RESTS = 20  # grains without growth until a log counts as idle again
CHUNK = 256 * 1024
SPARE = 8 * 2**20  # how much longer than allowed a log may grow before it is cut
PAGE = 4096


class Log:
    """One log file of a running container, while it may grow."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path, self.keep = path, keep
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.marks = -1  # made with the first byte: many a log stays empty
        self.size, self.start, self.resting, self.over = 0, first_byte(path), 0, False
        self.waiters: list[asyncio.Future[None]] = []

    def mark(self) -> bool:
        """Note how far the log has come; False where nothing is new."""
        size = os.fstat(self.descriptor).st_size
        if size == self.size:
            return False
        self.size = size
        if self.marks < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self.marks = os.open(self.path.with_name("log.index"), flags, 0o600)
        os.write(self.marks, MARK.pack(size, time.time_ns()))
        if size - self.start > self.keep + SPARE:
            self._cut(size)
        self._wake()
        return True

    def _cut(self, size: int) -> None:
        """What is older is given back to the disk, where the disk takes it; first it is said where the log begins."""
        self.start = (size - self.keep) // PAGE * PAGE
        with contextlib.suppress(OSError, AttributeError):
            records.replace(self.path.with_name("log.start"), str(self.start))
            syscalls.punch_hole(self.descriptor, self.start)

    def finish(self) -> None:
        """The writer is gone: the last mark, and everybody who follows may end."""
        self.mark()
        self.over = True
        self._wake()
        os.close(self.descriptor)
        if self.marks >= 0:
            os.close(self.marks)

    def _wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    async def grown(self) -> None:
        """Wait for the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        await waiter


class Logs:
    """Every growing log of this machine."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.logs: dict[Path, Log] = {}
        self._hot: set[Log] = set()
        self._watched: dict[int, Log] = {}
        self._busy = asyncio.Event()
        self._inotify = -1

    def open(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self._inotify = syscalls.inotify_open()
            asyncio.get_running_loop().add_reader(self._inotify, self._told)

    def close(self) -> None:
        if self._inotify >= 0:
            asyncio.get_running_loop().remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = -1

    def keep_up(self, path: Path) -> None:
        """From now on mark this log as it grows."""
        if path not in self.logs:
            log = self.logs[path] = Log(path, self.keep)
            self._heat(log)

    def finish(self, path: Path) -> None:
        log = self.logs.pop(path, None)
        if log is not None:
            self._hot.discard(log)
            log.finish()

    async def run(self) -> None:
        """Look at the logs that grow; sleep while none does."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(GRAIN)
            for log in list(self._hot):
                log.resting = 0 if log.mark() else log.resting + 1
                if log.resting > RESTS:
                    self._cool(log)
            if not self._hot:
                self._busy.clear()

    def _heat(self, log: Log) -> None:
        log.resting = 0
        self._hot.add(log)
        self._busy.set()

    def _cool(self, log: Log) -> None:
        """Let the kernel tell us; a change between the last look and the watch keeps the log warm."""
        if self._inotify < 0:
            return
        with contextlib.suppress(OSError):
            self._watched[syscalls.inotify_once(self._inotify, str(log.path))] = log
            self._hot.discard(log)
            if log.mark():
                self._heat(log)

    def _told(self) -> None:
        try:
            data = os.read(self._inotify, 65536)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            watch, _, _, length = struct.unpack_from("=iIII", data, place)
            place += 16 + length
            log = self._watched.pop(watch, None)
            if log is not None and not log.over:
                log.mark()
                self._heat(log)

    async def read(self, path: Path, view: View) -> AsyncIterator[bytes]:
        """A log as asked for, piece by piece; following ends when the container has ended and all was read."""
        log = self.logs.get(path)
        if log is not None:
            log.mark()
        left = view.limit
        async for piece in _pieces(path, view, log):
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            if piece:
                yield piece
            if left == 0:
                return


async def _pieces(path: Path, view: View, log: Log | None) -> AsyncIterator[bytes]:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        return
    with file:
        descriptor = file.fileno()
        place = _beginning(path, descriptor, view)
        shape = _stamper(path) if view.timestamps else None
        while True:
            over = log is None or log.over
            data = os.pread(descriptor, CHUNK, place)
            if shape is not None and data and not (over and len(data) < CHUNK):
                # Only whole lines can be stamped; the rest comes with its end.
                data = data[: data.rfind(b"\n") + 1] or (data if len(data) == CHUNK else b"")
            if data:
                yield shape(data, place) if shape else data
                place += len(data)
                continue
            if not view.follow or over or log is None:
                return
            await log.grown()


def _stamper(path: Path) -> Callable[[bytes, int], bytes]:
    def stamp(data: bytes, place: int) -> bytes:
        return stamped(data, place, index_of(path), time.time_ns())

    return stamp


def index_of(path: Path) -> Index:
    try:
        return read_index(path.with_name("log.index").read_bytes())
    except OSError:
        return Index()


def last_lines(path: Path, lines: int = 20, most: int = 4096) -> str:
    """The end of a log, for people."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(_tail(file.fileno(), size, lines, 0), size - most)
        return os.pread(file.fileno(), size - start, start).decode(errors="replace")
    return ""


def first_byte(path: Path) -> int:
    """Where a log that was cut begins."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.with_name("log.start").read_text())
    return 0


def _beginning(path: Path, descriptor: int, view: View) -> int:
    """The offset of the first line wanted."""
    first, size = first_byte(path), os.fstat(descriptor).st_size
    start = _line_start(descriptor, first, size) if first else 0
    if view.since is not None:
        moment = int(view.since.timestamp() * 10**9)
        marked = index_of(path)
        offset = size if marked.times and moment > marked.times[-1] else marked.offset_at(moment)
        start = max(start, _line_start(descriptor, offset, size) if offset else 0)
    if view.tail is not None:
        start = max(start, _tail(descriptor, size, view.tail, start))
    return start


def _line_start(descriptor: int, offset: int, size: int) -> int:
    """The first line that begins at an offset or after it."""
    place = offset - 1
    while 0 <= place < size:
        data = os.pread(descriptor, CHUNK, place)
        found = data.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(data) or 1
    return max(0, min(offset, size))


def _tail(descriptor: int, size: int, lines: int, floor: int) -> int:
    """Where the last so many lines begin, looked for from the end."""
    if lines <= 0:
        return size
    place, wanted = size, lines
    # The last byte ends the last line; it does not begin another.
    if size and os.pread(descriptor, 1, size - 1) == b"\n":
        wanted += 1
    while place > floor:
        start = max(floor, place - CHUNK)
        data = os.pread(descriptor, place - start, start)
        count = data.count(b"\n")
        if count >= wanted:
            at = len(data)
            for _ in range(wanted):
                at = data.rfind(b"\n", 0, at)
            return start + at + 1
        wanted -= count
        place = start
    return floor
