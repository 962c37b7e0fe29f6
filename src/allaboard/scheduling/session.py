"""One cycle: a state, a policy and a moment; actions take turns, statements change the state, decisions come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from allaboard import points
from allaboard.scheduling.classes import Column, Mask, PodClass
from allaboard.scheduling.gangs import GangRow, Member
from allaboard.scheduling.nodes import Rows
from allaboard.scheduling.order import GangKey, JobOrder, QueueRule
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.queues import Amounts
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.replaying import ReplayOrder
from allaboard.scheduling.selection import Chosen, to_place
from allaboard.scheduling.standing import Standing
from allaboard.scheduling.state import State
from allaboard.scheduling.statement import Committed, Statement

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
    return next((answer for answer in answers if answer is not None), None)


def unanimous(answers: Iterable[bool]) -> bool:
    return all(answers)


def anybody(answers: Iterable[bool]) -> bool:
    return any(answers)


POINTS: Mapping[str, Callable[..., object]] = {
    "gang_key": lexicographic,
    "task_key": lexicographic,
    "fits_nodes": every,
    "fits_task": every,
    "score_nodes": total,
    "rank_nodes": total,
    "idle_bonus": sum,
    "score_gpu": sum,
    "may_start": objection,
    "may_stay": objection,
    "node_sets": total,
    "spares": anybody,
    "accepts": unanimous,
}


class Session:
    """What actions and the solver share while one cycle runs."""

    def __init__(self, state: State, policy: Policy, now: float) -> None:
        self.state, self.policy, self.now = state, policy, now
        self.log = Committed()
        self.reasons: dict[str, Reason] = {}
        self.started: list[str] = []
        self.stale: dict[str, float | None] = {}
        self.deadline: float | None = None
        self.action = ""
        self.before = state.queues.holdings()
        self.totals = state.totals()
        state.queues.divide(self.totals, policy.usage_weight)
        self.rule = QueueRule(state.queues, self.totals)
        self._ask = points.bind(policy.plugins, POINTS)
        self._packing = policy.packing()
        self._shunned = any(term.anti for klass in state.classes.values() for term in klass.demand.neighbours)
        self._groups = 0
        self._standing: Standing | None = None
        self._replay: ReplayOrder | None = None

    def statement(self, gang: GangRow | None = None) -> Statement:
        """A transaction, for a gang's sake."""
        return Statement(self.state, self.log, (self.action, gang.name if gang else ""))

    def wake(self, moment: float) -> None:
        """Something could be decided otherwise at this moment, even if no event comes."""
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)

    # --- orders ---

    def gang_key(self, gang: GangRow, active: Sequence[int] | None = None) -> GangKey:
        """A gang's place in its queue; creation and name end it."""
        counts = [leaf.active() for leaf in gang.leaves] if active is None else active
        return (*(part(gang, counts) for part in self._ask["gang_key"]), gang.fact.created, gang.name)

    def waiting(self, gangs: Iterable[GangRow] | None = None) -> JobOrder:
        """Gangs that wait for room, in fair order."""
        order = JobOrder(self.rule, self.request)
        chosen = self.candidates() if gangs is None else gangs
        order.fill((self.gang_key(gang), gang) for gang in chosen)
        return order

    def candidates(self) -> Iterator[GangRow]:
        """Gangs with enough pods for their minimum, some of them pending, in a queue that may hold jobs."""
        for gang in self.state.gangs.values():
            if gang.queue >= 0 and gang.pending() and gang.is_ready():
                yield gang

    def standing(self) -> Standing:
        """Waiting and evictable gangs by queue; made on first use, as a cycle without shortage never needs it."""
        if self._standing is None:
            self._standing = Standing(self.state, self.gang_key)
        return self._standing

    def replay_order(self, gangs: set[GangRow]) -> Iterator[GangRow]:
        """These gangs in the order they would come up among all who wait."""
        if self._replay is None:
            self._replay = ReplayOrder(self.rule, self.standing(), self.request, self.gang_key)
        return self._replay.run(gangs)

    def settled(self, gangs: set[GangRow]) -> None:
        """Tasks of these gangs changed for good: orders kept between simulations look again."""
        self.standing().refresh(gangs)
        if self._replay is not None:
            for gang in gangs:
                self._replay.requests.pop(gang, None)

    def request(self, gang: GangRow) -> Amounts:
        """What a gang asks of its queue next."""
        return self.amounts(to_place(self.state, gang, simulated=True), by_memory=True)

    def amounts(self, chosen: Chosen, *, by_memory: bool = False) -> Amounts:
        """Sum of requests as queues count them; GPU memory counts only where asked, as KAI's capacity check ignores it."""
        state = self.state
        cpu = memory = gpu = 0.0
        smallest = state.nodes.smallest_memory
        for rows in chosen.values():
            for row in rows:
                klass = state.klass[row]
                part = klass.asked_quota(smallest) if by_memory else klass.quota
                cpu, memory, gpu = cpu + part[0], memory + part[1], gpu + part[2]
        return cpu, memory, gpu

    # --- what plugins think ---

    def objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection(may(self.state.queues, gang, amounts) for may in self._ask["may_start"])

    def quota_objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection(may(self.state.queues, gang, amounts) for may in self._ask["may_stay"])

    def fits(self, klass: PodClass) -> Mask | None:
        return every(fits(self.state.nodes, klass) for fits in self._ask["fits_nodes"])

    def fits_task(self, klass: PodClass, row: int) -> Mask | None:
        """The same for one task whose neighbours, ports or claims matter."""
        return every((self.fits(klass), *(fits(self.state, klass, row) for fits in self._ask["fits_task"])))

    def score(self, klass: PodClass) -> Column | None:
        return total(score(self.state.nodes, klass) for score in self._ask["score_nodes"])

    def rank(self, klass: PodClass, among: Rows) -> Column:
        ranks = total(rank(self.state.nodes, klass, among) for rank in self._ask["rank_nodes"])
        return np.zeros(len(among)) if ranks is None else ranks

    def idle_bonus(self) -> float:
        return float(sum(bonus() for bonus in self._ask["idle_bonus"]))

    def score_gpu(self, used: float | None) -> float:
        return float(sum(score(used) for score in self._ask["score_gpu"]))

    def packs(self, klass: PodClass) -> bool:
        """Whether equal tasks may be placed by arithmetic: packed, and nobody around shuns neighbours."""
        return self._packing[klass.cpu_only] and klass.plain and not self._shunned

    @property
    def predicates(self) -> bool:
        return bool(self._ask["fits_nodes"])

    def node_sets(self, member: Member, chosen: Chosen, nodes: NodeSet) -> tuple[list[NodeSet], Column | None]:
        """Ordered sets of nodes a member may use, and what it prefers among them."""
        for split in self._ask["node_sets"]:
            if member.constraint is not None:
                sets, score = split(self.state, member, chosen, nodes)
                return sets, score
        return [nodes], None

    def new_group(self) -> str:
        """A name for a device that starts to be shared; the binder maps it to a real one."""
        self._groups += 1
        return f"shared-{int(self.now)}-{self._groups}"

    def refuse(self, gang: GangRow, reason: Reason) -> None:
        self.reasons[gang.name] = reason

    def first_start(self, gang: GangRow) -> None:
        """The gang holds bound pods for the first time since it last held none."""
        gang.last_start = self.now
        self.started.append(gang.name)
