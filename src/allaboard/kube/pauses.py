"""Pauses: a key that changes often is looked at once its first change is a moment old."""

from __future__ import annotations

from datetime import datetime, timedelta

from allaboard.api.documents import Key


class Pauses:
    """Which keys are due when: the first change of a key starts its pause, later ones ride along."""

    def __init__(self, pause: timedelta) -> None:
        self.pause = pause
        self._due: dict[Key, datetime] = {}

    def until(self, key: Key, now: datetime) -> datetime | None:
        """The end of the key's pause; None when it is over."""
        due = self._due.setdefault(key, now + self.pause)
        if now < due:
            return due
        del self._due[key]
        return None

    def waits(self, key: Key) -> bool:
        """Whether the key is in its pause: it will be looked at, so another change need not wake it."""
        return key in self._due
