"""What if these tasks left: the solver searches for victims whose leaving lets a gang start, and proves it by simulation.

Two generators are tried, each from scratch: *local* evicts the accumulated victims around one node, *multi* those of as many
nodes as the gang needs. Each gallops over the number of tasks (1, 2, 4 … then bisection); victims of a successful probe are
recorded and start the next one. A trial evicts, then places victims and the gang again in fair order, only as promises; the
action's rule has the last word. What follows KAI 0.17 in letter is said where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.classes import GPU, Mask
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ACTIVE, GangRow, GroupRow
from allaboard.scheduling.selection import Chosen, first, to_place
from allaboard.scheduling.session import NodeSet, Session
from allaboard.scheduling.statement import Statement
from allaboard.scheduling.victims import GroupOut, VictimOrder

EPSILON = 1e-9


@dataclass(slots=True)
class Scenario:
    """One trial as the action's rule sees it: who waits, and all victims in order (a task may stand here twice)."""

    gang: GangRow
    pending: Chosen
    victims: list[int]


Rule = Callable[[Scenario], bool]


@dataclass(slots=True)
class Recorded:
    """Victims of the last successful probe: those that really left or moved, and the groups they belong to."""

    victims: list[int] = field(default_factory=list)
    groups: list[GroupOut] = field(default_factory=list)

    def rows(self) -> list[int]:
        return [row for _, rows in self.groups for row in rows]


class Solver:
    """The search for one waiting gang."""

    def __init__(self, session: Session, gang: GangRow, order: Callable[[], VictimOrder], rule: Rule) -> None:
        self.session, self.gang, self.order, self.rule = session, gang, order, rule
        self.state = session.state
        self.wanted = to_place(self.state, gang, simulated=True)
        self.feasible = self._feasible()
        self.failed: set[tuple[int, frozenset[int], frozenset[int]]] = set()

    def solve(self) -> Statement | None:
        """An open statement that seats the whole gang, or None; the caller commits it."""
        count = sum(len(rows) for rows in self.wanted.values())
        before = self.gang.used()
        if not count:
            return None
        for generator in (self._local, self._multi):
            found = self._gallop(count, generator)
            if found is None:
                continue
            if self.gang.is_satisfied() and self.gang.used() > before:
                return found
            found.rollback(0)
            return None
        return None

    def _gallop(self, count: int, generator: Generator) -> Statement | None:
        recorded, low, high, probe = Recorded(), 0, count + 1, 1
        while low < probe < high:
            result = self._probe(probe, recorded, generator)
            if result is None:
                high = probe
            else:
                result[0].rollback(0)
                recorded, low = result[1], probe
            probe = min(2 * low, count) if high > count else (low + high) // 2
        if low == 0:
            return None
        final = self._probe(count, recorded, generator)
        return final[0] if final else None

    def _feasible(self) -> Mask:
        """Nodes with any idle or releasing GPU; every node when part of the gang needs none."""
        nodes = self.state.nodes
        if any(self.state.klass[row].cpu_only for row in self.gang.rows):
            return np.ones(len(nodes), dtype=bool)
        return (nodes.loose_gpus() > EPSILON) | (nodes.free(GPU) > 0)

    # --- one probe: accumulate victims until a trial succeeds ---

    def _probe(self, count: int, recorded: Recorded, generator: Generator) -> tuple[Statement, Recorded] | None:
        pending = first(self.wanted, count)
        feasible = self.feasible.copy()
        feasible[[self.state.node[row] for row in recorded.victims]] = True
        probe = Probe(self.session, self.gang, pending, recorded, feasible)
        order = self.order()
        taken = set(probe.recorded_rows)
        while True:
            if probe.promising():
                for chosen in generator(probe):
                    key = (count, frozenset(taken), frozenset(row for _, rows in chosen for row in rows))
                    if key in self.failed:
                        continue
                    if result := self._trial(probe, chosen):
                        return result
                    self.failed.add(key)
            group = order.group(taken)
            if group is None:
                return None
            probe.accumulate(group)

    def _local(self, probe: Probe) -> Iterator[list[GroupOut]]:
        return probe.around_latest()

    def _multi(self, probe: Probe) -> Iterator[list[GroupOut]]:
        return probe.over_nodes()

    def _trial(self, probe: Probe, chosen: list[GroupOut]) -> tuple[Statement, Recorded] | None:
        victims = probe.recorded_rows + [row for _, rows in chosen for row in rows]
        if not victims:
            return None
        statement = self.session.statement(self.gang)
        nodes = probe.feasible.copy()
        nodes[[self.state.node[row] for row in victims]] = True
        for row in victims:
            statement.evict(row)
        if self._simulate(statement, probe.pending, victims, nodes):
            if self.rule(Scenario(self.gang, probe.pending, victims)):
                return statement, self._record(probe, chosen, victims)
        statement.rollback(0)
        return None

    def _record(self, probe: Probe, chosen: list[GroupOut], victims: list[int]) -> Recorded:
        """Victims grow to the whole groups they belong to, also to members that had been put back."""
        status = self.state.status
        moved = [row for row in victims if status[row] == Status.RELEASING]
        moved += [row for row in victims if status[row] == Status.PIPELINED]
        groups: list[GroupOut] = []
        covered: set[int] = set()
        for row in moved:
            if row not in covered:
                group = next(group for group in (*probe.recorded.groups, *chosen) if row in group[1])
                groups.append(group)
                covered.update(group[1])
        return Recorded(moved, groups)

    def _simulate(self, statement: Statement, pending: Chosen, victims: list[int], nodes: Mask) -> bool:
        """Place victims and the gang again, in fair order among all who wait; victims that fail stay evicted."""
        session, state = self.session, self.state
        among: NodeSet = None if nodes.all() else np.flatnonzero(nodes)
        gangs = {state.members[row].gang for row in victims} | {self.gang}
        seated = False
        for gang in session.replay_order(gangs):
            if gang is self.gang:
                if not self._seat(statement, gang, pending, among):
                    return False
                seated = True
            else:
                self._seat(statement, gang, to_place(state, gang, simulated=True), among)
        return seated

    def _seat(self, statement: Statement, gang: GangRow, chosen: Chosen, nodes: NodeSet) -> bool:
        if self.session.objection(gang, self.session.amounts(chosen)) is not None:
            return False
        return Boarding(self.session, statement, gang, chosen, promises_only=True).run(nodes)


class Probe:
    """Victims accumulated so far, on top of the recorded ones, for the first so many tasks of a gang."""

    def __init__(
        self, session: Session, gang: GangRow, pending: Chosen, recorded: Recorded, feasible: Mask
    ) -> None:
        self.state, self.gang, self.pending = session.state, gang, pending
        self.recorded, self.recorded_rows, self.feasible = recorded, recorded.rows(), feasible
        self.groups: list[GroupOut] = []
        self.room = self.state.nodes.loose_gpus()
        for row in self.recorded_rows:
            self.room[self.state.node[row]] += self.state.gpus(row)
        self.needs = sorted((self.state.klass[row].gpu_wish for rows in pending.values() for row in rows), reverse=True)

    def accumulate(self, group: GroupOut) -> None:
        self.groups.append(group)
        for row in group[1]:
            self.room[self.state.node[row]] += self.state.gpus(row)

    def promising(self) -> bool:
        """Cheap tests before any trial."""
        return self._domains_suffice() and self._nodes_suffice()

    def _nodes_suffice(self) -> bool:
        """Largest need first onto the roomiest nodes."""
        return _greedy(self.needs, np.sort(self.room)[::-1][: max(1, len(self.needs))].tolist())

    def _domains_suffice(self) -> bool:
        """The same for groups with a required level. KAI counts all active pods of the group as need, and tells domains
        apart by the label value of that level alone."""
        for (_, level), needs in self._group_needs().items():
            domains: dict[str, float] = {}
            for value, room in zip(self.state.nodes.label(level), self.room.tolist()):
                if value:
                    domains[value] = domains.get(value, 0.0) + room
            if not _greedy(sorted(needs, reverse=True), sorted(domains.values(), reverse=True)):
                return False
        return True

    def _group_needs(self) -> dict[tuple[str, str], list[float]]:
        state, found = self.state, {}
        todo: list[GroupRow] = [self.gang.tree]
        while todo:
            group = todo.pop()
            todo += [member for member in group.members if isinstance(member, GroupRow)]
            if group.constraint and group.constraint.required:
                rows = [row for leaf in group.leaves for row in leaf.rows if IS_ACTIVE[state.status[row]]]
                rows += [row for leaf in group.leaves for row in self.pending.get(leaf, ())]
                key = (group.constraint.topology, group.constraint.required)
                found.setdefault(key, []).append(sum(state.klass[row].gpu_wish for row in rows))
        return found

    def around_latest(self) -> Iterator[list[GroupOut]]:
        """For every node of the latest victim gang: all victims of every gang that has one there."""
        if not self.groups:
            if self.recorded_rows:
                yield []
            return
        state, latest = self.state, self.groups[-1][0]
        seen: set[frozenset[int]] = set()
        for node in sorted({state.node[row] for row in latest.rows if state.node[row] >= 0}):
            gangs = dict.fromkeys(g for g, rows in self.groups if any(state.node[row] == node for row in rows))
            chosen = [(gang, self._merged(gang)) for gang in gangs]
            key = frozenset(row for _, rows in chosen for row in rows)
            if key and key not in seen:
                seen.add(key)
                yield chosen

    def _merged(self, gang: GangRow) -> list[int]:
        """All accumulated tasks of a gang; KAI adds the recorded ones once more, which evicts them twice."""
        known = [row for row in self.recorded_rows if self.state.members[row].gang is gang]
        return known + [row for other, rows in self.groups if other is gang for row in rows]

    def over_nodes(self) -> Iterator[list[GroupOut]]:
        """Victims of the fewest nodes that could cover what is missing, then of more and more nodes."""
        if not self.groups:
            yield []
            return
        touching, capacity = self._touched()
        smallest, missing = self._missing(touching)
        nodes = [node for node in touching if not (smallest > 0 and capacity[node] < smallest)]
        nodes.sort(key=lambda node: capacity[node])
        count = 0 if missing <= 0 else _enough([capacity[node] for node in nodes], missing)
        step = 1
        while count <= len(nodes):
            picked = sorted({number for node in nodes[:count] for number in touching[node]})
            yield [self.groups[number] for number in picked]
            if count == len(nodes):
                return
            count = min(count + step, len(nodes))
            step *= 2

    def _touched(self) -> tuple[dict[int, list[int]], dict[int, float]]:
        """Per node the groups that have a victim there, in order of appearance, and the GPUs it would have."""
        state, touching = self.state, {}
        for number, (_, rows) in enumerate(self.groups):
            for row in rows:
                numbers = touching.setdefault(state.node[row], [])
                if not numbers or numbers[-1] != number:
                    numbers.append(number)
        return touching, {node: float(self.room[node]) for node in touching}

    def _missing(self, touching: dict[int, list[int]]) -> tuple[float, float]:
        """The smallest task, and what the other feasible nodes leave uncovered."""
        smallest_memory = self.state.nodes.smallest_memory
        quotas = [
            self.state.klass[row].asked_quota(smallest_memory)[GPU] for rows in self.pending.values() for row in rows
        ]
        others = self.feasible.copy()
        others[list(touching)] = False
        return min(quotas), max(0.0, sum(quotas) - float(self.room[others].sum()))


Generator = Callable[[Probe], Iterator[list[GroupOut]]]


def _enough(amounts: list[float], missing: float) -> int:
    total = 0.0
    for count, amount in enumerate(amounts, start=1):
        total += amount
        if total >= missing:
            return count
    return len(amounts) + 1


def _greedy(needs: list[float], rooms: list[float]) -> bool:
    """Each need, largest first, into the first room that still has it; a room too small from the start ends the search."""
    used = [0.0] * len(rooms)
    for need in needs:
        if need == 0:
            return True
        for position, room in enumerate(rooms):
            if room + EPSILON < need:
                return False
            if room - used[position] + EPSILON >= need:
                used[position] += need
                break
        else:
            return False
    return True


