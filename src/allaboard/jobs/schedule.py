"""Cron schedules: which minutes a text names, the last of them before a moment and the next after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTH_NAMES, _DAY_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec", "sun mon tue wed thu fri sat"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES.split())}
_WORDS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
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

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The latest moment that is later than the first and not later than the second."""
        end = until.astimezone(self.zone)
        for back in range((until - after).days + 2):
            day = end - timedelta(days=back)
            for hour in reversed(self._hours(day)):
                earlier = [moment for moment in self._moments(day, hour) if moment <= until]
                if earlier:
                    return earlier[-1] if earlier[-1] > after else None
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

    def last(self, after: datetime, until: datetime) -> datetime | None:
        count = (until - after) // self.delay
        return after.replace(microsecond=0) + self.delay * count if count > 0 else None


def parse(text: str, zone: str | None = None) -> Schedule | Every:
    """Read a schedule as Kubernetes does: five fields, or a word such as `@daily` or `@every 90m`."""
    if text.startswith("@every "):
        return Every(max(_duration(text[len("@every ") :]), timedelta(seconds=1)))
    fields = _WORDS.get(text.lower(), text).split()
    if len(fields) != 5:
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours = _field(fields[0], 0, 59), _field(fields[1], 0, 23)
    days, months = _field(fields[2], 1, 31), _field(fields[3], 1, 12, _MONTHS)
    weekdays = {day % 7 for day in _field(fields[4], 0, 7, _DAYS)}
    starred = any(field[0] in "*?" for field in (fields[2], fields[4]))
    return Schedule(
        tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months), frozenset(weekdays),
        starred, _zone(zone),
    )  # fmt: skip


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone(f"unknown time zone {name}") from error


def _duration(text: str) -> timedelta:
    parts = re.findall(r"([0-9.]+)(ms|h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadSchedule(f"failed to parse duration @every {text}")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def _field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    """One field: `*`, `?`, numbers, names, ranges and steps, joined by commas."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, last = _span(span, low, high, names or {}, stepped=bool(slash))
        if slash and (not step.isdecimal() or step == "0"):
            raise BadSchedule(f"step of range should be a positive number: {part}")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return found


def _span(text: str, low: int, high: int, names: dict[str, int], *, stepped: bool) -> tuple[int, int]:
    if text in ("*", "?"):
        return low, high
    begin, dash, end = text.partition("-")
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
