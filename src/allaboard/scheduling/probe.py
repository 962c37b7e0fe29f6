"""One probe of the solver: victims accumulated on top of recorded ones, cheap tests before any trial, and which
trials to make.

The tests only ever spare trials that must fail. `promising` follows KAI's own filters, which are part of the
decision; `hopeless` is ours: room counted with every victim of a trial gone, before anybody is placed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from allaboard.scheduling.accounts import gpus_held
from allaboard.scheduling.classes import GPU, Column, Mask, PodClass
from allaboard.scheduling.gangs import IS_ACTIVE, GangRow, GroupRow
from allaboard.scheduling.placement import Board, copies
from allaboard.scheduling.selection import Chosen
from allaboard.scheduling.session import Session
from allaboard.scheduling.victims import GroupOut

EPSILON = 1e-9
# As long as room is short, victims are taken in chunks that double up to this size.
CHUNK = 512


@dataclass(slots=True)
class Recorded:
    """Victims of the last successful probe: those that really left or moved, and the groups they belong to."""

    victims: list[int] = field(default_factory=list)
    groups: list[GroupOut] = field(default_factory=list)

    def rows(self) -> list[int]:
        return [row for _, rows in self.groups for row in rows]


class Probe:
    """The first so many tasks of a gang, and who would leave for them."""

    def __init__(
        self, session: Session, gang: GangRow, pending: Chosen, recorded: Recorded, nodes: tuple[Mask, Column]
    ) -> None:
        self.session, self.state, self.gang, self.pending = session, session.state, gang, pending
        self.recorded, self.recorded_rows = recorded, recorded.rows()
        self.feasible, self.room = nodes
        self.groups: list[GroupOut] = []
        self.indexed = 0
        self.chunk, self.ahead = 1, list[GroupOut]()
        self.by_gang: dict[GangRow, list[int]] = {}
        self.turn: dict[GangRow, int] = {}
        self.gangs_on: dict[int, dict[GangRow, None]] = {}
        self.need = Need([self.state.tasks.klass[row].gpu_wish for rows in pending.values() for row in rows], self.room)
        self.grouped = _group_needs(self)
        self.hope = Hope(self)
        for row in self.recorded_rows:
            self._free(row)

    def _free(self, row: int) -> None:
        gpus = gpus_held(self.state.tasks, self.state.nodes, row)
        if gpus:
            self.need.grow(self.state.tasks.node[row], gpus)

    def advance(self, offered: Iterator[GroupOut]) -> bool:
        """Accumulate the next group, or as many at once as are certainly not enough; false when nobody is left."""
        self.ahead = self.ahead or list(islice(offered, self.chunk))
        if not self.ahead:
            return False
        part = self.ahead[: self.chunk]
        while len(part) > 1 and not self.need.absorb(*self._freed_by(part)):
            part = part[: len(part) // 2]
        if len(part) == 1:
            for row in part[0][1]:
                self._free(row)
        self.groups += part
        self.ahead = self.ahead[len(part) :]
        self.chunk = min(2 * len(part), CHUNK) if self.need.is_short() else 1
        return True

    def _freed_by(self, groups: list[GroupOut]) -> tuple[list[int], list[float]]:
        """Nodes and GPUs of all tasks of some groups."""
        tasks, nodes, rows = self.state.tasks, self.state.nodes, [row for _, rows in groups for row in rows]
        return [tasks.node[row] for row in rows], [gpus_held(tasks, nodes, row) for row in rows]

    def _index(self) -> None:
        """Accumulated tasks by gang and gangs by node; only trials ask for them."""
        for gang, rows in self.groups[self.indexed :]:
            self.by_gang.setdefault(gang, []).extend(rows)
            self.turn.setdefault(gang, len(self.turn))
            for row in rows:
                self.gangs_on.setdefault(self.state.tasks.node[row], {})[gang] = None
        self.indexed = len(self.groups)

    def size(self) -> int:
        """How many tasks are recorded or accumulated."""
        return len(self.recorded_rows) + sum(len(rows) for _, rows in self.groups)

    def promising(self) -> bool:
        """KAI's filters: groups with a required level against domains, then all tasks against nodes."""
        return (not self.grouped or self._domains_suffice()) and self.need.met()

    def _domains_suffice(self) -> bool:
        """Domains are told apart by the label value of the level alone, and active pods of the group count as need."""
        for level, needs in self.grouped.items():
            values, numbers = self.state.nodes.terrain.label_codes(level)
            inside = numbers >= 0
            domains = np.bincount(numbers[inside], weights=self.room[inside], minlength=len(values))
            if not greedy(sorted(needs, reverse=True), np.sort(domains)[::-1].tolist()):
                return False
        return True

    # --- which trials to make ---

    def around_latest(self) -> Iterator[list[GroupOut]]:
        """For every node of the latest victim gang: all victims of every gang that has one there."""
        if not self.groups:
            if self.recorded_rows:
                yield []
            return
        self._index()
        state, latest = self.state, self.groups[-1][0]
        seen: set[frozenset[int]] = set()
        nodes = {state.tasks.node[row] for row in latest.rows} - {-1}
        for node in sorted(nodes):
            there = sorted(self.gangs_on.get(node, ()), key=self.turn.__getitem__)
            chosen = [(gang, self._merged(gang)) for gang in there]
            key = frozenset(row for _, rows in chosen for row in rows) if len(nodes) > 1 else frozenset((node,))
            if chosen and key not in seen:
                seen.add(key)
                yield chosen

    def _merged(self, gang: GangRow) -> list[int]:
        """All accumulated tasks of a gang; KAI adds the recorded ones once more, which evicts them twice and makes
        their queue look poorer than it is."""
        if not self.session.policy.exact:
            return self.by_gang[gang]
        members = self.state.tasks.members
        known = [row for row in self.recorded_rows if members[row].gang is gang] if self.recorded_rows else []
        return known + self.by_gang[gang]

    def over_nodes(self) -> Iterator[list[GroupOut]]:
        """Victims of the fewest nodes that could cover what is missing, then of more and more nodes."""
        if not self.groups:
            yield []
            return
        touching, room = self._touching(), self._room_now()
        smallest, missing = self._missing(touching, room)
        capacity = {node: float(room[node]) for node in touching}
        nodes = [node for node in touching if not (smallest > 0 and capacity[node] < smallest)]
        nodes.sort(key=lambda node: capacity[node])
        count = 0 if missing <= 0 else enough([capacity[node] for node in nodes], missing)
        step = 1
        while count <= len(nodes):
            picked = sorted({number for node in nodes[:count] for number in touching[node]})
            yield [self.groups[number] for number in picked]
            if count == len(nodes):
                return
            count = min(count + step, len(nodes))
            step *= 2

    def _touching(self) -> dict[int, list[int]]:
        """Per node, in order of appearance, the groups that have a victim there."""
        touching: dict[int, list[int]] = {}
        node_of = self.state.tasks.node
        for number, (_, rows) in enumerate(self.groups):
            for row in rows:
                numbers = touching.setdefault(node_of[row], [])
                if not numbers or numbers[-1] != number:
                    numbers.append(number)
        return touching

    def _room_now(self) -> Column:
        """GPUs per node once everybody recorded or accumulated is gone; counted afresh where trials leave traces."""
        if not (self.session.policy.exact and self.state.nodes.sharing):
            return self.room
        room = self.state.nodes.loose_gpus()
        nodes, gpus = self._freed_by([(self.gang, self.recorded_rows), *self.groups])
        np.add.at(room, nodes, gpus)
        return room

    def _missing(self, touching: dict[int, list[int]], room: Column) -> tuple[float, float]:
        """The smallest task, and what the other feasible nodes leave uncovered."""
        memory = self.state.nodes.smallest_memory
        quotas = [
            self.state.tasks.klass[row].asked_quota(memory)[GPU] for rows in self.pending.values() for row in rows
        ]
        others = self.feasible.copy()
        others[list(touching)] = False
        return min(quotas), max(0.0, sum(quotas) - float(room[others].sum()))


class Need:
    """GPUs wanted against GPUs that nodes would have: largest need first onto the roomiest nodes.

    Equal needs are counted instead: the greedy match succeeds exactly when nodes together have enough slots of that
    size.
    """

    __slots__ = ("equal", "needs", "room", "size", "slots")

    def __init__(self, needs: list[float], room: Column) -> None:
        self.needs, self.room = sorted((need for need in needs if need > 0), reverse=True), room
        self.size = self.needs[0] if self.needs else 0.0
        self.equal = not self.needs or self.needs[-1] == self.size
        self.slots = float(np.floor((room + EPSILON) / self.size).clip(0).sum()) if self.needs and self.equal else 0.0

    def grow(self, node: int, gpus: float) -> None:
        before = float(self.room[node])
        self.room[node] = after = before + gpus
        if self.equal and self.size and after > 0:
            self.slots += (after + EPSILON) // self.size - ((before + EPSILON) // self.size if before > 0 else 0.0)

    def absorb(self, nodes: list[int], gpus: list[float]) -> bool:
        """Take all this room in one step, unless the need would be met by it."""
        room = self.room.copy()
        np.add.at(room, nodes, gpus)
        slots = float(np.floor((room + EPSILON) / self.size).clip(0).sum())
        if slots >= len(self.needs):
            return False
        self.room[:], self.slots = room, slots
        return True

    def is_short(self) -> bool:
        """Whether equal needs are certainly not met yet, so that several steps may be taken at once."""
        return bool(self.needs) and self.equal and self.slots < len(self.needs)

    def met(self) -> bool:
        if not self.needs:
            return True
        if self.equal:
            return self.slots >= len(self.needs)
        return greedy(self.needs, np.sort(self.room)[::-1][: len(self.needs)].tolist())


class Hope:
    """Whether a trial could succeed at all: slots for each plain class, with all victims of the trial gone."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.state = probe, probe.state
        self.base: dict[PodClass, tuple[Column, float]] | None = None
        self.freed: dict[int, Column] = {}

    @cached_property
    def counts(self) -> dict[PodClass, int]:
        """How many tasks of each plain class wait."""
        counts: dict[PodClass, int] = {}
        for rows in self.probe.pending.values():
            for row in rows:
                klass = self.state.tasks.klass[row]
                if klass.plain:
                    counts[klass] = counts.get(klass, 0) + 1
        return counts

    def free(self, klass: PodClass) -> float:
        """Slots on feasible nodes before anybody leaves but the recorded."""
        return self._bases()[klass][1]

    def gone(self, chosen: list[GroupOut]) -> bool:
        """True when some class certainly does not fit."""
        if not self.counts:
            return False
        self._bases()
        known = set(self.probe.recorded_rows)
        extra = self._freed([row for _, rows in chosen for row in rows if row not in known])
        return any(self._slots(klass, extra) < count for klass, count in self.counts.items())

    def _bases(self) -> dict[PodClass, tuple[Column, float]]:
        """Made when first asked for: most probes succeed at once and never ask."""
        if self.base is None:
            self.freed = self._freed(self.probe.recorded_rows)
            self.base = {klass: self._base(klass) for klass in self.counts}
        return self.base

    def _freed(self, rows: list[int]) -> dict[int, Column]:
        """Room per node once these tasks are gone; for shared and claimed devices an upper bound."""
        freed: dict[int, Column] = {}
        for row in rows:
            klass, node = self.state.tasks.klass[row], self.state.tasks.node[row]
            room = klass.wants
            if not klass.plain:
                room = room.copy()
                room[GPU] += klass.devices + klass.quota[GPU]
            freed[node] = freed[node] + room if node in freed else room
        return freed

    def _base(self, klass: PodClass) -> tuple[Column, float]:
        """Slots per feasible node with the recorded victims gone, and their sum."""
        nodes = self.state.nodes
        slots = copies(Board(nodes, klass, None, self.probe.session.panel.fits(klass), None), idle=False)
        for node, room in self.freed.items():
            slots[node] = self._at(klass, node, room)
        slots[~self.probe.feasible] = 0.0
        return slots, float(slots.sum())

    def _at(self, klass: PodClass, node: int, freed: Column) -> float:
        allowed = self.probe.session.panel.fits(klass)
        if allowed is not None and not allowed[node]:
            return 0.0
        idle, releasing, wants = self.state.nodes.idle, self.state.nodes.releasing, klass.wants
        slots = min((idle[r, node] + releasing[r, node] + freed[r]) / wants[r] for r in klass.columns)
        return max(0.0, float(slots + EPSILON) // 1)

    def _slots(self, klass: PodClass, extra: dict[int, Column]) -> float:
        slots, total = self._bases()[klass]
        for node, room in extra.items():
            freed = self.freed[node] + room if node in self.freed else room
            total += self._at(klass, node, freed) - float(slots[node])
        return total


def _group_needs(probe: Probe) -> dict[str, list[float]]:
    """GPUs that groups with a required level need, per level."""
    if probe.gang.only is not None and probe.gang.tree.constraint is None:
        return {}
    state = probe.state
    found: dict[str, list[float]] = {}
    todo: list[GroupRow] = [probe.gang.tree]
    while todo:
        group = todo.pop()
        todo += [member for member in group.members if isinstance(member, GroupRow)]
        if group.constraint and group.constraint.required:
            rows = [row for leaf in group.leaves for row in leaf.rows if IS_ACTIVE[state.tasks.status[row]]]
            rows += [row for leaf in group.leaves for row in probe.pending.get(leaf, ())]
            found.setdefault(group.constraint.required, []).append(sum(state.tasks.klass[row].gpu_wish for row in rows))
    return found


def enough(amounts: list[float], missing: float) -> int:
    """How many of the first amounts cover what is missing; one more than there are when all do not."""
    total = 0.0
    for count, amount in enumerate(amounts, start=1):
        total += amount
        if total >= missing:
            return count
    return len(amounts) + 1


def greedy(needs: list[float], rooms: list[float]) -> bool:
    """Each need, largest first, into the first room that still has it; a room too small from the start ends the
    search."""
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
