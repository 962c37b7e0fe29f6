"""Users of a pod's own: which part of the machine's sub-users a pod gets, where root has some to give."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

EACH = 65536  # what a pod may count on: every usual user, nobody included


@dataclass(frozen=True, slots=True)
class Range:
    """Sub-users and sub-groups of an account, in step."""

    uid: int
    gid: int
    count: int

    @property
    def pods(self) -> int:
        """How many pods can have users of their own at once."""
        return self.count // EACH


def range_of(users: tuple[int, int] | None, groups: tuple[int, int] | None) -> Range | None:
    """Both ranges together; None where one is missing or too small for a single pod."""
    if users is None or groups is None:
        return None
    found = Range(users[0], groups[0], min(users[1], groups[1]))
    return found if found.pods else None


def allot(given: Range, taken: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """The users of one more pod: (first uid, first gid, how many); empty where there are none (any more)."""
    for number in range(given.pods):
        part = (given.uid + number * EACH, given.gid + number * EACH, EACH)
        if part not in taken:
            return part
    return ()
