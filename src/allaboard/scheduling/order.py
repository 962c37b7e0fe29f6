"""Whose turn it is: gangs ordered inside their queue, queues ordered among their siblings, by keys that end in a
name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from allaboard.scheduling.facts import UNLIMITED
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.queues import Amounts, Queues, minus, within

NOTHING = (0.0, 0.0, 0.0)
GangKey = tuple[object, ...]
QueueKey = tuple[bool, bool, int, bool, float, float]


class QueueRule:
    """The proportion rule of queue order, as keys: smaller is more deserving.

    `lazy` asks for KAI's own order, in which a queue may be judged by a child that is not its best any more.
    """

    def __init__(self, queues: Queues, totals: Amounts, *, lazy: bool = False) -> None:
        self.queues, self.totals, self.lazy = queues, totals, lazy
        self._bounds: dict[int, Amounts] = {}

    def key(self, row: int, next_job: Amounts, leaving: Amounts = NOTHING) -> QueueKey:
        """Not over-utilised, starving, priority, not using what it may not have, dominant share with and without
        the job."""
        queues = self.queues
        cpu, memory, gpu = queues.allocated[row]
        share, fair = queues.allocatable[row], queues.fair[row]
        after = (cpu + next_job[0], memory + next_job[1], gpu + next_job[2])
        return (
            fair[0] < cpu and fair[1] < memory and fair[2] < gpu,
            not within(after, queues.quota[row]),
            -queues.priority[row],
            (not share[0] and after[0] > 0) or (not share[1] and after[1] > 0) or (not share[2] and after[2] > 0),
            self.dominant(row, minus(after, leaving)),
            self.dominant(row, (cpu, memory, gpu)),
        )

    def dominant(self, row: int, held: Amounts) -> float:
        """The largest part of its allocatable share that a queue holds."""
        largest = 0.0
        for bound, amount in zip(self.bounds(row), held):
            part = amount / bound if bound else amount * 1000
            if part > largest:
                largest = part
        return largest

    def bounds(self, row: int) -> Amounts:
        """Allocatable shares with the cluster's total in place of unlimited ones; kept as they only change with a
        division."""
        known = self._bounds.get(row)
        if known is None:
            shares = self.queues.allocatable[row]
            cpu, memory, gpu = (total if share == UNLIMITED else share for share, total in zip(shares, self.totals))
            known = self._bounds[row] = (cpu, memory, gpu)
        return known

    def before(self, left: int, right: int, keys: tuple[QueueKey, QueueKey]) -> bool:
        """Whether `left` is more deserving; equal keys fall to the smaller allocatable share, then to age."""
        if keys[0] != keys[1]:
            return keys[0] < keys[1]
        mine, theirs = self.queues.allocatable[left], self.queues.allocatable[right]
        smaller, larger = within(mine, theirs), within(theirs, mine)
        return smaller if smaller != larger else left < right


class JobOrder:
    """Gangs in fair order: pop the best gang of the best queue, asking again after every change of what queues
    hold.

    A queue is compared through its best descendant gang. What was found is kept until the queue's holdings change
    (its stamp) or a gang below it comes or goes (its turn); both count up along the whole path to the top.
    """

    def __init__(self, rule: QueueRule, request: Callable[[GangRow], Amounts]) -> None:
        self.rule, self.request = rule, request
        self.heaps: dict[int, list[tuple[GangKey, GangRow]]] = {}
        self._live: dict[int, list[int]] = {}
        self._turn = [0] * len(rule.queues)
        self._keys: dict[int, tuple[int, int, QueueKey, Amounts]] = {}
        self._leaves: dict[int, tuple[int, int, int]] = {}

    def fill(self, gangs: Iterable[tuple[GangKey, GangRow]]) -> None:
        for entry in gangs:
            self.heaps.setdefault(entry[1].queue, []).append(entry)
        for leaf in sorted(self.heaps):
            heapq.heapify(self.heaps[leaf])
            self._enliven(leaf)

    def push(self, key: GangKey, gang: GangRow) -> None:
        heapq.heappush(self.heaps.setdefault(gang.queue, []), (key, gang))
        self._enliven(gang.queue)

    def pop(self) -> GangRow | None:
        """The next gang, or None when nobody waits."""
        leaf = self._best(-1)
        if leaf < 0:
            return None
        heap = self.heaps[leaf]
        gang = heapq.heappop(heap)[1]
        self._pass_turn(leaf)
        if not heap:
            self._bury(leaf)
        return gang

    def _pass_turn(self, leaf: int) -> None:
        for row in self.rule.queues.path[leaf]:
            self._turn[row] += 1

    def _enliven(self, leaf: int) -> None:
        queues = self.rule.queues
        self._pass_turn(leaf)
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

    def _best(self, parent: int) -> int:
        """The leaf of the best queue below a parent; -1 when nobody waits there."""
        rows = self._live.get(parent)
        if not rows:
            return -1
        stamps, turns, keys = self.rule.queues.stamp, self._turn, self._keys
        best, best_key = -1, None
        for row in rows:
            known = keys.get(row)
            fresh = known is not None and known[0] == stamps[row] and known[1] == turns[row]
            key = known[2] if fresh and known is not None else self._key(row)
            if best_key is None or key < best_key or (key == best_key and self.rule.before(row, best, (key, best_key))):
                best, best_key = row, key
        return self._leaf(best)

    def _leaf(self, row: int) -> int:
        if row not in self.rule.queues.children:
            return row
        stamp, turn = self.rule.queues.stamp[row], self._turn[row]
        known = self._leaves.get(row)
        if known is None or known[0] != stamp or known[1] != turn:
            known = self._leaves[row] = (stamp, turn, self._best(row))
        return known[2]

    def _key(self, row: int) -> QueueKey:
        stamp, turn = self.rule.queues.stamp[row], self._turn[row]
        known = self._keys.get(row)
        if known is not None and known[0] == stamp and known[1] == turn:
            return known[2]
        request = self.request(self.heaps[self._leaf(row)][0][1])
        same = known is not None and known[0] == stamp and known[3] == request
        key = known[2] if same and known is not None else self.rule.key(row, request)
        self._keys[row] = (stamp, turn, key, request)
        return key
