"""Cron schedules: which minutes a text names, the next of them after a moment, and which passed unused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTH_NAMES, _DAY_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec", "sun mon tue wed thu fri sat"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES.split())}
_WORDS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_ANY = ("*", "?")
_FAR = 366 * 5  # days to look for a match: February 29 comes within eight years, robfig's parser stops after five


class BadSchedule(ValueError):
    """A text that names no schedule."""


class UnknownZone(BadSchedule):
    """A time zone nobody knows."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Minutes, hours, days, months and weekdays that match; a `*` day gives way to the other kind of day."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    zone: tzinfo

    def next(self, after: datetime) -> datetime | None:
        """The first moment after this one."""
        start = after.astimezone(self.zone)
        for ahead in range(_FAR):
            day = start + timedelta(days=ahead)
            for hour in self._hours(day):
                if ahead or hour >= start.hour:
                    later = [moment for moment in self._moments(day, hour) if moment > after]
                    if later:
                        return later[0]
        return None

    def _hours(self, day: datetime) -> tuple[int, ...]:
        return self.hours if day.month in self.months and self._fits_day(day) else ()

    def _moments(self, day: datetime, hour: int) -> list[datetime]:
        """When clocks on the wall show this hour: twice in the night they are set back, never if they skip it."""
        folds = [
            day.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=fold).astimezone(UTC)
            for fold in (0, 1)
            for minute in self.minutes
        ]
        return sorted({moment for moment in folds if moment.astimezone(self.zone).hour == hour})

    def _fits_day(self, day: datetime) -> bool:
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date and by_week if self.any_day else by_date or by_week


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed time between starts."""

    delay: timedelta

    def next(self, after: datetime) -> datetime | None:
        return after.replace(microsecond=0) + self.delay


class Missed(NamedTuple):
    """The latest moment that passed, and about how many did: 0 where the latest is the only one, or none did."""

    latest: datetime | None
    number: int = 0


def missed_since(schedule: Schedule | Every, earliest: datetime, now: datetime) -> Missed:
    """What a schedule named after one moment and until another.

    Reckoned from the time between the first two, as upstream does: a clock that is wrong by years is not counted out.
    The latest of many is looked for near the end only, so with uneven times between them it may not be found.
    """
    first = schedule.next(earliest)
    if first is None or now < first:
        return Missed(None)
    second = schedule.next(first)
    if second is None or now < second:
        return Missed(first)
    between = second - first
    count = (now - first) // between + 1
    latest, moment = None, schedule.next(first + between * (count - 2))
    while moment is not None and moment <= now:
        latest, moment = moment, schedule.next(moment)
    return Missed(latest, count)


def parse(text: str, zone: str | None = None) -> Schedule | Every:
    """Read a schedule as Kubernetes does: five fields, or a word such as `@daily` or `@every 90m`."""
    if text.startswith("@every "):
        return Every(max(_duration(text[len("@every ") :]), timedelta(seconds=1)))
    fields = _WORDS.get(text.lower(), text).split()
    if len(fields) != 5:
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    (minutes, _), (hours, _) = _field(fields[0], 0, 59), _field(fields[1], 0, 23)
    (days, any_date), (months, _) = _field(fields[2], 1, 31), _field(fields[3], 1, 12, _MONTHS)
    weekdays, any_weekday = _field(fields[4], 0, 7, _DAYS)
    return Schedule(
        tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months),
        frozenset(day % 7 for day in weekdays), any_date or any_weekday, zone_of(zone),
    )  # fmt: skip


def zone_of(name: str | None) -> tzinfo:
    """The time zone of this name; none is UTC."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone(f"unknown time zone {name}") from error


def _duration(text: str) -> timedelta:
    number = re.sub(r"^[+-]", "", text)
    parts = re.findall(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|h|m|s)", number)
    if number != "0" and (not parts or "".join(amount + unit for amount, unit in parts) != number):
        raise BadSchedule(f"failed to parse duration @every {text}")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def _field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> tuple[set[int], bool]:
    """One field: `*`, `?`, numbers, names, ranges and steps, joined by commas; and whether it names everything."""
    found: set[int] = set()
    everything = False
    for part in filter(None, text.split(",")):
        span, slash, step = part.partition("/")
        first, last = _span(span, low, high, names or {}, stepped=bool(slash))
        if slash and (not step.isdecimal() or int(step) == 0):
            raise BadSchedule(f"step of range should be a positive number: {part}")
        found.update(range(first, last + 1, int(step) if slash else 1))
        everything |= span[0] in _ANY and int(step or 1) == 1
    return found, everything


def _span(text: str, low: int, high: int, names: dict[str, int], *, stepped: bool) -> tuple[int, int]:
    begin, dash, end = text.partition("-")
    if begin in _ANY:
        return low, high
    first = _number(begin, names)
    last = _number(end, names) if dash else high if stepped else first
    if first < low or last > high:
        raise BadSchedule(f"{'beginning' if first < low else 'end'} of range is out of bounds: {text}")
    if first > last:
        raise BadSchedule(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    return first, last


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isdecimal():
        raise BadSchedule(f"failed to parse int from {text}")
    return int(text)
