"""Queues in a tree of heaps that is repaired only where it is walked: the order KAI really follows.

A queue is compared with its siblings through whatever stands on top of its own heap at that moment. After a gang
comes or goes, the queues on its path are marked, and a marked queue is put in its place only when it is met on top.
So a queue may be judged by a child that is not its best any more. Always looking for the best descendant is fairer
(`order.py`), but ends differently in one cluster of a few hundred.

Upstream: actions/utils/job_order_by_queue.go on Go's container/heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.order import GangKey, QueueKey, QueueRule
from allaboard.scheduling.queues import Amounts, Queues

Contender = tuple[int, int]
"""A queue, and the leaf it is judged by."""

Less = Callable[[Contender, Contender], bool]


class LazyTree:
    """Live queues below the root -1; `less` says which of two siblings comes first."""

    def __init__(self, queues: Queues, leaves: Iterable[int], less: Less) -> None:
        self.queues, self.less = queues, less
        self.heaps: dict[int, list[int]] = {}
        self.marked: set[int] = set()
        live: set[int] = set()
        for leaf in leaves:
            live.update(queues.path[leaf])
        # From the deepest up, so that every queue enters with its best descendant known.
        for row in sorted(live, key=queues.depth_rank.__getitem__):
            self._push(queues.parent[row], row)

    def _is_linked(self, row: int) -> bool:
        return row in self.heaps.get(self.queues.parent[row], ())

    def __bool__(self) -> bool:
        return bool(self.heaps.get(-1))

    def leaf_of(self, row: int) -> int:
        """The leaf a queue is judged by."""
        while heap := self.heaps.get(row):
            row = heap[0]
        return row

    def next_leaf(self) -> int:
        """The leaf whose turn it is; marked queues met on the way are put in their place."""
        row = -1
        while heap := self.heaps.get(row):
            while heap[0] in self.marked:
                self.marked.discard(heap[0])
                self._down(heap)
            row = heap[0]
        return row

    def popped(self, leaf: int, *, empty: bool) -> None:
        """A gang left the leaf that `next_leaf` named."""
        row = leaf
        while empty and row >= 0:
            parent = self.queues.parent[row]
            heap = self.heaps[parent]
            heap[0] = heap[-1]
            heap.pop()
            if heap:
                self._down(heap)
            empty, row = not heap, parent
        self._mark(row)

    def pushed(self, leaf: int) -> None:
        """A gang came to a leaf, which may not have been here before."""
        row = leaf
        while row >= 0 and not self._is_linked(row):
            self._push(self.queues.parent[row], row)
            row = self.queues.parent[row]
        self._mark(leaf)

    def _before(self, left: int, right: int) -> bool:
        return self.less((left, self.leaf_of(left)), (right, self.leaf_of(right)))

    def _mark(self, row: int) -> None:
        while row >= 0:
            self.marked.add(row)
            row = self.queues.parent[row]

    def _push(self, parent: int, row: int) -> None:
        heap = self.heaps.get(parent)
        if heap is None:
            self.heaps[parent] = [row]
            return
        heap.append(row)
        child = len(heap) - 1
        while child and self._before(heap[child], heap[(child - 1) // 2]):
            above = (child - 1) // 2
            heap[child], heap[above] = heap[above], heap[child]
            child = above

    def _down(self, heap: list[int]) -> None:
        """The top sinks below everybody better."""
        place = 0
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and self._before(heap[child + 1], heap[child]):
                child += 1
            if not self._before(heap[child], heap[place]):
                return
            heap[place], heap[child] = heap[child], heap[place]
            place = child


class LazyOrder:
    """Gangs in KAI's order; asked like `order.JobOrder`."""

    def __init__(self, rule: QueueRule, request: Callable[[GangRow], Amounts]) -> None:
        self.rule, self.request = rule, request
        self.gangs: dict[int, list[tuple[GangKey, GangRow]]] = {}
        self.tree = LazyTree(rule.queues, (), self._less)

    def fill(self, gangs: Iterable[tuple[GangKey, GangRow]]) -> None:
        for entry in gangs:
            self.gangs.setdefault(entry[1].queue, []).append(entry)
        for entries in self.gangs.values():
            heapify(entries)
        self.tree = LazyTree(self.rule.queues, self.gangs, self._less)

    def push(self, key: GangKey, gang: GangRow) -> None:
        heappush(self.gangs.setdefault(gang.queue, []), (key, gang))
        self.tree.pushed(gang.queue)

    def pop(self) -> GangRow | None:
        """The next gang, or None when nobody waits."""
        if not self.tree:
            return None
        leaf = self.tree.next_leaf()
        gang = heappop(self.gangs[leaf])[1]
        self.tree.popped(leaf, empty=not self.gangs[leaf])
        return gang

    def _less(self, left: Contender, right: Contender) -> bool:
        return self.rule.before(left[0], right[0], (self._key(*left), self._key(*right)))

    def _key(self, row: int, leaf: int) -> QueueKey:
        return self.rule.key(row, self.request(self.gangs[leaf][0][1]))
