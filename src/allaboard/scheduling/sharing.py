"""Shared GPUs of one node: per GPU group how many MiB are used, allocated and being released.

A group is a device that several pods share. Its first pod takes one whole GPU out of the node's idle count, its
last one gives it back; a group on which everything is being released counts as one releasing GPU. The order of the
steps follows KAI, as its guards against double counting are visible in what is later found idle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from allaboard.scheduling.classes import GPU
from allaboard.scheduling.facts import Status

Portion = tuple[Sequence[str], int]
"""The groups a pod stands on and the MiB it takes of each."""


class Counters(Protocol):
    """The node columns that sharing touches."""

    capacity: npt.NDArray[np.float64]
    idle: npt.NDArray[np.float64]
    releasing: npt.NDArray[np.float64]
    whole_gpus_used: npt.NDArray[np.float64]


class SharedGpus:
    """MiB per group; `freed` marks groups that already count as a releasing GPU."""

    __slots__ = ("allocated", "freed", "releasing", "used")

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.releasing: dict[str, int] = {}
        self.allocated: dict[str, int] = {}
        self.freed: set[str] = set()

    def fits(self, group: str, need: int, memory: int) -> bool:
        """Whether a pod of `need` MiB fits beside those on the group; a device that empties completely is no shared
        one."""
        allocated, releasing = self.allocated.get(group, 0), self.releasing.get(group, 0)
        return self.used.get(group, 0) != 0 and memory - allocated + releasing >= need and allocated != releasing

    def fits_idle(self, group: str, need: int, memory: int) -> bool:
        """The same without counting on what is being released."""
        return group in self.allocated and memory - self.allocated[group] >= need

    def fitting(self, need: int, memory: int) -> list[str]:
        return [group for group in self.used if self.fits(group, need, memory)]

    def loose(self, memory: int) -> tuple[float, int]:
        """GPUs, and MiB, that are idle or being released on shared devices."""
        gpus, mib = 0.0, 0
        for taken in self.allocated.values():
            if taken > 0:
                gpus, mib = gpus + 1 - _hundredths(taken, memory), mib + memory - taken
        for group, leaving in self.releasing.items():
            if leaving > 0 and leaving != self.used.get(group):
                gpus, mib = gpus + _hundredths(leaving, memory), mib + leaving
        return gpus, mib

    def spare(self, memory: int) -> float:
        """Free parts of devices in use, as the topology count adds them for fractions."""
        groups = (group for group, used in self.used.items() if used > 0)
        return sum(max(0, memory - self.allocated.get(g, 0) + self.releasing.get(g, 0)) / memory for g in groups)

    def occupy(self, node: Counters, row: int, status: Status, portion: Portion) -> None:
        groups, mib = portion
        for group in groups:
            self.used[group] = self.used.get(group, 0) + mib
            self.releasing.setdefault(group, 0)
            if status == Status.RELEASING:
                self._enter_releasing(node, row, group, mib)
            elif status == Status.PIPELINED:
                self.releasing[group] -= mib
                if self.used[group] - mib == self.releasing[group] + mib:
                    node.releasing[GPU, row] -= 1
            else:
                self._enter(node, row, group, mib)

    def vacate(self, node: Counters, row: int, status: Status, portion: Portion) -> None:
        groups, mib = portion
        for group in groups:
            self.used[group] -= mib
            if status == Status.RELEASING:
                self._leave_releasing(node, row, group, mib)
            elif status == Status.PIPELINED:
                self._leave_pipelined(node, row, group, mib)
            else:
                self._leave(node, row, group, mib)

    def _enter(self, node: Counters, row: int, group: str, mib: int) -> None:
        self.allocated[group] = self.allocated.get(group, 0) + mib
        if self.used[group] <= mib and self._oversold(node, row):
            node.idle[GPU, row] -= 1
        self._unfree(node, row, group)

    def _enter_releasing(self, node: Counters, row: int, group: str, mib: int) -> None:
        self.allocated[group] = self.allocated.get(group, 0) + mib
        self.releasing[group] += mib
        if self.used[group] == self.releasing[group]:
            self._free(node, row, group)
            if self._oversold(node, row):
                node.idle[GPU, row] -= 1

    def _leave(self, node: Counters, row: int, group: str, mib: int) -> None:
        self.allocated[group] -= mib
        if self.used[group] <= 0 and not self._oversold(node, row):
            node.idle[GPU, row] += 1
        if self.used[group] and self.releasing[group] == self.used[group]:
            self._free(node, row, group)

    def _leave_releasing(self, node: Counters, row: int, group: str, mib: int) -> None:
        self.releasing[group] -= mib
        self.allocated[group] -= mib
        if self.used[group] <= 0:
            if not self._oversold(node, row):
                node.idle[GPU, row] += 1
            self._unfree(node, row, group)

    def _leave_pipelined(self, node: Counters, row: int, group: str, mib: int) -> None:
        self.releasing[group] += mib
        emptied = self.used[group] == 0 and self.releasing[group] == 0
        if emptied or self.used[group] + mib == self.releasing[group] - mib:
            node.releasing[GPU, row] += 1

    def _free(self, node: Counters, row: int, group: str) -> None:
        if group not in self.freed:
            node.releasing[GPU, row] += 1
            self.freed.add(group)

    def _unfree(self, node: Counters, row: int, group: str) -> None:
        if group in self.freed:
            node.releasing[GPU, row] -= 1
            self.freed.discard(group)

    def _oversold(self, node: Counters, row: int) -> bool:
        """Whether idle and used GPUs together exceed the devices of the node."""
        in_use = int(node.whole_gpus_used[row]) + sum(used > 0 for used in self.used.values())
        return int(node.capacity[GPU, row]) < int(node.idle[GPU, row]) + in_use

    def settle(self) -> tuple[int, int]:
        """Between cycles, when nothing is promised: forget devices nobody uses any more; how many are shared, and how
        many of those empty completely.

        Inside a cycle they are remembered: KAI counts a device that was given and taken back as one with idle memory.
        """
        for group in [group for group, used in self.used.items() if not used]:
            for table in (self.used, self.releasing, self.allocated):
                table.pop(group, None)
        self.freed = {group for group, used in self.used.items() if used == self.releasing[group]}
        return len(self.used), len(self.freed)


def _hundredths(mib: int, memory: int) -> float:
    """Upwards in plain floating point, as KAI counts: 55 of 100 MiB are 0.56."""
    return math.ceil(mib / memory * 100) / 100
