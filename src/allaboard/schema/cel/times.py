"""The functions of CEL that take moments and durations apart: `getFullYear`, `getHours` and their kin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from allaboard.schema.cel.kubernetes import FUNCTIONS
from allaboard.schema.cel.library import cel
from allaboard.schema.cel.values import CelError


def _zone(name: str) -> tzinfo:
    """A zone by name (`Europe/Berlin`) or by its distance from UTC (`-08:00`)."""
    sign, rest = (-1, name[1:]) if name.startswith("-") else (1, name.removeprefix("+"))
    hours, colon, minutes = rest.partition(":")
    if colon and hours.isdigit() and minutes.isdigit():
        return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _part(name: str, read: Callable[[datetime], int]) -> None:
    def local(moment: datetime, zone: str = "") -> int:
        return read(moment.astimezone(_zone(zone) if zone else UTC))

    cel(f"timestamp:{name}() int", f"timestamp:{name}(string) int")(local)


_part("getFullYear", lambda moment: moment.year)
_part("getMonth", lambda moment: moment.month - 1)
_part("getDate", lambda moment: moment.day)
_part("getDayOfMonth", lambda moment: moment.day - 1)
_part("getDayOfWeek", lambda moment: moment.isoweekday() % 7)
_part("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1)
_part("getHours", lambda moment: moment.hour)
_part("getMinutes", lambda moment: moment.minute)
_part("getSeconds", lambda moment: moment.second)
_part("getMilliseconds", lambda moment: moment.microsecond // 1000)


def _whole(unit: timedelta) -> Callable[[timedelta], Any]:
    return lambda span: int(span / unit)


cel("duration:getHours() int")(_whole(timedelta(hours=1)))
cel("duration:getMinutes() int")(_whole(timedelta(minutes=1)))
cel("duration:getSeconds() int")(_whole(timedelta(seconds=1)))
cel("duration:getMilliseconds() int")(_whole(timedelta(milliseconds=1)))

__all__ = ["FUNCTIONS"]
