"""Which events are told one by one, which of many similar ones are told as one, and which are too many to be told.

As client-go's recorder does it for everything that is told by core/v1 events: numbers and words are its.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any, NamedTuple

MOST_ALIKE, ALIKE_FOR = 10, timedelta(minutes=10)
BURST, REFILL = 25, timedelta(minutes=5)
REMEMBERED = 4096
COMBINED = "(combined from similar events): "

Group = tuple[str, str, str]  # uid of the object, type, reason: who says it has a correlator of its own


class _Alike(NamedTuple):
    messages: dict[str, None]
    last: datetime


class _Budget(NamedTuple):
    left: float
    since: datetime


class Correlator:
    """Remembers who said what lately, of a limited number of objects."""

    def __init__(self) -> None:
        self._alike: OrderedDict[Group, _Alike] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], _Budget] = OrderedDict()

    def is_one_of_many(self, group: Group, message: str, now: datetime) -> bool:
        """Whether so much was said of an object for one reason that this is told as one of many."""
        known = self._alike.get(group)
        messages = known.messages if known is not None and now - known.last <= ALIKE_FOR else {}
        messages[message] = None
        keep(self._alike, group, _Alike(messages, now))
        if len(messages) < MOST_ALIKE:
            return False
        messages.popitem()
        return True

    def is_too_much(self, group: Group, now: datetime) -> bool:
        """Whether an object has used up what may be said of it; every while it may be spoken of once more."""
        about = group[:2]
        known = self._budgets.get(about) or _Budget(BURST, now)
        left = min(BURST, known.left + (now - known.since) / REFILL)
        keep(self._budgets, about, _Budget(left - 1 if left >= 1 else left, now))
        return left < 1


def keep(table: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    """Remember this, and forget what was not asked for the longest."""
    table[name] = value
    table.move_to_end(name)
    if len(table) > REMEMBERED:
        table.popitem(last=False)
