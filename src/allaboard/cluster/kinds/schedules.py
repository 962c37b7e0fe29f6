"""Schedules in the format of cron: what is wrong with one, in the words of the library upstream reads them with."""

from __future__ import annotations

import re

NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: number for number, name in enumerate(NAMES, 1)}
DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
Bounds = tuple[int, int, dict[str, int]]  # the least and the greatest value of a field, and names for values
FIELDS: tuple[Bounds, ...] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, MONTHS), (0, 6, DAYS))
WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+)")


class Unreadable(ValueError):
    """A part of a schedule that makes no sense."""


def complaint(text: str) -> str:
    """What is wrong with a schedule; nothing where it can be kept."""
    if text.startswith("@"):
        return _descriptor(text)
    fields = text.split()
    if len(fields) != len(FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, bounds in zip(fields, FIELDS, strict=True):
            for part in filter(None, field.split(",")):
                _check(part, *bounds)
    except Unreadable as problem:
        return str(problem)
    return ""


def _descriptor(text: str) -> str:
    if text in WORDS:
        return ""
    if text.startswith("@every "):
        said = text.removeprefix("@every ")
        known = DURATION.fullmatch(said)
        return "" if known else f'failed to parse duration {text}: time: invalid duration "{said}"'
    return f"unrecognized descriptor: {text}"


def _check(text: str, least: int, greatest: int, names: dict[str, int]) -> None:
    """One range: a value, `*`, `a-b`, each perhaps with a step."""
    span, *steps = text.split("/")
    low, *high = span.split("-")
    if low in ("*", "?"):
        start, end = least, greatest
    else:
        start = _number(low, names)
        if len(high) > 1:
            raise Unreadable(f"too many hyphens: {text}")
        end = _number(high[0], names) if high else greatest if steps else start
    if len(steps) > 1:
        raise Unreadable(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if start < least:
        raise Unreadable(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > greatest:
        raise Unreadable(f"end of range ({end}) above maximum ({greatest}): {text}")
    if start > end:
        raise Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise Unreadable(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?\d+", text):
        raise Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise Unreadable(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
