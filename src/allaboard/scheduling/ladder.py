"""Nodes of one class in packing order, kept while a cycle allocates: the next gang of the class starts where the
last one ended.

The nodes stand in order as they were when the ladder was made. The nodes log which rows were touched since: those
leave their rung for a heap whose entries may be out of date. It answers only the common question, idle room on any
node where no score outweighs that; `placement.py` answers the others.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, Column, Mask, PodClass
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.placement import TIER, Board, copies

Rung = tuple[float, float, int]
"""Score downwards, free amount, node row: the smallest is the next to be filled."""


def has_rungs(wanted: PodClass, score: Column | None) -> bool:
    """Whether a class finds its nodes by a ladder: it asks for something, and its scores are of one tier.

    Scored nodes are ranked by what the class asks for; nodes that have nothing of that are `placement.py`'s to rank.
    """
    if wanted.best_effort or score is None:
        return not wanted.best_effort
    tiers = np.floor(score / TIER)
    return bool(wanted.wants[CPU if wanted.cpu_only else GPU] > 0 and (tiers == tiers[:1]).all())


class Ladder:
    """Best score first, then the fullest node, then by name."""

    def __init__(self, nodes: Nodes, wanted: PodClass, allowed: Mask | None, score: Column | None = None) -> None:
        self.nodes, self.wanted, self.allowed = nodes, wanted, allowed
        self.resource = CPU if wanted.cpu_only else GPU
        self.read = len(nodes.touched)
        self.rank = np.zeros(len(nodes)) if score is None else -score
        board = Board(nodes, wanted, None, allowed, None)
        rows = np.flatnonzero(np.minimum(copies(board, idle=True), copies(board, idle=False)) >= 1)
        keys = nodes.free(self.resource)[rows]
        order = np.argsort(keys, kind="stable") if score is None else np.lexsort((keys, self.rank[rows]))
        self.rows, self.keys, self.lowest = rows[order], keys[order], 0
        # Rows that were touched: what is free there, None where nothing fits any more.
        self.current: dict[int, float | None] = {}
        self.heap: list[Rung] = []

    def take(self, count: int) -> list[int] | None:
        """Node rows for `count` tasks, one per task in order; None when idle room does not suffice."""
        self._catch_up()
        picked: list[int] = []
        used: dict[int, Rung] = {}
        at = self.lowest = self._untouched(self.lowest)
        while len(picked) < count:
            moved, rung = self._moved(used), self._rung(at)
            if rung is None and moved is None:
                break
            if moved is not None and (rung is None or moved < rung):
                row = moved[2]
                used[row] = heappop(self.heap)
            else:
                assert rung is not None
                row, at = rung[2], self._untouched(at + 1)
            picked += [row] * min(self._slots(row), count - len(picked))
        for entry in used.values():
            heappush(self.heap, entry)
        return picked if len(picked) == count else None

    def _untouched(self, at: int) -> int:
        """The next rung whose node stands as it did."""
        while at < len(self.rows) and int(self.rows[at]) in self.current:
            at += 1
        return at

    def _rung(self, at: int) -> Rung | None:
        if at == len(self.rows):
            return None
        row = int(self.rows[at])
        return float(self.rank[row]), float(self.keys[at]), row

    def _moved(self, used: dict[int, Rung]) -> Rung | None:
        """The first of those in the heap; an old entry is true again when a node is given back what it gave, beside
        the one made for that."""
        heap = self.heap
        while heap and (self.current[heap[0][2]] != heap[0][1] or heap[0][2] in used):
            heappop(heap)
        return heap[0] if heap else None

    def _catch_up(self) -> None:
        """Enter the rows that changed since the last question."""
        touched = self.nodes.touched
        if self.read == len(touched):
            return
        for row in set(touched[self.read :]):
            barred = (self.allowed is not None and not self.allowed[row]) or not self._slots(row)
            key = (
                None
                if barred
                else float(self.nodes.idle[self.resource, row] + self.nodes.releasing[self.resource, row])
            )
            if row in self.current and self.current[row] == key:
                continue
            self.current[row] = key
            if key is not None:
                heappush(self.heap, (float(self.rank[row]), key, row))
        self.read = len(touched)

    def _slots(self, row: int) -> int:
        idle, releasing = self.nodes.idle[:, row].tolist(), self.nodes.releasing[:, row].tolist()
        slots = 1e9
        for resource, want in self.wanted.amounts:
            room = idle[resource]
            slots = min(slots, min(room, room + releasing[resource]) / want)
        return int(slots) if slots > 0 else 0
