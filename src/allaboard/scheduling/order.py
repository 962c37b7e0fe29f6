"""Whose turn it is: gangs ordered inside their queue, queues ordered among their siblings, by keys that end in a name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.queues import Amounts, Queues, minus, plus, within

NOTHING = (0.0, 0.0, 0.0)
GangKey = tuple[object, ...]
QueueKey = tuple[bool, bool, int, bool, float, float]


class QueueRule:
    """The proportion rule of queue order, as keys: smaller is more deserving."""

    def __init__(self, queues: Queues, totals: Amounts) -> None:
        self.queues, self.totals = queues, totals

    def key(self, row: int, next_job: Amounts, leaving: Amounts = NOTHING) -> QueueKey:
        """Not over-utilised, starving, priority, not using what it may not have, dominant share with and without the job."""
        queues = self.queues
        held, share = queues.allocated[row], queues.allocatable[row]
        after = plus(held, next_job)
        fair = queues.fair[row]
        return (
            fair[0] < held[0] and fair[1] < held[1] and fair[2] < held[2],
            not within(after, queues.quota[row]),
            -queues.priority[row],
            any(part == 0 and amount > 0 for part, amount in zip(share, after)),
            self.dominant(row, minus(after, leaving)),
            self.dominant(row, held),
        )

    def dominant(self, row: int, held: Amounts) -> float:
        """The largest part of its allocatable share that a queue holds."""
        largest = 0.0
        for share, amount, total in zip(self.queues.allocatable[row], held, self.totals):
            bound = total if share == -1 else share
            part = amount * 1000 if bound == 0 else amount / bound
            largest = max(largest, part)
        return largest

    def before(self, left: int, right: int, keys: tuple[QueueKey, QueueKey]) -> bool:
        """Whether `left` is more deserving; equal keys fall to the smaller allocatable share, then to age."""
        if keys[0] != keys[1]:
            return keys[0] < keys[1]
        mine, theirs = self.queues.allocatable[left], self.queues.allocatable[right]
        smaller, larger = within(mine, theirs), within(theirs, mine)
        return smaller if smaller != larger else left < right


class JobOrder:
    """Gangs in fair order: pop the best gang of the best queue, asking again after every change of what queues hold."""

    def __init__(self, rule: QueueRule, request: Callable[[GangRow], Amounts]) -> None:
        self.rule, self.request = rule, request
        self.heaps: dict[int, list[tuple[GangKey, GangRow]]] = {}
        self._keys: dict[int, tuple[int, GangRow, QueueKey]] = {}
        self._live: dict[int, list[int]] = {}

    def fill(self, gangs: Iterable[tuple[GangKey, GangRow]]) -> None:
        for entry in gangs:
            self.heaps.setdefault(entry[1].queue, []).append(entry)
        for heap in self.heaps.values():
            heapq.heapify(heap)
        self._live = {}
        for leaf in sorted(self.heaps):
            self._enliven(leaf)

    def push(self, key: GangKey, gang: GangRow) -> None:
        heap = self.heaps.setdefault(gang.queue, [])
        heapq.heappush(heap, (key, gang))
        self._enliven(gang.queue)

    def pop(self) -> GangRow | None:
        """The next gang, or None when nobody waits."""
        row = self._best(-1)
        if row is None:
            return None
        heap = self.heaps[row]
        gang = heapq.heappop(heap)[1]
        if not heap:
            self._bury(row)
        return gang

    def _enliven(self, leaf: int) -> None:
        queues = self.rule.queues
        for row in queues.path[leaf]:
            siblings = self._live.setdefault(queues.parent[row], [])
            if row not in siblings:
                siblings.append(row)
                siblings.sort()

    def _bury(self, leaf: int) -> None:
        queues = self.rule.queues
        for row in queues.path[leaf]:
            if self._live.get(row) or self.heaps.get(row):
                break
            self._live[queues.parent[row]].remove(row)

    def _best(self, parent: int) -> int | None:
        """The leaf of the best queue below a parent."""
        best, best_key = -1, None
        for row in self._live.get(parent, ()):
            key = self._key(row)
            if best_key is None or self.rule.before(row, best, (key, best_key)):
                best, best_key = row, key
        if best_key is None:
            return None
        return best if self.rule.queues.is_leaf(best) else self._best(best)

    def _key(self, row: int) -> QueueKey:
        """A queue is compared through its best descendant gang; kept until its holdings or that gang change."""
        leaf = row if self.rule.queues.is_leaf(row) else self._best(row)
        assert leaf is not None
        gang = self.heaps[leaf][0][1]
        stamp = self.rule.queues.stamp[row]
        known = self._keys.get(row)
        if known is not None and known[0] == stamp and known[1] is gang:
            return known[2]
        key = self.rule.key(row, self.request(gang))
        self._keys[row] = (stamp, gang, key)
        return key
