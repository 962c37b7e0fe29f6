"""When reclaiming is fair: who may reclaim, from whom, and whether a set of victims leaves every queue what is its
own."""

from __future__ import annotations

import math

from allaboard.scheduling.accounts import held
from allaboard.scheduling.classes import GPU
from allaboard.scheduling.facts import UNLIMITED
from allaboard.scheduling.gangs import IS_ACTIVE, GangRow
from allaboard.scheduling.queues import EPSILON, Amounts, Queues, minus, plus, within
from allaboard.scheduling.scenario import Scenario
from allaboard.scheduling.state import State

RESOURCES = range(GPU + 1)
Unit = tuple[float, float, float]
"""What leaves together: the core of a gang as one, every surplus task by itself."""


def may_reclaim(queues: Queues, gang: GangRow, wanted: Amounts) -> bool:
    """Only up to the fair share; non-preemptible work only inside the quota."""
    row = gang.queue
    if not within(plus(queues.allocated[row], wanted), queues.fair[row]):
        return False
    return gang.preemptible or within(plus(queues.non_preemptible[row], wanted), queues.quota[row])


def levelled(queues: Queues, mine: int, theirs: int) -> tuple[int, int]:
    """The two ancestors just below the lowest common one: the queues that really compete."""
    for left, right in zip(reversed(queues.path[mine]), reversed(queues.path[theirs])):
        if left != right:
            break
    return left, right


class Reclaimer:
    """A gang that wants to reclaim; queue holdings are those before any simulation."""

    def __init__(self, state: State, gang: GangRow, wanted: Amounts, saturation: float = 1.0) -> None:
        self.state, self.gang, self.wanted, self.queues = state, gang, wanted, state.queues
        self.saturation = saturation
        self.held = [tuple(amounts) for amounts in state.queues.allocated]
        self.fixed = [] if gang.preemptible else [tuple(amounts) for amounts in state.queues.non_preemptible]

    def may_take_from(self, leaf: int) -> bool:
        """Whether a queue has anything to give before a single scenario is built."""
        mine, theirs = levelled(self.queues, self.gang.queue, leaf)
        held = self.queues.allocated[theirs]
        if not within(plus(self.queues.allocated[mine], self.wanted), self.queues.quota[mine]):
            return not within(held, self.queues.allocatable[theirs])
        below = False
        for resource in RESOURCES:
            quota = self.queues.quota[theirs][resource]
            if self.wanted[resource] <= 0 or quota == UNLIMITED:
                continue
            if held[resource] > quota:
                return True
            below = below or held[resource] < quota
        return not below

    def is_fair(self, scenario: Scenario) -> bool:
        """Every victim queue stays above what is its own when a unit is taken, and no sibling ends up worse off
        than we."""
        wanted = self._wanted(scenario)
        left: dict[int, Amounts] = {}
        involved: dict[int, set[int]] = {}
        for leaf, units in self._units(scenario).items():
            mine, theirs = levelled(self.queues, self.gang.queue, leaf)
            resources = {r for unit in units for r in RESOURCES if unit[r] > 0}
            left.setdefault(theirs, self.held[theirs])
            for unit in units:
                if not self._may_take(mine, theirs, left[theirs], wanted):
                    return False
                for row in self.queues.path[leaf]:
                    left[row] = minus(left.get(row, self.held[row]), unit)
                    involved.setdefault(row, set()).update(resources)
        return all(self._stays_fair(row, wanted, left, involved) for row in self.queues.path[self.gang.queue])

    def _wanted(self, scenario: Scenario) -> Amounts:
        total: Amounts = (0.0, 0.0, 0.0)
        for rows in scenario.pending.values():
            for row in rows:
                total = plus(total, self.state.tasks.klass[row].asked_quota(self.state.nodes.smallest_memory))
        return total

    def _units(self, scenario: Scenario) -> dict[int, list[Unit]]:
        """Victims that lose their place, per queue. One that was moved or put back loses nothing."""
        if len(scenario.victims) == 1:
            unit = self._sum(scenario.victims)
            return {self.state.tasks.members[scenario.victims[0]].gang.queue: [unit]} if unit is not None else {}
        by_gang: dict[GangRow, list[int]] = {}
        for row in scenario.victims:
            by_gang.setdefault(self.state.tasks.members[row].gang, []).append(row)
        units: dict[int, list[Unit]] = {}
        for gang, rows in by_gang.items():
            found = [unit for part in self._parts(gang, rows) if (unit := self._sum(part)) is not None]
            if found:
                units.setdefault(gang.queue, []).extend(found)
        return units

    def _parts(self, gang: GangRow, rows: list[int]) -> list[list[int]]:
        core: list[int] = []
        surplus: list[list[int]] = []
        by_leaf: dict[object, list[int]] = {}
        for row in rows:
            by_leaf.setdefault(self.state.tasks.members[row], []).append(row)
        for leaf_rows in by_leaf.values():
            minimum = self.state.tasks.members[leaf_rows[0]].minimum
            core += leaf_rows[:minimum]
            surplus += [[row] for row in leaf_rows[minimum:]]
        return [*surplus, core]

    def _sum(self, rows: list[int]) -> Unit | None:
        lost = [row for row in rows if not IS_ACTIVE[self.state.tasks.status[row]]]
        if not lost:
            return None
        total: Unit = (0.0, 0.0, 0.0)
        for row in lost:
            total = plus(total, held(self.state.tasks, self.state.nodes, row))
        return total

    def _may_take(self, mine: int, theirs: int, left: Amounts, wanted: Amounts) -> bool:
        """Either they are above what they may have, or we are within our quota and they are above theirs."""
        if not within(left, self.queues.allocatable[theirs]):
            return True
        return within(plus(self.held[mine], wanted), self.queues.quota[mine]) and not within(
            left, self.queues.quota[theirs]
        )

    def _stays_fair(self, row: int, wanted: Amounts, left: dict[int, Amounts], involved: dict[int, set[int]]) -> bool:
        after = plus(left.get(row, self.held[row]), wanted)
        parent = self.queues.parent
        rivals = [sibling for sibling in left if sibling != row and parent[sibling] == parent[row]]
        asked = {resource for resource in RESOURCES if wanted[resource] > 0} if rivals else set()
        for sibling in rivals:
            rest = left[sibling]
            for resource in asked | involved.get(sibling, set()):
                ours, fair = self.queues.fair[row][resource], self.queues.fair[sibling][resource]
                use = _part(after[resource], ours)
                if use > 1 + EPSILON and fair > 0 and use * self.saturation >= _part(rest[resource], fair):
                    return False
        return self.gang.preemptible or within(plus(self.fixed[row], wanted), self.queues.quota[row])


def _part(held: float, fair: float) -> float:
    if fair == 0:
        return math.inf if held > 0 else 0.0
    return 0.0 if fair == UNLIMITED else held / fair
