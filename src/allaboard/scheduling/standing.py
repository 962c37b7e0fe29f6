"""Gangs by queue, in order: those that wait and those that could be evicted; kept while the solver's actions run."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from allaboard.scheduling.gangs import IS_ALLOCATED, GangRow
from allaboard.scheduling.order import GangKey
from allaboard.scheduling.state import State

Entry = tuple[GangKey, GangRow]


class Standing:
    """Sorted lists per leaf queue. `refresh` a gang whenever its tasks changed for good."""

    def __init__(self, state: State, rule: tuple[str, ...], gang_key: Callable[[GangRow], GangKey]) -> None:
        self.state, self.rule, self.gang_key = state, rule, gang_key
        self.waiting: dict[int, list[Entry]] = {}
        self.evictable: dict[int, list[Entry]] = {}
        self._lowest: dict[int, float] = {}
        self._known: dict[str, tuple[GangKey, int, bool, bool]] = {}
        for gang in state.gangs.values():
            if gang.queue >= 0:
                self._enter(gang, list.append)
        for lists in (self.waiting, self.evictable):
            for entries in lists.values():
                entries.sort(key=entry_key)

    def adopt(self, gang_key: Callable[[GangRow], GangKey], changed: Iterable[GangRow]) -> None:
        """Another cycle begins: gangs that changed meanwhile are looked at again, those that are gone leave."""
        self.gang_key = gang_key
        self.refresh(changed)

    def refresh(self, gangs: Iterable[GangRow]) -> None:
        self._lowest = {}
        for gang in gangs:
            self._leave(gang.name)
            if gang.queue >= 0 and self.state.gangs.get(gang.name) is gang:
                self._enter(gang, _insort)

    def _leave(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is None:
            return
        key, queue, waits, evictable = known
        for there, lists in ((waits, self.waiting), (evictable, self.evictable)):
            if there:
                entries = lists[queue]
                del entries[bisect_left(entries, key, key=entry_key)]
                if not entries:
                    del lists[queue]

    def _enter(self, gang: GangRow, add: Callable[[list[Entry], Entry], None]) -> None:
        waits, evictable = gang.pending() > 0, gang.preemptible and gang.active() > 0
        if not (waits or evictable):
            return
        key = self.gang_key(gang)
        self._known[gang.name] = (key, gang.queue, waits, evictable)
        if waits:
            add(self.waiting.setdefault(gang.queue, []), (key, gang))
        if evictable:
            add(self.evictable.setdefault(gang.queue, []), (key, gang))

    def lowest_priority(self, leaf: int) -> float:
        """The lowest priority of a queue's evictable gangs; infinite when it has none."""
        if leaf not in self._lowest:
            priorities = (gang.priority for _, gang in self.evictable.get(leaf, ()))
            self._lowest[leaf] = min(priorities, default=math.inf)
        return self._lowest[leaf]

    def holds(self, gang: GangRow) -> tuple[float, float, float]:
        """What the gang's allocated tasks ask for, as the order of victims counts it."""
        state = self.state
        cpu = memory = gpu = 0.0
        for row in gang.rows:
            if IS_ALLOCATED[state.tasks.status[row]]:
                quota = state.tasks.klass[row].quota
                cpu, memory, gpu = cpu + quota[0], memory + quota[1], gpu + quota[2]
        return cpu, memory, gpu


def _insort(entries: list[Entry], entry: Entry) -> None:
    insort(entries, entry, key=entry_key)


def entry_key(entry: Entry) -> GangKey:
    return entry[0]
