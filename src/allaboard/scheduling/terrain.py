"""What nodes are by what is told of them: labels, taints, conditions; and so, where a class of pods may go at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from allaboard.scheduling.classes import Mask, PodClass
from allaboard.scheduling.facts import Node, Requirement, Taint, Toleration

# Taints that say no more than that a node is not ready.
UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Terrain:
    """Nodes in the order of their columns. When one of them changes it is made anew with the next version, so
    everything found out about it is kept, and a class remembers where it may go."""

    def __init__(self, facts: Sequence[Node], version: int = 0) -> None:
        self.facts, self.version = facts, version
        self.offers = [node.devices for node in facts]
        self.only_plain_gpus = not any(node.mig or node.devices for node in facts)
        self._labels: dict[str, npt.NDArray[np.object_]] = {}
        self._codes: dict[str, tuple[list[str], npt.NDArray[np.intp]]] = {}
        self._usable: Mask | None = None

    def allowed(self, wanted: PodClass) -> Mask | None:
        """Nodes whose labels, taints and conditions admit the class; None is every node."""
        if wanted.static_version != self.version:
            wanted.static, wanted.static_version = self._admit(wanted), self.version
        return wanted.static

    def _admit(self, wanted: PodClass) -> Mask | None:
        mask = self.usable() & self.tolerated(wanted) & self.selected(wanted)
        return None if mask.all() else mask

    def usable(self) -> Mask:
        """Ready and not cordoned."""
        if self._usable is None:
            self._usable = np.array([node.ready and not node.unschedulable for node in self.facts], dtype=bool)
        return self._usable

    def knows_memory(self) -> Mask:
        """Nodes that say how much memory their GPUs have."""
        return np.array([node.gpu_memory_known for node in self.facts], dtype=bool)

    def starting(self) -> Mask:
        """Not ready yet, or not told so yet, and kept from taking pods by nothing else."""
        return np.array([_only_unready(node) for node in self.facts], dtype=bool)

    def tolerated(self, wanted: PodClass) -> Mask:
        mask = np.ones(len(self.facts), dtype=bool)
        for row, node in enumerate(self.facts):
            if node.taints:
                mask[row] = all(tolerates(wanted.demand.tolerations, taint) for taint in node.taints)
        return mask

    def selected(self, wanted: PodClass) -> Mask:
        """Nodes that the selector, the required affinity and the volumes allow."""
        demand = wanted.demand
        mask = np.ones(len(self.facts), dtype=bool)
        for requirement in demand.selector:
            mask &= self._matches(requirement)
        if demand.affinity:
            mask &= np.any([self._match_all(term) for term in demand.affinity], axis=0)
        if demand.only_nodes is not None:
            mask &= np.isin(np.array([node.name for node in self.facts], dtype=object), list(demand.only_nodes))
        return mask

    def _match_all(self, term: Sequence[Requirement]) -> Mask:
        mask = np.full(len(self.facts), bool(term))
        for requirement in term:
            mask &= self._matches(requirement)
        return mask

    def _matches(self, requirement: Requirement) -> Mask:
        test = label_test(requirement)
        return np.fromiter((test(value) for value in self.label(requirement.key)), dtype=bool, count=len(self.facts))

    def label(self, key: str) -> npt.NDArray[np.object_]:
        """A label as a column; None where a node has no such label."""
        if key not in self._labels:
            column = np.empty(len(self.facts), dtype=object)
            column[:] = [node.labels.get(key) for node in self.facts]
            self._labels[key] = column
        return self._labels[key]

    def label_codes(self, key: str) -> tuple[list[str], npt.NDArray[np.intp]]:
        """The values of a label, and per node the number of its value (-1: no such label)."""
        if key not in self._codes:
            numbers: dict[str, int] = {}
            column = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in self.label(key).tolist()]
            self._codes[key] = (list(numbers), np.array(column, dtype=np.intp))
        return self._codes[key]


def _only_unready(node: Node) -> bool:
    if node.unschedulable or (node.ready and not node.taints):
        return False
    return all(taint.key in UNREADY for taint in node.taints)


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """A soft taint never keeps a pod away."""
    return taint.effect == "PreferNoSchedule" or any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.key != "" and toleration.value == taint.value)


_TESTS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: value is not None and _number(value) > _number(values[0]),
    "Lt": lambda value, values: value is not None and _number(value) < _number(values[0]),
}


def label_test(requirement: Requirement) -> Callable[[str | None], bool]:
    """The requirement as a question about one label value."""
    test, values = _TESTS[requirement.operator], requirement.values
    return lambda value: test(value, values)


def _number(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float("nan")
