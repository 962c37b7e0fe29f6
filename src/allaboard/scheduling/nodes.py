"""Nodes as columns: what they have, what is idle, what is being released; rows are in name order, so the row breaks
ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from allaboard.scheduling.classes import GPU, Column, Mask, PodClass
from allaboard.scheduling.devices import Devices
from allaboard.scheduling.facts import Node, Status
from allaboard.scheduling.sharing import SharedGpus
from allaboard.scheduling.terrain import Terrain

Rows = npt.NDArray[np.intp]
EPSILON = 1e-9


class Nodes:
    """Columns over nodes. Matrices are [resource, node]; `free` is idle plus releasing."""

    def __init__(self, facts: Sequence[Node], resources: dict[str, int]) -> None:
        self.facts = sorted(facts, key=lambda node: node.name)
        self.names = [node.name for node in self.facts]
        self.index = {name: row for row, name in enumerate(self.names)}
        count = len(self.facts)
        self.capacity = np.zeros((len(resources), count))
        for row, node in enumerate(self.facts):
            for name, amount in _allocatable(node).items():
                self.capacity[resources[name], row] = amount
        self.idle = self.capacity.copy()
        self.releasing = np.zeros_like(self.capacity)
        self.whole_gpus_used = np.zeros(count)
        self.whole_gpus_leaving = np.zeros(count)
        self.gpu_memory = np.array([_floored(node.gpu_memory) for node in self.facts], dtype=np.int64)
        self.smallest_memory, self.largest_memory = _memories(self.gpu_memory)
        self.sharing: dict[int, SharedGpus] = {}
        self.devices = Devices()
        self.legacy_mig: dict[int, int] = {}
        self.terrain = Terrain(self.facts)
        # Whether a node that is oversold of one resource takes nobody at all; the session of a policy says so.
        self.strict = False
        # Whether anything was taken from a node beyond what it has; nothing a statement does by itself leads there but
        # to evict what was only promised a place.
        self.may_owe = False
        # Rows whose room changed, in order; a cycle starts a new log.
        self.touched: list[int] = []

    def __len__(self) -> int:
        return len(self.facts)

    def free(self, resource: int) -> Column:
        column: Column = self.idle[resource] + self.releasing[resource]
        return column

    def has_room(self, wanted: PodClass, row: int) -> bool:
        """Whether one plain task of the class finds idle or releasing room on a node."""
        idle, releasing = self.idle[:, row].tolist(), self.releasing[:, row].tolist()
        return all(idle[column] + releasing[column] >= amount - EPSILON for column, amount in wanted.amounts)

    def gpus_at(self, row: int) -> tuple[float, float]:
        """Idle plus releasing GPUs of a node, shared parts included, and the same in MiB."""
        idle, releasing = float(self.idle[GPU, row]), float(self.releasing[GPU, row])
        memory = int(self.gpu_memory[row])
        mib = (int(idle) + int(releasing)) * memory
        if row in self.sharing:
            more, more_mib = self.sharing[row].loose(memory)
            return idle + releasing + more, mib + more_mib
        return idle + releasing, mib

    def loose_gpus(self) -> Column:
        """Idle plus releasing GPUs of every node, shared parts included."""
        column = self.free(GPU)
        for row in self.sharing:
            column[row] = self.gpus_at(row)[0]
        return column

    def open(self, *, strict: bool) -> None:
        """A cycle begins."""
        self.touched, self.strict = [], strict
        self.may_owe = strict and bool((self.idle < -EPSILON).any())

    def in_debt(self, wanted: PodClass, *, idle: bool) -> Mask | None:
        """Nodes oversold of something the class does not even ask for: KAI compares a request with every resource.

        Parts of devices are counted elsewhere, so the GPUs of a node say nothing about a class that shares them.
        """
        if not (self.strict and self.may_owe):
            return None
        oversold = (self.idle if idle else self.idle + self.releasing) < -EPSILON
        if wanted.shared:
            oversold[GPU] = False
        mask: Mask | None = np.logical_or.reduce(oversold, axis=0) if oversold.any() else None
        return mask

    # --- another set of nodes ---

    def replace(self, row: int, node: Node, resources: dict[str, int]) -> None:
        """The node's facts changed; what stands on it stays."""
        capacity = np.zeros(len(resources))
        for name, amount in _allocatable(node).items():
            capacity[resources[name]] = amount
        self.idle[:, row] += capacity - self.capacity[:, row]
        self.capacity[:, row] = capacity
        self.facts[row] = node
        self.gpu_memory[row] = _floored(node.gpu_memory)
        self.smallest_memory, self.largest_memory = _memories(self.gpu_memory)
        self.terrain = Terrain(self.facts, self.terrain.version + 1)

    def adopt(self, old: Nodes) -> dict[int, int]:
        """Take over what stands on the nodes of another layout; returns where its rows went."""
        moved = {row: self.index[name] for row, name in enumerate(old.names) if name in self.index}
        before, after = list(moved), list(moved.values())
        for mine, theirs in ((self.idle, old.idle), (self.releasing, old.releasing)):
            mine[:, after] = theirs[:, before]
        self.whole_gpus_used[after] = old.whole_gpus_used[before]
        self.whole_gpus_leaving[after] = old.whole_gpus_leaving[before]
        self.sharing = {moved[row]: gpus for row, gpus in old.sharing.items() if row in moved}
        self.legacy_mig = {moved[row]: count for row, count in old.legacy_mig.items() if row in moved}
        self.devices = old.devices.moved(moved)
        self.terrain, self.strict = Terrain(self.facts, old.terrain.version + 1), old.strict
        return moved

    # --- accounting: called by statement.py in a cycle and by state.py between cycles ---

    def occupy(self, row: int, wanted: PodClass, status: Status, groups: Sequence[str]) -> None:
        """A task of this class now stands on the node with this status."""
        self._move(row, wanted, status, 1)
        if wanted.shared:
            self.shared_on(row).occupy(self, row, status, (groups, wanted.memory_on(int(self.gpu_memory[row]))))

    def vacate(self, row: int, wanted: PodClass, status: Status, groups: Sequence[str]) -> None:
        """The exact inverse of occupy: `status` and `groups` are those it was entered with."""
        self._move(row, wanted, status, -1)
        if wanted.shared:
            self.shared_on(row).vacate(self, row, status, (groups, wanted.memory_on(int(self.gpu_memory[row]))))

    def _move(self, row: int, wanted: PodClass, status: Status, sign: int) -> None:
        amount = sign * wanted.wants
        self.touched.append(row)
        self.whole_gpus_used[row] += amount[GPU]
        if status == Status.PIPELINED:
            self.releasing[:, row] -= amount
        else:
            self.idle[:, row] -= amount
            if status == Status.RELEASING:
                self.releasing[:, row] += amount
                self.whole_gpus_leaving[row] += amount[GPU]
        if not wanted.plain:
            self._move_special(row, wanted, status, sign)

    def move_many(self, counts: dict[int, int], wanted: PodClass, status: Status, sign: int) -> None:
        """As `occupy` and `vacate`, for plain tasks of one class: row → how many of them."""
        self.touched += counts
        matrix = self.releasing if status == Status.PIPELINED else self.idle
        if len(counts) > 8:
            rows = np.fromiter(counts, dtype=np.intp, count=len(counts))
            amounts = wanted.wants[:, None] * (sign * np.fromiter(counts.values(), dtype=float, count=len(counts)))
            self.whole_gpus_used[rows] += amounts[GPU]
            matrix[:, rows] -= amounts
            return
        for row, count in counts.items():
            matrix[:, row] -= wanted.wants * (sign * count)
            self.whole_gpus_used[row] += wanted.wants[GPU] * (sign * count)

    def start_leaving(self, row: int, wanted: PodClass, sign: int) -> None:
        """A plain task on the node starts to leave (+1), or stays after all (-1)."""
        self.touched.append(row)
        self.releasing[:, row] += wanted.wants if sign > 0 else -wanted.wants
        self.whole_gpus_leaving[row] += sign * wanted.wants[GPU]

    def _move_special(self, row: int, wanted: PodClass, status: Status, sign: int) -> None:
        """What is not a sum of requests: devices of claims, and MIG slices set up the old way."""
        for claim in wanted.claims:
            idle, releasing = self.devices.enter(claim, row, status, sign)
            self.idle[GPU, row] += idle
            self.releasing[GPU, row] += releasing
        if wanted.demand.legacy_mig:
            self.legacy_mig[row] = self.legacy_mig.get(row, 0) + sign

    def grow(self) -> None:
        """A new resource is a new row of every matrix."""
        for matrix in ("capacity", "idle", "releasing"):
            old = getattr(self, matrix)
            setattr(self, matrix, np.vstack([old, np.zeros((1, old.shape[1]))]))

    def tidy(self) -> None:
        """Nodes where no device is shared any more are as good as those where none ever was; on the others GPUs are
        counted afresh, as the counters of a cycle depend on the order of its steps."""
        for row, gpus in self.sharing.items():
            shared, leaving = gpus.settle()
            self.idle[GPU, row] = self.capacity[GPU, row] - self.whole_gpus_used[row] - shared
            self.releasing[GPU, row] = self.whole_gpus_leaving[row] + leaving
        self.sharing = {row: gpus for row, gpus in self.sharing.items() if gpus.used}

    def shared_on(self, row: int) -> SharedGpus:
        if row not in self.sharing:
            self.sharing[row] = SharedGpus()
        return self.sharing[row]


def _allocatable(node: Node) -> dict[str, float]:
    """Whole GPUs of a mixed-MIG node count nothing; devices of ResourceSlices count as GPUs."""
    amounts = {"pods": 110.0, **node.capacity}
    if node.mig == "mixed":
        amounts["gpu"] = 0.0
    if node.devices:
        amounts["gpu"] = amounts.get("gpu", 0.0) + sum(node.devices.values())
    return amounts


def resources_of(node: Node) -> set[str]:
    return set(_allocatable(node))


def _floored(memory: int) -> int:
    return memory - memory % 100 if memory >= 100 else max(memory, 1)


def _memories(column: npt.NDArray[np.int64]) -> tuple[int, int]:
    real = column[column > 100]
    return (int(real.min()), int(real.max())) if real.size else (100, 100)
