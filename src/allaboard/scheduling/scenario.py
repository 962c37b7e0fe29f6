"""What if these tasks left: the solver searches for victims whose leaving lets a gang start, and proves it by
simulation.

Two generators are tried, each from scratch: *local* evicts the accumulated victims around one node, *multi* those
of as many nodes as the gang needs. Each gallops over the number of tasks (1, 2, 4 … then bisection); victims of a
successful probe are recorded and start the next one. A trial evicts, then places victims and the gang again in fair
order, only as promises; the action's rule has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.classes import GPU, Mask, PodClass
from allaboard.scheduling.disruption import fewest
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.nodes import Rows
from allaboard.scheduling.panel import NodeSet
from allaboard.scheduling.placement import FEW
from allaboard.scheduling.policy import LOCAL, MULTI
from allaboard.scheduling.probe import EPSILON, Probe, Recorded
from allaboard.scheduling.selection import Chosen, first, only_class, to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.statement import Statement
from allaboard.scheduling.victims import GroupOut, VictimOrder

# What a trial costs besides the columns over nodes, in nodes.
TRIAL = 500


@dataclass(slots=True)
class Scenario:
    """One trial as the action's rule sees it: who waits, and all victims in order (a task may stand here twice)."""

    gang: GangRow
    pending: Chosen
    victims: list[int]


Rule = Callable[[Scenario], bool]
TaskSet = frozenset[int] | tuple[int, ...]
Generator = Callable[[Probe], Iterator[list[GroupOut]]]


@dataclass(slots=True)
class Success:
    """An open statement that seats the tasks of a probe; `complete` when all it accumulated left and is recorded."""

    statement: Statement
    recorded: Recorded
    complete: bool


class Solver:
    """The search for one waiting gang."""

    def __init__(self, session: Session, gang: GangRow, order: Callable[[], VictimOrder], rule: Rule) -> None:
        self.session, self.gang, self.rule = session, gang, rule
        self.state = session.state
        self.wanted = to_place(self.state, gang, simulated=True)
        self.loose = session.state.nodes.loose_gpus()
        self.feasible = self._feasible()
        self.victims = Queueing(order)
        self.failed: set[tuple[int, TaskSet, TaskSet]] = set()
        self.trials = 0
        # What nodes kept for somebody else have for him before anybody is moved.
        kept = session.reservation
        self.kept = None if kept is None or kept.admits(gang, session.now) else kept.room(self.state.nodes)

    @property
    def thorough(self) -> bool:
        """Whether short cuts are barred: a trial leaves traces where devices are shared, as KAI's counters are not
        quite what they were when it is taken back, so to follow it to the letter means to make every trial it makes."""
        policy = self.session.policy
        return policy.thorough or (policy.exact and bool(self.state.nodes.sharing))

    @property
    def gave_up(self) -> bool:
        """Whether the search ended at a limit of the policy instead of running out of victims."""
        policy = self.session.policy
        cost = TRIAL + len(self.state.nodes)
        mine, all_of_us = self.trials * cost, self.session.trials * cost
        return 0 < policy.effort_per_gang <= mine or 0 < policy.effort_per_cycle <= all_of_us

    def solve(self) -> Statement | None:
        """An open statement that seats the whole gang, or None; the caller commits it."""
        count = sum(len(rows) for rows in self.wanted.values())
        before = self.gang.used()
        if not count or self._is_hopeless():
            return None
        if self.session.policy.fewest_victims and (found := self._fewest(count)) is not None:
            return found
        for name in self.session.policy.generators:
            found = self._gallop(count, _GENERATORS[name])
            if found is None:
                continue
            if self.gang.is_satisfied() and self.gang.used() > before:
                return found
            found.rollback(0)
            return None
        return None

    def _is_hopeless(self) -> bool:
        """Whether a task has a defect that nobody's leaving would mend."""
        return any(self.state.tasks.klass[row].demand.obstacle for rows in self.wanted.values() for row in rows)

    def _fewest(self, count: int) -> Statement | None:
        """One trial with the victims that are cheapest to clear; the fair order is walked when it fails."""
        nobody, room = Recorded(), (self.feasible, self.loose.copy())
        probe = Probe(self.session, self.gang, first(self.wanted, count), nobody, room)
        chosen = fewest(probe, self.victims.groups(nobody, frozenset()))
        result = self._trial(probe, chosen, count) if chosen else None
        if result is not None and not self.gang.is_satisfied():
            result.statement.rollback(0)
            return None
        return result.statement if result else None

    def _gallop(self, count: int, generator: Generator) -> Statement | None:
        """Largest probe that succeeds, then the whole gang once more on its victims."""
        recorded, low, high, probe = Recorded(), 0, count + 1, 1
        while low < probe < high:
            result = self._probe(probe, recorded, generator)
            if result is None:
                high = probe
            elif probe == count and result.complete and not self.thorough:
                # The last probe would evict the same tasks again and end the same way.
                return result.statement
            else:
                result.statement.rollback(0)
                recorded, low = result.recorded, probe
            probe = min(2 * low, count) if high > count else (low + high) // 2
        if low == 0:
            return None
        final = self._probe(count, recorded, generator)
        return final.statement if final else None

    def _feasible(self) -> Mask:
        """Nodes with any idle or releasing GPU; every node when part of the gang needs none."""
        nodes = self.state.nodes
        if any(self.state.tasks.klass[row].cpu_only for row in self.gang.rows):
            return np.ones(len(nodes), dtype=bool)
        return (self.loose > EPSILON) | (nodes.free(GPU) > 0)

    def _probe(self, count: int, recorded: Recorded, generator: Generator) -> Success | None:
        """Accumulate victims until a trial succeeds, or nobody is left."""
        feasible = self.feasible
        if recorded.victims:
            feasible = feasible.copy()
            feasible[[self.state.tasks.node[row] for row in recorded.victims]] = True
        loose = self.state.nodes.loose_gpus() if self.thorough else self.loose.copy()
        probe = Probe(self.session, self.gang, first(self.wanted, count), recorded, (feasible, loose))
        taken = frozenset(probe.recorded_rows)
        groups = self.victims.fresh(taken) if self.thorough else self.victims.groups(recorded, taken)
        while True:
            if probe.promising():
                for chosen in generator(probe):
                    if (result := self._trial(probe, chosen, count)) is not None:
                        return result
            if self.gave_up or not probe.advance(groups):
                return None

    def _trial(self, probe: Probe, chosen: list[GroupOut], count: int) -> Success | None:
        """Evict, simulate, ask the rule; a set of victims that failed is not tried again."""
        added = [row for _, rows in chosen for row in rows]
        victims = probe.recorded_rows + added
        if not victims or (self.failed and not self.thorough and probe.hope.gone(chosen)):
            return None
        key = (count, tasks_of(probe.recorded_rows), tasks_of(added))
        if key in self.failed or self.gave_up:
            return None
        self.trials += 1
        self.session.trials += 1
        statement = self.session.statement(self.gang)
        nodes = probe.feasible.copy()
        nodes[[self.state.tasks.node[row] for row in victims]] = True
        for row in victims:
            statement.evict(row)
        if self.session.robbed:
            self.session.robbed -= statement.touched()
        scenario = Scenario(self.gang, probe.pending, victims)
        if self._simulate(statement, probe.pending, victims, nodes) and self.rule(scenario):
            return self._success(statement, probe, chosen, victims)
        statement.rollback(0)
        self.failed.add(key)
        return None

    def _success(self, statement: Statement, probe: Probe, chosen: list[GroupOut], victims: list[int]) -> Success:
        """Victims grow to the whole groups they belong to, also to members that had been put back."""
        status = self.state.tasks.status
        moved = [row for row in victims if status[row] == Status.RELEASING]
        moved += [row for row in victims if status[row] == Status.PIPELINED]
        owner: dict[int, GroupOut] = {}
        for group in (*probe.recorded.groups, *chosen):
            for row in group[1]:
                owner.setdefault(row, group)
        groups: list[GroupOut] = []
        covered: set[int] = set()
        for row in moved:
            if row not in covered:
                groups.append(owner[row])
                covered.update(owner[row][1])
        same = len(moved) == len(victims) == probe.size() and [row for _, rows in groups for row in rows] == victims
        return Success(statement, Recorded(moved, groups), same)

    def _simulate(self, statement: Statement, pending: Chosen, victims: list[int], nodes: Mask) -> bool:
        """Place victims and the gang again, in fair order among all who wait; victims that fail stay evicted."""
        members = self.state.tasks.members
        gangs = {members[row].gang for row in victims} | {self.gang}
        full: dict[PodClass, int] = {}
        seated, everywhere = False, _rows(nodes)
        for gang in self.session.replay_order(gangs):
            among = everywhere if self.session.reservation is None else self._open(gang, nodes)
            if gang is self.gang:
                if not self._seat(statement, gang, pending, among):
                    return False
                seated = True
            else:
                self._reseat(statement, gang, among, full)
        return seated

    def _open(self, gang: GangRow, nodes: Mask) -> NodeSet:
        """Of these nodes the ones a gang may use: not those kept for another, unless it is asked to leave them."""
        reservation = self.session.reservation
        if reservation is not None and not reservation.admits(gang, self.session.now):
            kept = reservation.nodes.copy()
            if gang is not self.gang:
                kept[[node for row in gang.rows if (node := self.state.tasks.node[row]) >= 0]] = False
            nodes = nodes & ~kept
        return _rows(nodes)

    def _reseat(self, statement: Statement, gang: GangRow, nodes: NodeSet, full: dict[PodClass, int]) -> None:
        """Try to keep a victim; `full` remembers classes that found no room, as a simulation only ever takes room."""
        if nodes is not None and len(nodes) <= FEW and self._finds_nothing(gang, nodes):
            return
        chosen = to_place(self.state, gang, simulated=True)
        simple = only_class(self.state, gang, chosen)
        if (simple and full.get(simple[0], simple[1] + 1) <= simple[1]) or not self._may_start(gang, chosen):
            return
        mark = statement.checkpoint()
        placed = self._board(statement, gang, chosen, nodes)
        if placed and self._takes_kept():
            # It may go back to where it stood, but not take more there.
            statement.rollback(mark)
            placed = self._board(statement, gang, chosen, self._beside(nodes))
        if not placed and simple:
            full[simple[0]] = simple[1]

    def _takes_kept(self) -> bool:
        """Whether less is left on nodes kept for somebody else than there was."""
        reservation = self.session.reservation
        if reservation is None or self.kept is None:
            return False
        return reservation.room(self.state.nodes) < self.kept - EPSILON

    def _beside(self, nodes: NodeSet) -> NodeSet:
        """Of these nodes the ones that are not kept."""
        assert self.session.reservation is not None
        mask = ~self.session.reservation.nodes
        return np.flatnonzero(mask) if nodes is None else nodes[mask[nodes]]

    def _finds_nothing(self, gang: GangRow, nodes: Rows) -> bool:
        """Whether not even one task of an unconstrained gang of equal tasks has room on these few nodes."""
        leaf, columns = gang.only, self.state.nodes
        if leaf is None or leaf.klass is None or not leaf.klass.plain or leaf.klass.best_effort:
            return False
        return not any(columns.has_room(leaf.klass, node) for node in nodes.tolist())

    def _seat(self, statement: Statement, gang: GangRow, chosen: Chosen, nodes: NodeSet) -> bool:
        return self._may_start(gang, chosen) and self._board(statement, gang, chosen, nodes)

    def _may_start(self, gang: GangRow, chosen: Chosen) -> bool:
        return self.session.panel.objection(gang, self.session.amounts(chosen)) is None

    def _board(self, statement: Statement, gang: GangRow, chosen: Chosen, nodes: NodeSet) -> bool:
        return Boarding(self.session, statement, gang, chosen, promises_only=True).run(nodes)


_GENERATORS: dict[str, Generator] = {LOCAL: Probe.around_latest, MULTI: Probe.over_nodes}


def tasks_of(rows: list[int]) -> TaskSet:
    """Which tasks these are, in whatever order; one that is evicted twice makes another trial than one evicted once."""
    once = frozenset(rows)
    return once if len(once) == len(rows) else tuple(sorted(rows))


def _rows(nodes: Mask) -> NodeSet:
    return None if nodes.all() else np.flatnonzero(nodes)


class Queueing:
    """Eviction groups in order, kept between probes: the order is the same as long as whole gangs are recorded."""

    def __init__(self, order: Callable[[], VictimOrder]) -> None:
        self.order = order
        self.shared: VictimOrder | None = None
        self.known: list[GroupOut] = []

    def groups(self, recorded: Recorded, taken: frozenset[int]) -> Iterator[GroupOut]:
        if any(len(rows) < gang.active() for gang, rows in recorded.groups):
            return self.fresh(taken)
        return self._kept({gang for gang, _ in recorded.groups})

    def fresh(self, taken: frozenset[int]) -> Iterator[GroupOut]:
        order = self.order()
        while (group := order.group(taken)) is not None:
            yield group

    def _kept(self, recorded: set[GangRow]) -> Iterator[GroupOut]:
        if self.shared is None:
            self.shared = self.order()
        position = 0
        while True:
            if position == len(self.known):
                group = self.shared.group(frozenset())
                if group is None:
                    return
                self.known.append(group)
            if self.known[position][0] not in recorded:
                yield self.known[position]
            position += 1
