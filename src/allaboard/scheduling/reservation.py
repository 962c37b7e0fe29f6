"""Nodes kept for a gang that has waited long, so that a stream of small jobs cannot starve it; others may run there
meanwhile.

The nodes are those that come closest to holding the gang: most of it fits already. Until they are free, only gangs
whose declared longest run ends before the reservation could start may use them (backfill).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, Mask, PodClass
from allaboard.scheduling.gangs import IS_USED, GangRow
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.state import State


@dataclass(frozen=True, slots=True)
class Reservation:
    """Who has it, for tasks of which class, which nodes, and when they are expected to be free (None: nobody said)."""

    gang: GangRow
    klass: PodClass
    nodes: Mask
    start: float | None

    def admits(self, gang: GangRow, now: float) -> bool:
        """The holder, and work that is over before the reservation starts."""
        if gang is self.gang:
            return True
        runtime = gang.fact.max_runtime
        return runtime is not None and self.start is not None and now + runtime <= self.start

    def room(self, nodes: Nodes) -> float:
        """What the kept nodes have for it, idle or being released: GPUs, where it asks for any, else cores."""
        return float(nodes.free(GPU if self.klass.wants[GPU] else CPU)[self.nodes].sum())


def reserve(state: State, gang: GangRow, klass: PodClass, count: int, allowed: Mask | None) -> Reservation | None:
    """Keep the nodes with most room that could hold the gang when empty; None when no set of nodes could."""
    nodes = state.nodes
    empty = np.floor((nodes.capacity[klass.rows] / klass.per_row).min(axis=0))
    if allowed is not None:
        empty[~allowed] = 0.0
    now_free = np.floor(((nodes.idle + nodes.releasing)[klass.rows] / klass.per_row).min(axis=0))
    order = np.lexsort((np.arange(len(nodes)), -now_free, empty < 1))
    upto = np.cumsum(empty[order])
    if not len(upto) or upto[-1] < count:
        return None
    kept = np.zeros(len(nodes), dtype=bool)
    kept[order[: int(np.searchsorted(upto, count)) + 1]] = True
    return Reservation(gang, klass, kept, _free_at(state, kept))


def is_large(klass: PodClass, count: int) -> bool:
    """Only work that needs several places at once, or several GPUs in one, can be starved by small jobs."""
    return count > 1 or klass.wants[GPU] > 1


def _free_at(state: State, kept: Mask) -> float | None:
    """The last declared end of what runs on the nodes; None when somebody declared none."""
    latest = 0.0
    for row, node in enumerate(state.tasks.node):
        if node < 0 or not kept[node] or state.tasks.fact[row] is None or not IS_USED[state.tasks.status[row]]:
            continue
        gang = state.tasks.members[row].gang
        if gang.last_start is None or gang.fact.max_runtime is None:
            return None
        latest = max(latest, gang.last_start + gang.fact.max_runtime)
    return latest or None
