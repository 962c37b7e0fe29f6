"""When which part of a log was written: an index of (size, time) marks beside it, and what can be read out of that.

Workloads write straight into their log file, so nobody stamps lines as they come. Instead the size of a growing log
is marked at most every 50 ms; a line's time is that of the first mark after it.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime

MARK = struct.Struct("=QQ")  # size in bytes, nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class Index:
    """The marks of one log, in order."""

    sizes: tuple[int, ...] = ()
    times: tuple[int, ...] = ()

    def time_at(self, offset: int, now: int) -> int:
        """When the byte at an offset was written, in nanoseconds; not yet marked means now."""
        index = bisect_right(self.sizes, offset)
        return self.times[index] if index < len(self.times) else now

    def offset_at(self, moment: int) -> int:
        """The first offset that was written at a moment or later."""
        index = bisect_left(self.times, moment)
        return self.sizes[index - 1] if index else 0


def read_index(data: bytes) -> Index:
    whole = len(data) - len(data) % MARK.size
    marks = list(MARK.iter_unpack(data[:whole]))
    return Index(tuple(size for size, _ in marks), tuple(time for _, time in marks))


def stamp_nanos(nanoseconds: int) -> str:
    """RFC 3339 with nanoseconds, as `kubectl logs --timestamps` prints it."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09d}Z"


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a log is wanted, and how; None means no such limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None


def stamped(lines: bytes, offset: int, index: Index, now: int) -> bytes:
    """Whole lines, each with its time in front; a progress bar's carriage returns end no line."""
    found = []
    for line in io.BytesIO(lines):
        found.append(stamp_nanos(index.time_at(offset, now)).encode() + b" " + line)
        offset += len(line)
    return b"".join(found)


def in_order(pieces: list[tuple[int, int, int, bytes]], grain: int = 50_000_000) -> list[bytes]:
    """Lines of several ranks merged: by time, within one grain by rank, then by place. Each is (time, rank, offset)."""
    ordered = sorted(pieces, key=lambda piece: (piece[0] // grain, piece[1], piece[2]))
    return [piece[3] for piece in ordered]
