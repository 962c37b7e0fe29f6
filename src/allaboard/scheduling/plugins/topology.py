"""Gangs that stay close together: node sets from the domains of a topology, tightest fit first, narrowest level
first.

A domain is the set of nodes with the same values on the labels of a topology down to some level; a node without all
labels is outside. Tightest is the domain whose free resources the request fills most. A preferred level also scores
nodes, so that pods concentrate in the emptiest domain of that level; a required level bounds every candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, MEMORY, PODS, Column, Mask, PodClass
from allaboard.scheduling.facts import Constraint, Topology
from allaboard.scheduling.gangs import IS_ACTIVE, Member
from allaboard.scheduling.nodes import Nodes, Rows
from allaboard.scheduling.plugins.scores import TOPOLOGY
from allaboard.scheduling.selection import Chosen
from allaboard.scheduling.state import State
from allaboard.scheduling.terrain import Terrain

NO_RESOURCE = 1000.0
EPSILON = 1e-9


@dataclass(slots=True)
class Domains:
    """A topology laid over the nodes: per level the domain of each node (-1 outside), and the names and parents of
    domains.

    Level 0 is the root with one domain; level i + 1 belongs to the i-th label. Domains of a level are numbered in
    id order.
    """

    levels: tuple[str, ...]
    inside: Rows
    domain: list[np.ndarray]
    parent: list[np.ndarray]

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Domains:
        codes = [nodes.terrain.label_codes(level) for level in topology.levels]
        inside = np.flatnonzero(np.all([numbers >= 0 for _, numbers in codes], axis=0))
        domain, parent = [np.full(len(nodes), -1)], [np.zeros(1, dtype=np.intp)]
        domain[0][inside] = 0
        ids = [""]
        for values, numbers in codes:
            wider = domain[-1][inside]
            pairs, place = np.unique(wider * len(values) + numbers[inside], return_inverse=True)
            parents, own = pairs // max(len(values), 1), pairs % max(len(values), 1)
            names = [f"{ids[up]}.{values[value]}" for up, value in zip(parents, own)]
            order = sorted(range(len(names)), key=names.__getitem__)
            rank = np.empty(len(order), dtype=np.intp)
            rank[order] = np.arange(len(order))
            level = np.full(len(nodes), -1)
            level[inside] = rank[place]
            domain.append(level)
            parent.append(parents[order])
            ids = [names[number] for number in order]
        return cls(topology.levels, inside, domain, parent)

    def count(self, level: int) -> int:
        return len(self.parent[level])

    def sums(self, level: int, column: Column) -> Column:
        """A node column summed per domain."""
        rows = self.inside
        sums = np.bincount(self.domain[level][rows], weights=column[rows], minlength=self.count(level))
        return sums.astype(np.float64)

    def level_of(self, label: str) -> int:
        return self.levels.index(label) + 1 if label in self.levels else -1


@dataclass(slots=True)
class Need:
    """What the chosen tasks ask for together, and of the largest of them."""

    count: int
    total: Column
    largest: Column
    even: bool

    @classmethod
    def of(cls, state: State, chosen: Chosen) -> Need:
        counts: dict[PodClass, int] = {}
        for rows in chosen.values():
            for row in rows:
                counts[state.tasks.klass[row]] = counts.get(state.tasks.klass[row], 0) + 1
        wishes = np.array([_wish(klass) for klass in counts])
        amounts = np.array(list(counts.values()), dtype=float)
        with_gpu = float(amounts[wishes[:, GPU] > 0].sum())
        total = amounts @ wishes
        return cls(int(amounts.sum()), total[: GPU + 1], wishes.max(axis=0), with_gpu in (0.0, float(amounts.sum())))


def _wish(klass: PodClass) -> Column:
    wish = klass.wants.copy()
    wish[GPU] = klass.gpu_wish
    return wish


class TopologyPlugin:
    name = "topology"

    def __init__(self) -> None:
        self._laid: dict[str, tuple[Terrain, Topology, Domains]] = {}

    def node_sets(
        self, state: State, member: Member, chosen: Chosen, nodes: Rows | None
    ) -> tuple[list[Rows | None], Column | None]:
        """Candidate domains as node rows, in the order they are to be tried, and the preference among their nodes."""
        constraint = member.constraint
        assert constraint is not None
        if constraint.topology not in state.topologies or not (constraint.required or constraint.preferred):
            return [], None
        search = Search(state, self._domains(state, constraint.topology), constraint, nodes)
        return search.run(chosen)

    def _domains(self, state: State, name: str) -> Domains:
        topology, known = state.topologies[name], self._laid.get(name)
        if known is None or known[0] is not state.nodes.terrain or known[1] != topology:
            known = (state.nodes.terrain, topology, Domains.of(topology, state.nodes))
            self._laid[name] = known
        return known[2]


class Search:
    """One question: which domains can hold these tasks, in which order."""

    def __init__(self, state: State, domains: Domains, constraint: Constraint, nodes: Rows | None) -> None:
        self.state, self.domains = state, domains
        self.required, self.preferred = domains.level_of(constraint.required), domains.level_of(constraint.preferred)
        self.known = (not constraint.required or self.required > 0) and (not constraint.preferred or self.preferred > 0)
        self.nodes = domains.inside if nodes is None else np.intersect1d(nodes, domains.inside, assume_unique=True)

    def run(self, chosen: Chosen) -> tuple[list[Rows | None], Column | None]:
        if not self.known or len(self.nodes) == 0:
            return [], None
        need = Need.of(self.state, chosen)
        level, domain = self._common()
        ratios, fits = self._measure(need, (level, domain))
        if not fits[level][domain]:
            return [], None
        orders = self._orders(ratios)
        score = self._preference(orders, (level, domain)) if self.preferred > 0 else None
        return self._candidates(chosen, orders, fits), score

    def _common(self) -> tuple[int, int]:
        """The narrowest domain that holds all given nodes, not below the preferred level."""
        last = self.preferred if self.preferred > 0 else len(self.domains.levels)
        level = 0
        while level < last and np.ptp(self.domains.domain[level + 1][self.nodes]) == 0:
            level += 1
        return level, int(self.domains.domain[level][self.nodes[0]])

    def _measure(self, need: Need, common: tuple[int, int]) -> tuple[list[Column], list[np.ndarray]]:
        """Per level and domain: how much of what is free the request takes, and whether it fits.

        Domains outside the common one, also the wider ones around it, count as having nothing.
        """
        nodes, domains = self.state.nodes, self.domains
        below = domains.domain[common[0]] == common[1]
        free = [np.where(below, nodes.free(resource), 0.0) for resource in (CPU, MEMORY, GPU)]
        copies = np.where(below, self._copies(need), 0.0)
        ratios, fits = [], []
        for level in range(len(domains.levels) + 1):
            inside = self._beneath(level, common)
            ratio = np.zeros(domains.count(level))
            for resource, column in enumerate(free):
                if need.total[resource] > 0:
                    sums = np.where(inside, domains.sums(level, column), 0.0)
                    ratio = np.maximum(ratio, _ratio(float(need.total[resource]), sums, resource))
            counted = domains.sums(level, copies) >= need.count
            ratios.append(ratio)
            fits.append(np.where(inside, counted, ratio <= 1 + EPSILON) if need.even else ratio <= 1 + EPSILON)
        return ratios, fits

    def _beneath(self, level: int, common: tuple[int, int]) -> Mask:
        """Domains of a level that lie inside the common one."""
        if level < common[0]:
            return np.zeros(self.domains.count(level), dtype=bool)
        inside: Mask = np.arange(self.domains.count(common[0])) == common[1]
        for lower in range(common[0] + 1, level + 1):
            inside = inside[self.domains.parent[lower]]
        return inside

    def _copies(self, need: Need) -> Column:
        """How many of the largest pod each node takes."""
        nodes, largest = self.state.nodes, need.largest
        if not largest[: GPU + 1].any():
            return np.full(len(nodes), float(need.count))
        room = nodes.idle + nodes.releasing
        if 0 < largest[GPU] < 1:
            for row, gpus in nodes.sharing.items():
                room[GPU, row] += gpus.spare(int(nodes.gpu_memory[row]))
        wanted = [resource for resource in (CPU, MEMORY, GPU, PODS) if largest[resource] > 0]
        wanted += [resource for resource in range(PODS + 1, len(largest)) if largest[resource] > 0]
        copies = np.min([np.trunc(room[resource] / largest[resource]) for resource in wanted], axis=0)
        fits = np.all([largest[resource] <= room[resource] for resource in range(len(largest))], axis=0)
        return np.where(fits, copies, 0.0)

    def _orders(self, ratios: list[Column]) -> list[list[int]]:
        """Domains of each level in the order a walk from the root meets them: tightest child first, then id."""
        orders: list[list[int]] = [[0]]
        for level in range(1, len(self.domains.levels) + 1):
            place = np.empty(self.domains.count(level - 1))
            place[orders[-1]] = np.arange(len(orders[-1]))
            keys = (np.arange(self.domains.count(level)), -ratios[level], place[self.domains.parent[level]])
            orders.append(np.lexsort(keys).tolist())
        return orders

    def _preference(self, orders: list[list[int]], common: tuple[int, int]) -> Column:
        """Tenths by rank on the preferred level: the last, which is the emptiest, gets most."""
        score = np.zeros(len(self.state.nodes))
        if common[0] > self.preferred:
            return score
        inside = self._beneath(self.preferred, common)
        ranked = [domain for domain in orders[self.preferred] if inside[domain]]
        tenths = np.zeros(self.domains.count(self.preferred))
        for rank, domain in enumerate(ranked):
            tenths[domain] = np.floor((rank + 1) / len(ranked) * 10) * TOPOLOGY
        rows = self.domains.inside
        score[rows] = tenths[self.domains.domain[self.preferred][rows]]
        return score

    def _candidates(self, chosen: Chosen, orders: list[list[int]], fits: Sequence[np.ndarray]) -> list[Rows | None]:
        """From the preferred level (else the required one) up to the required one, or to the root without one."""
        lowest = self.preferred if self.preferred > 0 else self.required
        highest = self.required if self.required > 0 else 0
        lowest = max(lowest, highest)
        home = self._home(chosen)
        found: list[Rows | None] = []
        for level in range(lowest, highest - 1, -1):
            column = self.domains.domain[level][self.nodes]
            for domain in orders[level]:
                if fits[level][domain] and (home is None or self._within(level, domain, home)):
                    rows = self.nodes[column == domain]
                    found.append(rows)
        return found

    def _home(self, chosen: Chosen) -> set[int] | None:
        """Required-level domains where pods of the chosen sets already run: the others must join them."""
        if self.required <= 0:
            return None
        state, column = self.state, self.domains.domain[self.required]
        rows = [
            row
            for leaf in chosen
            for row in leaf.rows
            if IS_ACTIVE[state.tasks.status[row]] and state.tasks.node[row] >= 0
        ]
        return {int(column[state.tasks.node[row]]) for row in rows} if rows else None

    def _within(self, level: int, domain: int, home: set[int]) -> bool:
        while level > self.required:
            domain = int(self.domains.parent[level][domain])
            level -= 1
        return domain in home


def _ratio(total: float, free: Column, resource: int) -> Column:
    missing = np.inf if resource == GPU else NO_RESOURCE
    return np.where(free > 0, total / np.where(free > 0, free, 1.0), missing)
