"""Where a pod can run at all: labels, taints, conditions, the kind of GPU a node offers."""

from __future__ import annotations

import numpy as np

from allaboard.scheduling.classes import Mask, PodClass
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.plugins.neighbours import neighbours_fit, ports_fit
from allaboard.scheduling.state import State


class Predicates:
    name = "predicates"

    def fits_nodes(self, nodes: Nodes, wanted: PodClass) -> Mask | None:
        """Nodes whose standing facts admit the class; None is every node."""
        mask = nodes.terrain.allowed(wanted)
        if wanted.cpu_only and not wanted.demand.legacy_mig:
            return mask
        kinds = self._gpu_kinds(nodes, wanted)
        return kinds if mask is None else mask if kinds is None else mask & kinds

    def fits_task(self, state: State, wanted: PodClass, row: int) -> Mask | None:
        """What depends on the pods that stand already: neighbours and host ports."""
        near, ports = neighbours_fit(state, row), ports_fit(state, wanted)
        return ports if near is None else near if ports is None else near & ports

    def _gpu_kinds(self, nodes: Nodes, wanted: PodClass) -> Mask | None:
        """MIG slices only on MIG nodes, fractions not on them, whole devices not on nodes that hand them out by
        claim, and parts in MiB only where it is known how many there are."""
        if wanted.demand.legacy_mig:
            return np.zeros(len(nodes), dtype=bool)
        known = nodes.terrain.knows_memory() if wanted.memory else None
        if nodes.terrain.only_plain_gpus and not wanted.mig:
            return known
        plugin_gpus = wanted.gpu_wish > 0 or wanted.shared
        mask = np.ones(len(nodes), dtype=bool)
        for row, node in enumerate(nodes.facts):
            if wanted.mig:
                mask[row] = node.mig == "mixed" and not nodes.legacy_mig.get(row)
            elif plugin_gpus:
                mask[row] = node.mig != "mixed" and not (node.mig and wanted.shared) and not node.devices
        return mask if known is None else mask & known
