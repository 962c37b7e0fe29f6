"""Spans of time as kubectl prints them: `5s`, `3m20s`, `2d4h`."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 86400 * 365


def age(stamp: object, now: datetime) -> str:
    """How long ago a timestamp was."""
    then = instant(stamp)
    return "<unknown>" if then is None else span((now - then).total_seconds())


def instant(stamp: object) -> datetime | None:
    if not isinstance(stamp, str) or not stamp:
        return None
    try:
        then = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def span(length: float) -> str:
    """A length in seconds, in at most two units; the smaller one only while it still matters."""
    seconds = int(length)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 2 * MINUTE:
        return f"{seconds}s"
    if seconds < 10 * MINUTE:
        return _two(seconds, MINUTE, "m", 1, "s")
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return _two(seconds, HOUR, "h", MINUTE, "m")
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return _two(seconds, DAY, "d", HOUR, "h")
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    return _two(seconds, YEAR, "y", DAY, "d") if seconds < 8 * YEAR else f"{seconds // YEAR}y"


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_name}{rest}{small_name}" if rest else f"{seconds // large}{large_name}"
