"""What the cluster takes from the world: the time, identities and chance. Tests hand in their own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Upstream: no vowels, so that no generated name says anything

_chance = random.Random(os.urandom(32))
_POOL = 4096  # bytes fetched from the system at once: asking for sixteen each time costs more than the rest of a uid
_pool = bytearray()


def _suffix() -> str:
    return "".join(_chance.choices(LETTERS, k=5))


def _uid() -> str:
    if not _pool:
        _pool.extend(os.urandom(_POOL))
    raw = bytes(_pool[-16:])
    del _pool[-16:]
    digits = f"{int.from_bytes(raw, 'big') & _FREE | _FIXED:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


# Version 4, variant 1: the bits of a uid that chance does not decide.
_FREE = ~(0xF << 76 | 0x3 << 62)
_FIXED = 0x4 << 76 | 0x2 << 62


@dataclass(frozen=True, slots=True)
class World:
    """Functions, so that a test can hold them still."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    uid: Callable[[], str] = _uid
    suffix: Callable[[], str] = _suffix
