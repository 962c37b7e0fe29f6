"""A whole gang boards, or nobody does: its tree is walked member by member, and every member tries its node sets in
order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from allaboard.scheduling.classes import PODS, Column, PodClass
from allaboard.scheduling.explain import Stuck, obstacle
from allaboard.scheduling.gangs import GangRow, GroupRow, Member, Members
from allaboard.scheduling.panel import NodeSet
from allaboard.scheduling.placement import Board, Fill, fill, fits_free, fits_idle
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.selection import Chosen, only_class, ordered
from allaboard.scheduling.session import Session
from allaboard.scheduling.sharing import SharedGpus
from allaboard.scheduling.statement import Statement


@dataclass(slots=True)
class Boarding:
    """One attempt: `promises_only` in simulations; `scores` are preferences found while node sets were made; with
    `seats`, how many tasks of a pod set each node was promised for, nobody sits elsewhere."""

    session: Session
    statement: Statement
    gang: GangRow
    chosen: Chosen
    promises_only: bool = False
    seats: Counter[tuple[str, int]] | None = None
    scores: dict[Member, Column] = field(default_factory=dict)
    stuck: Stuck | None = None

    def run(self, nodes: NodeSet = None) -> bool:
        """Place everything chosen, or nothing."""
        leaf = self.gang.only
        if leaf is None or leaf.constraint or self.gang.tree.constraint:
            return self._member(self.gang.tree, nodes)
        mark = self.statement.checkpoint()
        if leaf not in self.chosen or self._pod_set(leaf, nodes):
            return True
        self.statement.rollback(mark)
        return False

    def _member(self, member: Member, nodes: NodeSet) -> bool:
        chosen = self._of(member)
        if not chosen:
            return True
        candidates, score = self.session.panel.node_sets(member, chosen, nodes)
        if score is not None:
            self.scores[member] = score
        for candidate in candidates:
            mark = self.statement.checkpoint()
            if self._group(member, candidate) if isinstance(member, GroupRow) else self._pod_set(member, candidate):
                return True
            self.statement.rollback(mark)
        return False

    def _of(self, member: Member) -> Chosen:
        leaves = member.leaves if isinstance(member, GroupRow) else [member]
        return {leaf: self.chosen[leaf] for leaf in leaves if leaf in self.chosen}

    def _group(self, group: GroupRow, nodes: NodeSet) -> bool:
        return all(self._member(member, nodes) for member in ordered(group))

    def _pod_set(self, leaf: Members, nodes: NodeSet) -> bool:
        """Runs of tasks of one class, in task order."""
        if leaf.klass is not None:
            rows = self.chosen[leaf]
            placed = self._run(leaf, leaf.klass, rows, nodes)
            if placed < len(rows):
                self.stuck = Stuck(leaf, leaf.klass, len(rows), placed)
            return placed == len(rows)
        state, done = self.session.state, 0
        for klass, run in groupby(self.chosen[leaf], key=lambda row: state.tasks.klass[row]):
            rows = list(run)
            placed = self._run(leaf, klass, rows, nodes)
            done += placed
            if placed < len(rows):
                self.stuck = Stuck(leaf, klass, len(self.chosen[leaf]), done)
                return False
        return True

    def _run(self, leaf: Members, klass: PodClass, rows: list[int], nodes: NodeSet) -> int:
        """How many of the rows found a place."""
        if self.seats is None:
            return self._fill(leaf, klass, rows, nodes)
        done = 0
        for node, count in self._seats(leaf, klass, nodes):
            if batch := rows[done : done + count]:
                done += self._fill(leaf, klass, batch, np.array([node], dtype=np.intp))
        return done

    def _seats(self, leaf: Members, klass: PodClass, nodes: NodeSet) -> list[tuple[int, int]]:
        """Seats of the pod set that nobody has taken, free ones first."""
        assert self.seats is not None
        place = self.session.state.tasks.node
        taken = Counter((leaf.name, place[row]) for row in self.chosen[leaf] if place[row] >= 0)
        left = {node: count for (role, node), count in (self.seats - taken).items() if role == leaf.name}
        inside = [node for node in left if nodes is None or node in nodes]
        idle = fits_idle(self.session.state.nodes, klass)
        return [(node, left[node]) for node in sorted(inside, key=lambda node: not idle[node])]

    def _fill(self, leaf: Members, klass: PodClass, rows: list[int], nodes: NodeSet) -> int:
        """All in one step where arithmetic allows, else one by one."""
        ghosts = self.session.state.tasks.ghosts
        if not self.session.panel.packs(klass) or (ghosts and any(row in ghosts for row in rows)):
            for done, row in enumerate(rows):
                if not self._one(leaf, klass, row, nodes):
                    return done
            return len(rows)
        ladder = self.session.panel.ladder(klass) if nodes is None and not (self.promises_only or self.scores) else None
        if ladder is not None and (taken := ladder.take(len(rows))) is not None:
            self.statement.allocate(rows, taken)
            return len(rows)
        board = Board(self.session.state.nodes, klass, nodes, self.session.panel.fits(klass), self._score(leaf, klass))
        found = fill(board, len(rows), pipeline_only=self.promises_only)
        if found is None:
            return 0
        return len(rows) if self._settle(rows, found) else 0

    def _settle(self, rows: list[int], found: Fill) -> bool:
        if all(found.idle):
            self.statement.allocate(rows, found.rows)
            return True
        if not any(found.idle):
            return self.statement.pipeline(rows, found.rows)
        start = 0
        for idle, run in groupby(found.idle):
            end = start + len(list(run))
            step = self.statement.allocate if idle else self.statement.pipeline
            step(rows[start:end], found.rows[start:end])
            start = end
        return True

    def _score(self, leaf: Members, klass: PodClass) -> Column | None:
        """Standing scores of the class, with the preferences of the nearest member that has any."""
        score = self.session.panel.score(klass)
        member: Member | None = leaf
        while member is not None and member not in self.scores:
            member = member.parent
        if member is None:
            return score
        return self.scores[member] if score is None else score + self.scores[member]

    # --- one by one: sharing, claims, neighbours, ports, spreading ---

    def _one(self, leaf: Members, klass: PodClass, row: int, nodes: NodeSet) -> bool:
        session, columns = self.session, self.session.state.nodes
        among = np.arange(len(columns)) if nodes is None else nodes
        mask = fits_free(columns, klass)
        standing = session.panel.fits_task(klass, row)
        if standing is not None:
            mask &= standing
        idle = fits_idle(columns, klass)
        score = session.panel.rank(klass, among) + np.where(idle[among], session.panel.idle_bonus(), 0.0)
        if (standing_score := self._score(leaf, klass)) is not None:
            score = score + standing_score[among]
        if (near := session.panel.score_task(row)) is not None:
            score = score + near[among]
        order = among[np.lexsort((among, -score))]
        return any(self._take(klass, row, int(node), idle=bool(idle[node])) for node in order[mask[order]])

    def _take(self, klass: PodClass, row: int, node: int, *, idle: bool) -> bool:
        if klass.shared:
            return self._share(klass, row, node, idle=idle)
        if idle and not self.promises_only:
            self.statement.allocate([row], [node])
            return True
        return self.statement.pipeline_one(row, node, ())

    def _share(self, klass: PodClass, row: int, node: int, *, idle: bool) -> bool:
        """Choose devices on a node: shared ones that fit and fresh ones, best score first."""
        session, nodes = self.session, self.session.state.nodes
        memory = int(nodes.gpu_memory[node])
        amounts = (klass.quota[0], klass.quota[1], klass.portion_on(memory))
        if session.panel.checks_nodes and session.panel.objection(self.gang, amounts) is not None:
            return False
        gpus, need = nodes.shared_on(node), klass.memory_on(memory)
        if session.panel.checks_nodes and not self._has_slots(klass, node, need):
            return False
        merely, enough = self._merely_promised(gpus), nodes.idle[2, node] >= klass.devices
        shared = [group for group in gpus.fitting(need, memory) if not (enough and group in merely)]
        fitting = [(session.panel.score_gpu(gpus.used[group] / memory), group) for group in shared]
        fresh = int(nodes.idle[2, node]) + int(nodes.releasing[2, node])
        devices = fitting + [(session.panel.score_gpu(None), "")] * max(0, fresh)
        picked = sorted(devices, key=lambda device: (-device[0], not device[1], device[1]))[: klass.devices]
        if len(picked) < klass.devices:
            return False
        waits = self.promises_only or not idle
        waits = waits or any(
            group and (group in merely or not gpus.fits_idle(group, need, memory)) for _, group in picked
        )
        groups = tuple(group or session.new_group() for _, group in picked)
        if waits:
            return self.statement.pipeline_one(row, node, groups)
        self.statement.allocate([row], [node], [groups])
        return True

    def _merely_promised(self, gpus: SharedGpus) -> frozenset[str]:
        """Devices on which nobody stands yet: who is bound there takes one that may not be free. KAI binds there."""
        if self.promises_only or self.session.policy.exact:
            return frozenset()
        return frozenset(group for group in gpus.used if not gpus.allocated.get(group))

    def _has_slots(self, klass: PodClass, node: int, need: int) -> bool:
        """A sharing pod needs a second slot for the pod that reserves its device, unless its groups are numbered
        devices."""
        nodes = self.session.state.nodes
        if nodes.idle[PODS, node] + nodes.releasing[PODS, node] >= 2:
            return True
        fitting = nodes.shared_on(node).fitting(need, int(nodes.gpu_memory[node]))
        return sum(group.isdigit() for group in fitting) >= klass.devices


def board(session: Session, statement: Statement, gang: GangRow, chosen: Chosen) -> Reason | Stuck | None:
    """Place the chosen tasks of a gang on idle or releasing room; why not, when that is not possible."""
    if reason := session.panel.objection(gang, session.amounts(chosen)) or _defect(session, gang, chosen):
        return reason
    simple, nodes = only_class(session.state, gang, chosen), session.open_nodes(gang)
    if simple and session.refusals.is_full(*simple):
        return Stuck(next(iter(chosen)), *simple, 0)
    attempt = Boarding(session, statement, gang, chosen)
    if not attempt.run(nodes):
        if simple and nodes is None:
            session.refusals.mark_full(*simple)
        return attempt.stuck or _unplaced(session, chosen)
    if gang.must_pipeline():
        statement.to_pipelined(gang)
    return None


def _unplaced(session: Session, chosen: Chosen) -> Stuck:
    """No node set was even tried: the first pod set speaks for the gang."""
    leaf, rows = next(iter(chosen.items()))
    return Stuck(leaf, session.state.tasks.klass[rows[0]], len(rows), 0)


def _defect(session: Session, gang: GangRow, chosen: Chosen) -> Reason | None:
    for leaf, rows in chosen.items():
        classes = (leaf.klass,) if leaf.klass is not None else tuple(session.state.tasks.klass[row] for row in rows)
        for klass in classes:
            if klass.demand.obstacle:
                return obstacle(gang, klass.demand.obstacle)
    return None
