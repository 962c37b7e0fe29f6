"""Which of the nodes that fit is best. The constants are rungs of a ladder: a higher rung always outweighs all
lower ones."""

from __future__ import annotations

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, Column, PodClass
from allaboard.scheduling.nodes import Nodes

PLACEMENT, RESOURCE_TYPE, AVAILABLE, SHARED_GPU, TOPOLOGY, NEAR, NOMINATED = 9.0, 10.0, 1e3, 1e4, 1e5, 1e6, 1e7


class NodeAvailability:
    """Room that is idle now is better than room that is being released."""

    name = "nodeavailability"

    def idle_bonus(self) -> float:
        return AVAILABLE


class ResourceType:
    """Work without GPUs goes to nodes without GPUs."""

    name = "resourcetype"

    def score_nodes(self, nodes: Nodes, wanted: PodClass) -> Column | None:
        if not wanted.cpu_only:
            return None
        without = nodes.capacity[GPU] <= 0
        return np.where(without, RESOURCE_TYPE, 0.0) if without.any() else None


class GpuSharingOrder:
    """A device that is shared already is better than a fresh one. KAI asks this for every pod, also for one without
    GPU."""

    name = "gpusharingorder"

    def score_nodes(self, nodes: Nodes, wanted: PodClass) -> Column | None:
        column: Column | None = None
        for row, gpus in nodes.sharing.items():
            memory = int(nodes.gpu_memory[row])
            need = wanted.memory_on(memory) if wanted.shared else memory if wanted.gpu_wish else 0
            if gpus.fitting(need, memory):
                column = np.zeros(len(nodes)) if column is None else column
                column[row] = SHARED_GPU
        return column


class NominatedNode:
    """A node promised to the pod beats everything."""

    name = "nominatednode"

    def score_nodes(self, nodes: Nodes, wanted: PodClass) -> Column | None:
        row = nodes.index.get(wanted.demand.nominated)
        if row is None:
            return None
        column = np.zeros(len(nodes))
        column[row] = NOMINATED
        return column


class NodePlacement:
    """Fill the fullest node first, so whole nodes stay free for large gangs; or spread out."""

    name = "nodeplacement"

    def __init__(self, gpu: str = "binpack", cpu: str = "binpack") -> None:
        self.gpu, self.cpu = gpu, cpu

    def _strategy(self, wanted: PodClass) -> str:
        return self.cpu if wanted.cpu_only else self.gpu

    def rank_nodes(self, nodes: Nodes, wanted: PodClass, among: np.ndarray) -> Column:
        """0 to 9 for packing, 0 to 1 for spreading, over the nodes of the set."""
        resource = CPU if wanted.cpu_only else GPU
        free, capacity = nodes.free(resource)[among], nodes.capacity[resource][among]
        has = capacity != 0
        if self._strategy(wanted) == "spread":
            part: Column = np.divide(free, capacity, out=np.zeros_like(free), where=has)
            return part
        if not has.any() or free[has].max() <= 0:
            return np.zeros_like(free)
        low, high = free[has].min(), free[has].max()
        packed = PLACEMENT * (1 - (free - low) / (high - low)) if high > low else np.full_like(free, PLACEMENT)
        return np.where(has, packed, 0.0)


class GpuPack:
    """Of the devices of a node the fullest one."""

    name = "gpupack"

    def score_gpu(self, used: float | None) -> float:
        return used or 0.0


class GpuSpread:
    """Of the devices of a node the emptiest one; an unused device is best."""

    name = "gpuspread"

    def score_gpu(self, used: float | None) -> float:
        return 1.0 if used is None else 1.0 - used
