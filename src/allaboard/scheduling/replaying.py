"""The order in which some gangs come up among all who wait, without walking through everybody who waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.lazytree import Contender, LazyTree
from allaboard.scheduling.order import GangKey, QueueKey, QueueRule
from allaboard.scheduling.queues import Amounts
from allaboard.scheduling.standing import Entry, Standing, entry_key


class Lane:
    """One leaf queue: those who wait there, and among them the gangs that matter."""

    __slots__ = ("entries", "matter", "position", "taken")

    def __init__(self, entries: list[Entry], matter: list[Entry]) -> None:
        self.entries, self.matter, self.position = entries, matter, 0
        self.taken = {gang for _, gang in matter}

    def top(self) -> GangRow | None:
        entries, position = self.entries, self.position
        while position < len(entries) and entries[position][1] in self.taken:
            position += 1
        self.position = position
        if self.matter and (position == len(entries) or self.matter[-1][0] < entries[position][0]):
            return self.matter[-1][1]
        return entries[position][1] if position < len(entries) else None


class ReplayOrder:
    """Pops only the gangs that matter; the others are passed over, as they would take a turn but nothing else."""

    def __init__(
        self,
        rule: QueueRule,
        standing: Standing,
        request: Callable[[GangRow], Amounts],
        key: Callable[[GangRow], GangKey],
    ) -> None:
        self.rule, self.standing, self.request, self.key = rule, standing, request, key
        self.requests: dict[GangRow, Amounts] = {}

    def run(self, gangs: set[GangRow]) -> Iterator[GangRow]:
        by_leaf: dict[int, list[Entry]] = {}
        for gang in gangs:
            if gang.queue >= 0:
                by_leaf.setdefault(gang.queue, []).append((self.key(gang), gang))
        for entries in by_leaf.values():
            if len(entries) > 1:
                entries.sort(key=entry_key, reverse=True)
        if len(by_leaf) > 1:
            yield from self._race(by_leaf)
        for entries in by_leaf.values():
            while entries:
                yield entries.pop()[1]

    def _race(self, by_leaf: dict[int, list[Entry]]) -> Iterator[GangRow]:
        """As long as two queues compete; what is left in one queue follows in its own order."""
        race = Race(self, by_leaf)
        open_lanes = len(by_leaf)
        while open_lanes > 1:
            leaf = race.next_leaf()
            gang = race.step(leaf)
            if gang is not None:
                yield gang
                open_lanes -= not by_leaf[leaf]

    def asked(self, gang: GangRow) -> Amounts:
        """What somebody who only waits asks for does not change during a simulation."""
        if gang not in self.requests:
            self.requests[gang] = self.request(gang)
        return self.requests[gang]


class Race:
    """The queues that compete in one simulation: those below the top queues of the gangs that matter."""

    def __init__(self, order: ReplayOrder, by_leaf: dict[int, list[Entry]]) -> None:
        self.order, self.rule, self.queues = order, order.rule, order.rule.queues
        self.by_leaf = by_leaf
        path, waiting = self.queues.path, order.standing.waiting
        tops = {path[leaf][-1] for leaf in by_leaf}
        leaves = set(by_leaf)
        leaves.update([leaf for leaf in waiting if path[leaf][-1] in tops])
        self.lanes = {leaf: Lane(waiting.get(leaf, []), by_leaf.get(leaf, [])) for leaf in leaves}
        self.live: dict[int, list[int]] = {}
        self.keys: dict[int, tuple[int, GangRow, QueueKey]] = {}
        self.pair: list[int] | None = sorted(leaves) if self._is_duel(leaves) else None
        self.tree = LazyTree(self.queues, leaves, self._less) if self.rule.lazy and self.pair is None else None
        if self.tree is None and self.pair is None:
            self._line_up(leaves)

    def _is_duel(self, leaves: set[int]) -> bool:
        """Two siblings and nobody else: they are compared directly, whatever stands above them."""
        return len(leaves) == 2 and len({self.queues.parent[leaf] for leaf in leaves}) == 1

    def _line_up(self, leaves: set[int]) -> None:
        """Live queues by parent, for an order that always looks for the best."""
        for leaf in leaves:
            for row in self.queues.path[leaf]:
                siblings = self.live.setdefault(self.queues.parent[row], [])
                if row not in siblings:
                    siblings.append(row)
        for siblings in self.live.values():
            siblings.sort()

    def next_leaf(self) -> int:
        if self.pair is not None:
            return self.pair[0] if len(self.pair) == 1 or self._wins(*self.pair) else self.pair[1]
        return self.best(-1) if self.tree is None else self.tree.next_leaf()

    def _wins(self, left: int, right: int) -> bool:
        return self._less((left, left), (right, right))

    def best(self, parent: int) -> int:
        """The leaf of the best queue below a parent."""
        rows = self.live[parent]
        best = rows[0]
        if len(rows) > 1:
            best_key = self._key(best)
            for row in rows[1:]:
                key = self._key(row)
                if self.rule.before(row, best, (key, best_key)):
                    best, best_key = row, key
        return best if best not in self.live else self.best(best)

    def _less(self, left: Contender, right: Contender) -> bool:
        return self.rule.before(left[0], right[0], (self._judged(*left), self._judged(*right)))

    def _key(self, row: int) -> QueueKey:
        return self._judged(row, row if row not in self.live else self.best(row))

    def _judged(self, row: int, leaf: int) -> QueueKey:
        """The key of a queue that is judged by this leaf."""
        gang = self.lanes[leaf].top()
        assert gang is not None
        stamp = self.queues.stamp[row]
        known = self.keys.get(row)
        if known is None or known[0] != stamp or known[1] is not gang:
            matters = gang in self.lanes[leaf].taken
            request = self.order.request(gang) if matters else self.order.asked(gang)
            known = self.keys[row] = (stamp, gang, self.rule.key(row, request))
        return known[2]

    def step(self, leaf: int) -> GangRow | None:
        """Take the top of a lane: a gang that matters, or everybody alike who stands before it."""
        lane = self.lanes[leaf]
        gang = lane.top()
        if lane.matter and lane.matter[-1][1] is gang:
            lane.matter.pop()
        else:
            self._pass_over(lane)
            gang = None
        empty = lane.top() is None
        if self.tree is not None:
            self.tree.popped(leaf, empty=empty)
        elif empty and self.pair is not None:
            self.pair.remove(leaf)
        elif empty:
            self._bury(leaf)
        return gang

    def _pass_over(self, lane: Lane) -> None:
        """Those who ask for the same leave their queue's key as it is, so its turn lasts until they are through."""
        entries, asked = lane.entries, self.order.asked
        request, position = asked(entries[lane.position][1]), lane.position + 1
        limit = lane.matter[-1][0] if lane.matter else None
        while position < len(entries):
            key, gang = entries[position]
            if gang not in lane.taken and ((limit is not None and limit < key) or asked(gang) != request):
                break
            position += 1
        lane.position = position

    def _bury(self, leaf: int) -> None:
        for row in self.queues.path[leaf]:
            if self.live.get(row) or (row == leaf and self.lanes[leaf].top() is not None):
                break
            self.live[self.queues.parent[row]].remove(row)
            if not self.live[self.queues.parent[row]] and self.queues.parent[row] >= 0:
                del self.live[self.queues.parent[row]]
