"""Texts of built-in kinds that Go reads as something else: moments and bytes; its words for what it cannot read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_SECONDS, _MICROS = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
# The parts of a moment in their order: what Go calls them, and what they look like.
_PARTS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d{2}"), ("-", "-"), ("02", r"\d{2}"), ("T", "T"),
    ("15", r"\d{2}"), (":", ":"), ("04", r"\d{2}"), (":", ":"), ("05", r"\d{2}"),
)  # fmt: skip
_ALPHABET = re.compile(r"[A-Za-z0-9+/\r\n]*")


class Unreadable(ValueError):
    """What Go says of a text it cannot read."""


@lru_cache(maxsize=1024)
def moment(text: str, *, micros: bool = False) -> str:
    """A moment as Kubernetes stores it: UTC, whole seconds, or microseconds where a field has them."""
    layout, rest = (_MICROS if micros else _SECONDS), text
    for name, pattern in _PARTS:
        rest = _after(rest, pattern, name, text, layout)
    fraction = re.match(r"[.,]\d+", rest)
    if micros:
        rest = _after(rest, r"\.\d{6}", ".000000", text, layout)
    elif fraction:
        rest = rest[fraction.end() :]
    zone = rest
    rest = _after(rest, r"Z|[+-]\d{2}:\d{2}", "Z07:00", text, layout)
    if rest:
        raise Unreadable(f'parsing time "{text}": extra text: "{rest}"')
    return _stored(text, zone, micros=micros)


def _after(rest: str, pattern: str, name: str, text: str, layout: str) -> str:
    found = re.match(pattern, rest)
    if not found:
        raise Unreadable(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"')
    return rest[found.end() :]


def _stored(text: str, zone: str, *, micros: bool) -> str:
    try:
        found = datetime.fromisoformat(text.replace(",", ".").removesuffix("Z") + ("+00:00" if zone == "Z" else ""))
    except ValueError as problem:
        part = str(problem).split(" ")[0]
        raise Unreadable(f'parsing time "{text}": {part} out of range') from None
    try:
        found = found.astimezone(UTC)
    except OverflowError:
        return text
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micros else "%Y-%m-%dT%H:%M:%SZ").rjust(
        len("2006-01-02T15:04:05Z"), "0"
    )


def check_base64(text: str) -> None:
    """Raise where a text is not base64, naming the byte as Go counts it."""
    found = _ALPHABET.match(text)
    end = found.end() if found else 0
    padding = text[end:]
    body = re.sub(r"[\r\n]", "", text[:end])
    if padding.strip("=\r\n"):
        raise Unreadable(f"illegal base64 data at input byte {end + len(padding) - len(padding.lstrip('='))}")
    wanted = -len(body) % 4
    signs = padding.count("=")
    if wanted == 3 or signs != wanted:
        raise Unreadable(
            f"illegal base64 data at input byte {len(body) - len(body) % 4 if signs < wanted else end + wanted}"
        )
