"""Who would have to go, in order: the least deserving gang of the least deserving queue, its surplus tasks first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allaboard.scheduling.gangs import IS_ACTIVE, GangRow, Members
from allaboard.scheduling.lazytree import Contender, LazyTree
from allaboard.scheduling.order import NOTHING, GangKey, QueueKey, QueueRule
from allaboard.scheduling.queues import Amounts, plus
from allaboard.scheduling.selection import to_evict
from allaboard.scheduling.standing import Standing

Rest = frozenset[int] | None
"""Task rows of a gang that are still in play; None is all of them."""

GroupOut = tuple[GangRow, list[int]]
"""Tasks that leave together."""


Top = tuple[GangKey, GangRow, Rest]


@dataclass(frozen=True, slots=True)
class Circle:
    """Who may be asked to go: gangs of these queues that are willing, so many of them (0: all)."""

    leaves: Sequence[int]
    willing: Callable[[GangRow], bool]
    limit: int = 0


class VictimOrder:
    """Pops eviction groups of a circle."""

    def __init__(
        self, standing: Standing, rule: QueueRule, circle: Circle, key_of: Callable[[GangRow, Sequence[int]], GangKey]
    ) -> None:
        self.standing, self.rule, self.circle, self.key_of = standing, rule, circle, key_of
        self.asked: set[str] = set()
        self.next = {leaf: len(standing.evictable.get(leaf, ())) for leaf in circle.leaves}
        self.rests: dict[int, list[tuple[GangKey, GangRow, Rest]]] = {}
        self.tops: dict[int, Top | None] = {}
        self.gone: dict[int, Amounts] = {}
        self.live: dict[int, list[int]] = {}
        self.keys: dict[int, tuple[int, QueueKey]] = {}
        open_leaves = [leaf for leaf in sorted(self.next) if self._top(leaf) is not None]
        for leaf in open_leaves:
            self._enliven(leaf)
        self.racing = len(open_leaves) > 1
        self.tree = LazyTree(rule.queues, open_leaves, self._less) if rule.lazy else None

    def group(self, recorded: frozenset[int]) -> GroupOut | None:
        """The next tasks to leave together, those of recorded victims left out; None when nobody is left."""
        state = self.standing.state
        while (popped := self._pop()) is not None:
            gang, rest = popped
            self.asked.add(gang.name)
            if 0 < self.circle.limit < len(self.asked):
                return None
            rows, more = to_evict(state, gang, rest)
            if recorded and not recorded.isdisjoint(rows):
                self._push(gang, frozenset(gang.rows if rest is None else rest) - recorded)
                continue
            if more:
                self._push(gang, frozenset(gang.rows if rest is None else rest).difference(rows))
            if rows:
                return gang, rows
        return None

    def _pop(self) -> tuple[GangRow, Rest] | None:
        leaf = self._worst(-1) if self.tree is None else self.tree.next_leaf() if self.tree else None
        if leaf is None:
            return None
        top = self._top(leaf)
        assert top is not None
        rests = self.rests.get(leaf)
        if rests and top is rests[-1]:
            rests.pop()
        else:
            self.next[leaf] -= 1
        del self.tops[leaf]
        if self.racing:
            self.gone[leaf] = plus(self.gone.get(leaf, NOTHING), self.standing.holds(top[1]))
        if self.tree is not None:
            self.tree.popped(leaf, empty=self._top(leaf) is None)
        elif self._top(leaf) is None:
            self._bury(leaf)
        for row in self.rule.queues.path[leaf]:
            self.keys.pop(row, None)
        return top[1], top[2]

    def _push(self, gang: GangRow, rest: frozenset[int]) -> None:
        if not rest:
            return
        state = self.standing.state
        active: dict[Members, int] = dict.fromkeys(gang.leaves, 0)
        for row in rest:
            if IS_ACTIVE[state.tasks.status[row]]:
                active[state.tasks.members[row]] += 1
        key = self.key_of(gang, [active[leaf] for leaf in gang.leaves])
        rests = self.rests.setdefault(gang.queue, [])
        rests.append((key, gang, rest))
        rests.sort(key=lambda entry: entry[0])
        self.tops.pop(gang.queue, None)
        if self.tree is not None:
            self.tree.pushed(gang.queue)
        else:
            self._enliven(gang.queue)
        for row in self.rule.queues.path[gang.queue]:
            self.keys.pop(row, None)

    def _top(self, leaf: int) -> Top | None:
        """The least deserving gang of a leaf, kept until one is taken or pushed back."""
        if leaf not in self.tops:
            self.tops[leaf] = self._find_top(leaf)
        return self.tops[leaf]

    def _find_top(self, leaf: int) -> Top | None:
        """From the end of the sorted list, or a rest that was pushed back."""
        entries = self.standing.evictable.get(leaf, ())
        position = self.next[leaf]
        while position and not self.circle.willing(entries[position - 1][1]):
            position -= 1
        self.next[leaf] = position
        rests = self.rests.get(leaf)
        if rests and (not position or rests[-1][0] > entries[position - 1][0]):
            return rests[-1]
        return (*entries[position - 1], None) if position else None

    def _worst(self, parent: int) -> int | None:
        """The leaf of the least deserving queue below a parent."""
        children = self.live.get(parent, ())
        if not children:
            return None
        worst = children[0]
        for row in children[1:]:
            if not self.rule.before(row, worst, (self._key(row), self._key(worst))):
                worst = row
        return worst if self.rule.queues.is_leaf(worst) else self._worst(worst)

    def _key(self, row: int) -> QueueKey:
        known = self.keys.get(row)
        if known is None:
            leaf = row if self.rule.queues.is_leaf(row) else self._worst(row)
            assert leaf is not None
            known = self.keys[row] = (leaf, self._judged(row, leaf))
        return known[1]

    def _judged(self, row: int, leaf: int) -> QueueKey:
        """The key of a queue when the next to go is the top of this leaf."""
        top = self._top(leaf)
        assert top is not None
        return self.rule.key(row, NOTHING, plus(self.gone.get(leaf, NOTHING), self.standing.holds(top[1])))

    def _less(self, left: Contender, right: Contender) -> bool:
        """Backwards: the least deserving comes first."""
        return not self.rule.before(left[0], right[0], (self._judged(*left), self._judged(*right)))

    def _enliven(self, leaf: int) -> None:
        queues = self.rule.queues
        for row in queues.path[leaf]:
            siblings = self.live.setdefault(queues.parent[row], [])
            if row not in siblings:
                siblings.append(row)
                siblings.sort()

    def _bury(self, leaf: int) -> None:
        queues = self.rule.queues
        for row in queues.path[leaf]:
            if self.live.get(row) or (queues.is_leaf(row) and self._top(row) is not None):
                break
            self.live[queues.parent[row]].remove(row)
