"""What the cluster takes from the world: the time, identities and chance. Tests hand in their own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Upstream: no vowels, so that no generated name says anything

_now = partial(datetime.now, UTC)
_chance = random.Random(os.urandom(32))
_POOL = 4096  # bytes fetched from the system at once: asking for sixteen each time costs more than the rest of a uid
_pool: list[str] = []  # thirty-two digits each


def _suffix() -> str:
    return "".join(_chance.choices(LETTERS, k=5))


def _uid() -> str:
    """Version 4, variant 1: what chance does not decide are the digits after the second dash and the third."""
    if not _pool:
        digits = os.urandom(_POOL).hex()
        _pool.extend(digits[at : at + 32] for at in range(0, len(digits), 32))
    raw = _pool.pop()
    return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-{_VARIANT[raw[16]]}{raw[17:20]}-{raw[20:]}"


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


@dataclass(frozen=True, slots=True)
class World:
    """Functions, so that a test can hold them still."""

    now: Callable[[], datetime] = _now
    uid: Callable[[], str] = _uid
    suffix: Callable[[], str] = _suffix
