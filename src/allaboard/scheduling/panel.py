"""What the plugins of a policy think together: the table of points with its combining rules, and the questions
asked there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from allaboard import points
from allaboard.api.twins import made_once
from allaboard.scheduling.classes import Column, Mask, PodClass
from allaboard.scheduling.facts import Task
from allaboard.scheduling.gangs import GangRow, Member
from allaboard.scheduling.ladder import Ladder, has_rungs
from allaboard.scheduling.nodes import Rows
from allaboard.scheduling.order import GangKey
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.queues import Amounts
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.selection import Chosen
from allaboard.scheduling.state import State

NodeSet = Rows | None
"""Node rows in name order; None is every node."""


# --- how many answers become one ---


def lexicographic(answers: Iterable[object]) -> tuple[object, ...]:
    """Earlier plugins weigh more."""
    return tuple(answers)


def every(answers: Iterable[Mask | None]) -> Mask | None:
    """A node must please all; None pleases everywhere."""
    result: Mask | None = None
    for answer in answers:
        if answer is not None:
            result = answer if result is None else result & answer
    return result


def total(answers: Iterable[Column | None]) -> Column | None:
    """Scores add up; None is zero everywhere."""
    result: Column | None = None
    for answer in answers:
        if answer is not None:
            result = answer if result is None else result + answer
    return result


def objection(answers: Iterable[Reason | None]) -> Reason | None:
    """The first reason against it."""
    for answer in answers:
        if answer is not None:
            return answer
    return None


POINTS: Mapping[str, Callable[..., object]] = {
    "gang_key": lexicographic,
    "task_key": lexicographic,
    "fits_nodes": every,
    "fits_task": every,
    "score_nodes": total,
    "score_task": total,
    "rank_nodes": total,
    "idle_bonus": sum,
    "score_gpu": sum,
    "may_start": objection,
    "may_stay": objection,
    "node_sets": total,
    "protected_until": max,
}


_bound = made_once(points.bind)  # a policy's plugins stay the same from cycle to cycle


class Panel:
    """The plugins of a policy before one state. Answers that a cycle cannot change are asked once."""

    def __init__(self, state: State, policy: Policy) -> None:
        self.state = state
        self._ask = _bound(policy.plugins, POINTS)
        self._packing = policy.packing()
        self._shunned = any(term.anti for klass in state.classes for term in klass.demand.neighbours)
        self._ladders: dict[PodClass, Ladder | None] = {}
        self._fits: dict[PodClass, Mask | None] = {}
        self._scores: dict[PodClass, Column | None] = {}
        self._gang_keys: dict[tuple[GangRow, int], GangKey] = {}
        self._gang_parts = list(self._ask["gang_key"])

    def gang_key(self, gang: GangRow, active: Sequence[int] | None = None) -> GangKey:
        """A gang's place in its queue; creation and name end it. Of its tasks only the active ones count."""
        if gang.only is None or active is not None:
            return self._gang_key(gang, active or [leaf.active() for leaf in gang.leaves])
        known = (gang, gang.only.active())
        if known not in self._gang_keys:
            self._gang_keys[known] = self._gang_key(gang, known[1:])
        return self._gang_keys[known]

    def _gang_key(self, gang: GangRow, active: Sequence[int]) -> GangKey:
        return (*[part(gang, active) for part in self._gang_parts], gang.fact.created, gang.name)

    def task_key(self, task: Task) -> tuple[object, ...]:
        """A task's place in its pod set; creation and name end it."""
        return (*(part(task) for part in self._ask["task_key"]), task.created, task.name)

    def objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection([may(self.state.queues, gang, amounts) for may in self._ask["may_start"]])

    def quota_objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection([may(self.state.queues, gang, amounts) for may in self._ask["may_stay"]])

    def fits(self, klass: PodClass) -> Mask | None:
        """Nodes whose standing facts admit the class; asked once in a cycle, as nothing in it changes them."""
        if klass not in self._fits:
            self._fits[klass] = every(fits(self.state.nodes, klass) for fits in self._ask["fits_nodes"])
        return self._fits[klass]

    def fits_task(self, klass: PodClass, row: int) -> Mask | None:
        """The same for one task whose neighbours, ports or claims matter."""
        return every((self.fits(klass), *(fits(self.state, klass, row) for fits in self._ask["fits_task"])))

    def ladder(self, klass: PodClass) -> Ladder | None:
        """Nodes of the class in packing order, where nothing outweighs idle room and no score can change."""
        nodes = self.state.nodes
        if nodes.sharing or (nodes.strict and nodes.may_owe):  # a ladder does not see who is oversold
            return None
        if klass not in self._ladders:
            score = self.score(klass)
            kept = has_rungs(klass, score)
            self._ladders[klass] = Ladder(nodes, klass, self.fits(klass), score) if kept else None
        return self._ladders[klass]

    def score(self, klass: PodClass) -> Column | None:
        """What makes nodes better for the class; only shared GPUs can change it during a cycle."""
        if klass not in self._scores or self.state.nodes.sharing:
            self._scores[klass] = total(score(self.state.nodes, klass) for score in self._ask["score_nodes"])
        return self._scores[klass]

    def rank(self, klass: PodClass, among: Rows) -> Column:
        ranks = total(rank(self.state.nodes, klass, among) for rank in self._ask["rank_nodes"])
        return np.zeros(len(among)) if ranks is None else ranks

    def score_task(self, row: int) -> Column | None:
        """What makes nodes better for one task whose neighbours matter."""
        return total(score(self.state, row) for score in self._ask["score_task"])

    def idle_bonus(self) -> float:
        return float(sum(bonus() for bonus in self._ask["idle_bonus"]))

    def score_gpu(self, used: float | None) -> float:
        return float(sum(score(used) for score in self._ask["score_gpu"]))

    def packs(self, klass: PodClass) -> bool:
        """Whether equal tasks may be placed by arithmetic: packed, and nobody around shuns neighbours."""
        return self._packing[klass.cpu_only] and klass.plain and not self._shunned

    def node_sets(self, member: Member, chosen: Chosen, nodes: NodeSet) -> tuple[list[NodeSet], Column | None]:
        """Ordered sets of nodes a member may use, and what it prefers among them."""
        for split in self._ask["node_sets"]:
            if member.constraint is not None:
                sets, score = split(self.state, member, chosen, nodes)
                return sets, score
        return [nodes], None

    @property
    def checks_nodes(self) -> bool:
        """Whether any plugin looks at nodes at all."""
        return bool(self._ask["fits_nodes"])

    def protected_until(self, victim: GangRow, claimant: GangRow, action: str) -> float:
        """The moment until which a victim may not lose its minimum."""
        answers = (until(self.state.queues, victim, claimant, action) for until in self._ask["protected_until"])
        return float(max(answers, default=0.0))
