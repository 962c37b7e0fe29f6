"""What the cluster takes from the world: the time, identities and chance. Tests hand in their own."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Upstream: no vowels, so that no generated name says anything

_chance = random.SystemRandom()


def _suffix() -> str:
    return "".join(_chance.choices(LETTERS, k=5))


def _uid() -> str:
    return str(uuid.UUID(bytes=os.urandom(16), version=4))


@dataclass(frozen=True, slots=True)
class World:
    """Functions, so that a test can hold them still."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    uid: Callable[[], str] = _uid
    suffix: Callable[[], str] = _suffix
