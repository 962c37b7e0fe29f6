"""The queue tree: who is whose parent, what each may have, and what each holds right now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.scheduling.facts import UNLIMITED, Queue
from allaboard.scheduling.fairshare import Tree, divide_tree

Amounts = Sequence[float]
"""cpu, memory, gpu as queues count them."""

Holdings = tuple[list[list[float]], list[list[float]]]
"""Allocated and non-preemptible amounts of every queue."""

EPSILON = 1e-9


class Queues:
    """Rows of queues whose chain of parents is complete; `allocated` and its kin are lists per row: cpu, memory,
    gpu."""

    def __init__(self, facts: Iterable[Queue]) -> None:
        self.given = tuple(facts)
        known = {queue.name: queue for queue in self.given}
        kept = [queue for queue in known.values() if _reaches_top(queue, known)]
        self.dropped = {name: _defect(queue, known) for name, queue in known.items() if not _reaches_top(queue, known)}
        self.facts = sorted(kept, key=lambda queue: (queue.created, queue.name))
        self.names = [queue.name for queue in self.facts]
        self.index = {name: row for row, name in enumerate(self.names)}
        self.parent = [self.index.get(queue.parent, -1) for queue in self.facts]
        self.children: dict[int, list[int]] = {}
        for row, parent in enumerate(self.parent):
            self.children.setdefault(parent, []).append(row)
        self.path = [self._path(row) for row in range(len(self.facts))]
        # Deeper queues first, then older ones.
        self.depth_rank = [(-len(path), row) for row, path in enumerate(self.path)]
        self.any_closed = any(queue.closed for queue in self.facts)
        self.priority = [queue.priority for queue in self.facts]
        self.quota = [_shares(queue, "quota") for queue in self.facts]
        self.limit = [_shares(queue, "limit") for queue in self.facts]
        self.weight = [_shares(queue, "weight") for queue in self.facts]
        self.allocated = [[0.0, 0.0, 0.0] for _ in self.facts]
        self.non_preemptible = [[0.0, 0.0, 0.0] for _ in self.facts]
        self.requested = [[0.0, 0.0, 0.0] for _ in self.facts]
        self.fair = [[0.0, 0.0, 0.0] for _ in self.facts]
        self.allocatable = [[0.0, 0.0, 0.0] for _ in self.facts]
        self.usage = [queue.usage for queue in self.facts]
        self.stamp = [0] * len(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def replace(self, queue: Queue) -> bool:
        """Take new facts about a queue where its place in the tree and its age stay; false when they do not."""
        row = self.index.get(queue.name, -1)
        known = self.facts[row] if row >= 0 else None
        if known is None or (known.parent, known.created) != (queue.parent, queue.created):
            return False
        self.facts[row] = queue
        self.given = tuple(queue if each.name == queue.name else each for each in self.given)
        self.priority[row], self.usage[row] = queue.priority, queue.usage
        self.any_closed = any(fact.closed for fact in self.facts)
        for column, field in ((self.quota, "quota"), (self.limit, "limit"), (self.weight, "weight")):
            column[row] = _shares(queue, field)
        self.stamp[row] += 1
        return True

    def _path(self, row: int) -> tuple[int, ...]:
        path = []
        while row >= 0:
            path.append(row)
            row = self.parent[row]
        return tuple(path)

    def is_leaf(self, row: int) -> bool:
        return row not in self.children

    def closed_by(self, row: int) -> str | None:
        """The queue, itself or above, that keeps gangs of a queue from starting."""
        if not self.any_closed:
            return None
        return next((self.names[each] for each in self.path[row] if self.facts[each].closed), None)

    def row_of(self, name: str) -> int:
        """The row that may hold jobs under this name, or -1."""
        row = self.index.get(name, -1)
        return row if row >= 0 and self.is_leaf(row) else -1

    def count(self, row: int, amounts: Amounts, sign: float, *, preemptible: bool) -> None:
        """Add to what a queue and its ancestors hold; the stamp tells orderings to look again."""
        cpu, memory, gpu = amounts[0] * sign, amounts[1] * sign, amounts[2] * sign
        for ancestor in self.path[row]:
            held = self.allocated[ancestor]
            held[0] += cpu
            held[1] += memory
            held[2] += gpu
            self.stamp[ancestor] += 1
            if not preemptible:
                fixed = self.non_preemptible[ancestor]
                fixed[0] += cpu
                fixed[1] += memory
                fixed[2] += gpu

    def holdings(self) -> Holdings:
        return [list(held) for held in self.allocated], [list(held) for held in self.non_preemptible]

    def restore(self, holdings: Holdings) -> None:
        self.allocated, self.non_preemptible = holdings
        self.stamp = [stamp + 1 for stamp in self.stamp]

    def request(self, row: int, amounts: Amounts, sign: float) -> None:
        """Add to what a queue and its ancestors ask for."""
        cpu, memory, gpu = amounts[0] * sign, amounts[1] * sign, amounts[2] * sign
        for ancestor in self.path[row]:
            asked = self.requested[ancestor]
            asked[0] += cpu
            asked[1] += memory
            asked[2] += gpu

    def divide(self, totals: Amounts, usage_weight: float) -> None:
        """Recompute every fair share, and with it what each queue may be given."""
        if not self.facts:
            return
        tree = Tree(self.children, self.priority, self.quota, self.limit, self.weight, self.requested, self.usage)
        self.fair = divide_tree(totals, tree, usage_weight)
        self.allocatable = [self._allocatable(row) for row in range(len(self.facts))]
        self.stamp = [stamp + 1 for stamp in self.stamp]

    def _allocatable(self, row: int) -> list[float]:
        """What a queue may be given: its fair share or quota, whichever is more, within its limit."""
        result = []
        for quota, limit, fair in zip(self.quota[row], self.limit[row], self.fair[row]):
            best = limit if quota == UNLIMITED else max(quota, fair)
            result.append(best if UNLIMITED in (limit, quota) else min(limit, best))
        return result


def within(amounts: Amounts, bounds: Amounts) -> bool:
    """Whether every amount is at most its bound; -1 is infinite on both sides."""
    for amount, bound in zip(amounts, bounds):
        if bound != UNLIMITED and (amount > bound + EPSILON or amount == UNLIMITED):
            return False
    return True


def plus(left: Amounts, right: Amounts) -> tuple[float, float, float]:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Amounts, right: Amounts) -> tuple[float, float, float]:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def _shares(queue: Queue, field: str) -> list[float]:
    return [float(getattr(share, field)) for share in (queue.cpu, queue.memory, queue.gpu)]


def _reaches_top(queue: Queue, known: dict[str, Queue]) -> bool:
    return _defect(queue, known) == ""


def _defect(queue: Queue, known: dict[str, Queue]) -> str:
    """Why a queue's chain of parents does not end at the top; empty when it does."""
    seen = {queue.name}
    while queue.parent:
        if queue.parent not in known:
            return f'parent queue "{queue.parent}" of "{queue.name}" does not exist'
        queue = known[queue.parent]
        if queue.name in seen:
            return f'queue "{queue.name}" is its own ancestor'
        seen.add(queue.name)
    return ""
