"""Which events are told one by one, which of many similar ones are told as one, and which are too many to be told.

As client-go's recorder does it for everything that is told by core/v1 events: numbers and words are its.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

MOST_ALIKE, ALIKE_FOR = 10, timedelta(minutes=10)
BURST, REFILL = 25, timedelta(minutes=5)
REMEMBERED = 4096
COMBINED = "(combined from similar events): "

Group = tuple[str, str, str]  # uid of the object, type, reason: who says it has a correlator of its own


class _Alike:
    """What was said of an object for one reason, and when last."""

    __slots__ = ("last", "messages")

    def __init__(self, last: datetime) -> None:
        self.last, self.messages = last, dict[str, None]()


class _Budget:
    """How much may be said of an object, and when that was reckoned."""

    __slots__ = ("left", "since")

    def __init__(self, since: datetime) -> None:
        self.left, self.since = float(BURST), since


class Correlator:
    """Remembers who said what lately, of a limited number of objects."""

    def __init__(self) -> None:
        self._alike: OrderedDict[Group, _Alike] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], _Budget] = OrderedDict()

    def is_one_of_many(self, group: Group, message: str, now: datetime) -> bool:
        """Whether so much was said of an object for one reason that this is told as one of many."""
        known = self._alike.get(group)
        if known is None or now - known.last > ALIKE_FOR:
            known = _Alike(now)
            keep(self._alike, group, known)
        known.last = now
        known.messages[message] = None
        if len(known.messages) < MOST_ALIKE:
            return False
        known.messages.popitem()
        return True

    def is_too_much(self, group: Group, now: datetime) -> bool:
        """Whether an object has used up what may be said of it; every while it may be spoken of once more."""
        about = group[:2]
        known = self._budgets.get(about)
        if known is None:
            known = _Budget(now)
            keep(self._budgets, about, known)
        elif known.left < BURST:
            known.left = min(BURST, known.left + (now - known.since) / REFILL)
        known.since = now
        if known.left < 1:
            return True
        known.left -= 1
        return False


def keep(table: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    """Remember this, and forget what was remembered first where that is too much."""
    table[name] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)
