"""Nodes of one class in packing order, kept while a cycle allocates: the next gang of the class starts where the
last one ended.

A heap of (score downwards, free amount, node row) whose entries may be out of date: the nodes log which rows were
touched, and those are entered anew before the heap is asked. It answers only the common question, idle room on any
node where no score outweighs that; `placement.py` answers the others.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, Column, Mask, PodClass
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.placement import TIER, Board, copies


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
        self.rank: list[float] = [0.0] * len(nodes) if score is None else (-score).tolist()
        self.read = len(nodes.touched)
        board = Board(nodes, wanted, None, allowed, None)
        rows = np.flatnonzero(np.minimum(copies(board, idle=True), copies(board, idle=False)) >= 1)
        self.current: dict[int, float] = dict(zip(rows.tolist(), nodes.free(self.resource)[rows].tolist()))
        self.heap = [(self.rank[row], key, row) for row, key in self.current.items()]
        heapify(self.heap)

    def take(self, count: int) -> list[int] | None:
        """Node rows for `count` tasks, one per task in order; None when idle room does not suffice."""
        self._catch_up()
        picked: list[int] = []
        used: dict[int, float] = {}
        while self.heap and len(picked) < count:
            _, key, row = heappop(self.heap)
            # An old entry is true again when a node is given back what it gave, beside the one made for that.
            if self.current.get(row) != key or row in used:
                continue
            used[row] = key
            picked += [row] * min(self._slots(row), count - len(picked))
        for row, key in used.items():
            heappush(self.heap, (self.rank[row], key, row))
        return picked if len(picked) == count else None

    def _catch_up(self) -> None:
        """Enter the rows that changed since the last question."""
        touched = self.nodes.touched
        if self.read == len(touched):
            return
        for row in set(touched[self.read :]):
            if (self.allowed is not None and not self.allowed[row]) or not self._slots(row):
                self.current.pop(row, None)
                continue
            key = float(self.nodes.idle[self.resource, row] + self.nodes.releasing[self.resource, row])
            if self.current.get(row) != key:
                self.current[row] = key
                heappush(self.heap, (self.rank[row], key, row))
        self.read = len(touched)

    def _slots(self, row: int) -> int:
        idle, releasing, wants = self.nodes.idle, self.nodes.releasing, self.wanted.wants
        slots = 1e9
        for resource in self.wanted.columns:
            room = idle[resource, row]
            slots = min(slots, min(room, room + releasing[resource, row]) / wants[resource])
        return int(slots) if slots > 0 else 0
