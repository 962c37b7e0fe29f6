"""Pods that seek or shun each other, and host ports: what depends on the pods already standing on the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from allaboard.scheduling.classes import Column, Mask, PodClass
from allaboard.scheduling.facts import Neighbours, Requirement, Task
from allaboard.scheduling.plugins.scores import NEAR
from allaboard.scheduling.state import State
from allaboard.scheduling.terrain import label_test


def neighbours_fit(state: State, row: int) -> Mask | None:
    """Nodes where the task's own terms hold and no pod there shuns it."""
    task = state.tasks.fact[row]
    assert task is not None
    masks = [_own_term(state, task, term) for term in task.demand.neighbours]
    masks += [~_domain(state, term.topology_key, [node]) for term, node in _shunning(state, task)]
    return np.all(masks, axis=0) if masks else None


def _own_term(state: State, task: Task, term: Neighbours) -> Mask:
    nodes = [node for other, node in _placed(state) if other is not task and _matches(term, task, other)]
    if term.anti:
        return ~_domain(state, term.topology_key, nodes)
    if not nodes and _matches(term, task, task):
        # The first of a group that seeks itself may start anywhere that has the key.
        return np.array([value is not None for value in state.nodes.terrain.label(term.topology_key)], dtype=bool)
    return _domain(state, term.topology_key, nodes)


def _domain(state: State, key: str, nodes: Sequence[int]) -> Mask:
    """All nodes that share the label value of one of these nodes."""
    column = state.nodes.terrain.label(key)
    values = {column[node] for node in nodes} - {None}
    return np.fromiter((value in values for value in column), dtype=bool, count=len(column))


def _shunning(state: State, task: Task) -> Iterator[tuple[Neighbours, int]]:
    """Anti-affinity of pods that stand already works both ways."""
    for other, node in _placed(state):
        for term in other.demand.neighbours:
            if term.anti and other is not task and _matches(term, other, task):
                yield term, node


def _placed(state: State) -> Iterator[tuple[Task, int]]:
    for task, node in zip(state.tasks.fact, state.tasks.node):
        if task is not None and node >= 0:
            yield task, node
    for stranger in state.strangers.all():
        yield stranger, state.nodes.index[stranger.node]


def _matches(term: Neighbours, owner: Task, other: Task) -> bool:
    namespaces = term.namespaces or (owner.namespace,)
    return other.namespace in namespaces and all(_holds(requirement, other) for requirement in term.selector)


def _holds(requirement: Requirement, task: Task) -> bool:
    return label_test(requirement)(task.labels.get(requirement.key))


class PodAffinity:
    """Pods that would rather stand near, or away from, each other; what pods that stand already wish counts, too.

    Upstream: kube-scheduler's InterPodAffinity score, 0 to 100 over all nodes. Tasks that are placed by arithmetic have
    no such wishes and are not drawn to those who have.
    """

    name = "podaffinity"

    def score_task(self, state: State, row: int) -> Column | None:
        task = state.tasks.fact[row]
        assert task is not None
        weights = np.zeros(len(state.nodes))
        for term, node, weight in _wishes(state, task):
            weights[_domain(state, term.topology_key, [node])] += weight
        low, high = weights.min(initial=0.0), weights.max(initial=0.0)
        return np.floor(100 * (weights - low) / (high - low)) * NEAR if high > low else None


def _wishes(state: State, task: Task) -> Iterator[tuple[Neighbours, int, float]]:
    """Every wish that concerns the task and a pod on a node: the term, the node, and how much it weighs."""
    for other, node in _placed(state):
        if other is task:
            continue
        for term in task.demand.preferred:
            if _matches(term, task, other):
                yield term, node, -term.weight if term.anti else term.weight
        for term in other.demand.preferred:
            if _matches(term, other, task):
                yield term, node, -term.weight if term.anti else term.weight
        for term in other.demand.neighbours:
            if not term.anti and _matches(term, other, task):
                yield term, node, 1.0


def ports_fit(state: State, wanted: PodClass) -> Mask | None:
    """Nodes where none of the host ports is taken."""
    if not wanted.demand.ports:
        return None
    mask = np.ones(len(state.nodes), dtype=bool)
    ports = set(wanted.demand.ports)
    for task, node in _placed(state):
        if not ports.isdisjoint(task.demand.ports):
            mask[node] = False
    return mask
