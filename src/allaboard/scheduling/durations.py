"""Durations as Go writes them."""

from __future__ import annotations

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")


def seconds(text: str | float) -> float:
    """A duration such as "1h30m" or "500ms", or a number of seconds."""
    if isinstance(text, int | float) or text.replace(".", "", 1).isdigit():
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a duration; write for example 90s or 1h30m')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def seconds_or_none(text: str | None) -> float | None:
    """The same of something nobody has to say, where what cannot be read is as good as not said."""
    try:
        return seconds(text) if text else None
    except ValueError:
        return None
