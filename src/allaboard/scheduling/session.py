"""One cycle: a state, a policy and a moment; actions take turns, statements change the state, decisions come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from allaboard import points
from allaboard.scheduling.classes import Column, Mask, PodClass
from allaboard.scheduling.explain import Stuck, Survey, holders, no_room, survey
from allaboard.scheduling.gangs import GangRow, Member
from allaboard.scheduling.ladder import Ladder
from allaboard.scheduling.nodes import Rows
from allaboard.scheduling.order import GangKey, JobOrder, QueueRule
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.queues import Amounts
from allaboard.scheduling.reasons import Holder, Reason
from allaboard.scheduling.replaying import ReplayOrder
from allaboard.scheduling.reservation import Reservation
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
    "protected_until": max,
}


@dataclass(slots=True)
class Refusal:
    """Why a gang got nothing, what was seen then, its place in its queue and overall, how long victims were sought."""

    why: Reason | Stuck
    seen: Survey | None
    position: int
    overall: int
    trials: int = 0


class Session:
    """What actions and the solver share while one cycle runs."""

    def __init__(self, state: State, policy: Policy, now: float) -> None:
        self.state, self.policy, self.now = state, policy, now
        self.log = Committed()
        self.refusals: dict[str, Refusal] = {}
        self.started: list[str] = []
        self.stale: dict[str, float | None] = {}
        self.deadline: float | None = None
        self.action = ""
        self.before = state.queues.holdings()
        self.reservation: Reservation | None = None
        self.trials = 0
        self.skipped = frozenset() if policy.exact else state.hopeless()
        self.totals = state.totals()
        state.queues.divide(self.totals, policy.usage_weight)
        self.rule = QueueRule(state.queues, self.totals)
        self._ask = points.bind(policy.plugins, POINTS)
        state.nodes.touched = []
        self._loose = (-1, 0.0)
        self._ladders: dict[PodClass, Ladder | None] = {}
        self._fits: dict[PodClass, Mask | None] = {}
        self._scores: dict[PodClass, Column | None] = {}
        self._packing = policy.packing()
        self._shunned = any(term.anti for klass in state.classes.values() for term in klass.demand.neighbours)
        self._groups = 0
        self._ahead: dict[int, int] = {}
        self._holders: tuple[Holder, ...] | None = None
        self._full: dict[PodClass, int] = {}
        self._surveys: dict[PodClass, Survey] = {}
        self._key_rule = tuple(plugin.name for plugin in policy.plugins)
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
        entries = [(self.gang_key(gang), gang) for gang in (self.candidates() if gangs is None else gangs)]
        depth = (self.policy.queue_depth or {}).get(self.action, 0)
        order.fill(first_of_each_queue(entries, depth) if depth > 0 else entries)
        return order

    def candidates(self) -> Iterator[GangRow]:
        """Gangs with enough pods for their minimum, some of them pending, in a queue that may hold jobs."""
        for gang in self.state.waiting.values():
            if gang.queue >= 0 and gang.name not in self.skipped and gang.pending() and gang.is_ready():
                yield gang

    def standing(self) -> Standing:
        """Waiting and evictable gangs by queue; made on first use and kept with the state, as building it walks all
        gangs."""
        if self._standing is None:
            known = self.state.standing
            if isinstance(known, Standing) and known.rule == self._key_rule:
                known.adopt(self.gang_key, self.state.changed.values())
            else:
                known = Standing(self.state, self._key_rule, self.gang_key)
            self.state.standing, self.state.changed = known, {}
            known.refresh({self.state.members[row].gang for row in self.log.origin})
            self._standing = known
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
        """What a gang asks of its queue next; counted without a list of tasks where they are all alike."""
        leaf = gang.only
        if leaf is not None and leaf.klass is not None and not leaf.count[7]:
            part = leaf.klass.asked_quota(self.state.nodes.smallest_memory)
            count = min(leaf.count[0], max(leaf.minimum - leaf.active(), 0) or 1)
            return part[0] * count, part[1] * count, part[2] * count
        return self.amounts(to_place(self.state, gang, simulated=True), by_memory=True)

    def amounts(self, chosen: Chosen, *, by_memory: bool = False) -> Amounts:
        """Sum of requests as queues count them; GPU memory counts only where asked, as KAI's capacity check ignores
        it."""
        klass_of, smallest = self.state.klass, self.state.nodes.smallest_memory
        cpu = memory = gpu = 0.0
        for leaf, rows in chosen.items():
            if leaf.klass is not None:
                part, times = leaf.klass.asked_quota(smallest) if by_memory else leaf.klass.quota, len(rows)
                cpu, memory, gpu = cpu + part[0] * times, memory + part[1] * times, gpu + part[2] * times
                continue
            for row in rows:
                part = klass_of[row].asked_quota(smallest) if by_memory else klass_of[row].quota
                cpu, memory, gpu = cpu + part[0], memory + part[1], gpu + part[2]
        return cpu, memory, gpu

    # --- what plugins think ---

    def objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection(may(self.state.queues, gang, amounts) for may in self._ask["may_start"])

    def quota_objection(self, gang: GangRow, amounts: Amounts) -> Reason | None:
        return objection(may(self.state.queues, gang, amounts) for may in self._ask["may_stay"])

    def fits(self, klass: PodClass) -> Mask | None:
        """Nodes whose standing facts admit the class; asked once in a cycle, as nothing in it changes them."""
        if klass not in self._fits:
            self._fits[klass] = every(fits(self.state.nodes, klass) for fits in self._ask["fits_nodes"])
        return self._fits[klass]

    def fits_task(self, klass: PodClass, row: int) -> Mask | None:
        """The same for one task whose neighbours, ports or claims matter."""
        return every((self.fits(klass), *(fits(self.state, klass, row) for fits in self._ask["fits_task"])))

    def ladder(self, klass: PodClass) -> Ladder | None:
        """Nodes of the class in packing order, where nothing but packing ranks them."""
        if klass not in self._ladders:
            ranked = klass.best_effort or self.score(klass) is not None
            self._ladders[klass] = None if ranked else Ladder(self.state.nodes, klass, self.fits(klass))
        return None if self.state.nodes.sharing else self._ladders[klass]

    def score(self, klass: PodClass) -> Column | None:
        """What makes nodes better for the class; only shared GPUs can change it during a cycle."""
        if klass not in self._scores or self.state.nodes.sharing:
            self._scores[klass] = total(score(self.state.nodes, klass) for score in self._ask["score_nodes"])
        return self._scores[klass]

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

    def protected_until(self, victim: GangRow, claimant: GangRow) -> float:
        """The moment until which a victim may not lose its minimum."""
        answers = [until(self.state.queues, victim, claimant, self.action) for until in self._ask["protected_until"]]
        moment = float(max(answers, default=0.0))
        if moment > self.now:
            self.wake(moment)
        return moment

    def open_nodes(self, gang: GangRow) -> NodeSet:
        """Nodes not kept for somebody else."""
        if self.reservation is None or self.reservation.admits(gang, self.now):
            return None
        return np.flatnonzero(~self.reservation.nodes)

    def loose_gpus(self) -> float:
        """GPUs idle or being released in the whole cluster; summed again when a node was touched."""
        touched = len(self.state.nodes.touched)
        if self._loose[0] != touched:
            self._loose = (touched, float(self.state.nodes.loose_gpus().sum()))
        return self._loose[1]

    # --- refusals ---

    def is_full(self, klass: PodClass, count: int) -> bool:
        """Whether so many tasks of a class found no room since room was last given back."""
        return self._full.get(klass, count + 1) <= count

    def mark_full(self, klass: PodClass, count: int) -> None:
        self._full[klass] = min(count, self._full.get(klass, count))

    def survey(self, stuck: Stuck) -> Survey:
        """The nodes as a class sees them; one look serves all gangs of a class until room is given back."""
        if stuck.klass not in self._surveys or not self.is_full(stuck.klass, stuck.wanted):
            self._surveys[stuck.klass] = survey(self.state, stuck.klass, self.fits(stuck.klass))
        return self._surveys[stuck.klass]

    def holders(self) -> tuple[Holder, ...]:
        """Who holds most, asked once in a cycle."""
        if self._holders is None:
            self._holders = holders(self.state)
        return self._holders

    def refuse(self, gang: GangRow, refusal: Reason | Stuck) -> None:
        """Write down why, with what was seen, and its place among those who wait; the words are made at the end."""
        ahead = self._ahead.get(gang.queue, 0) + 1
        self._ahead[gang.queue] = ahead
        seen = self.survey(refusal) if isinstance(refusal, Stuck) else None
        self.refusals[gang.name] = Refusal(refusal, seen, ahead, len(self.refusals) + 1)

    def reason(self, gang: GangRow) -> Reason | None:
        """The words for a refusal of this cycle."""
        known = self.refusals.get(gang.name)
        if known is None:
            return None
        why = known.why
        reason = no_room(self.state, gang, why, known.seen) if isinstance(why, Stuck) and known.seen else why
        assert isinstance(reason, Reason)
        words = f"{reason.message}; gave up looking for victims after {known.trials} trials in this cycle"
        message = words if known.trials else reason.message
        return replace(reason, message=message, position=known.position, overall=known.overall)

    def give_up(self, gang: GangRow) -> None:
        """The search for victims ended at a limit of the policy; say so, as a longer one might have found some."""
        if gang.name in self.refusals:
            self.refusals[gang.name].trials = self.trials

    def first_start(self, gang: GangRow) -> None:
        """The gang holds bound pods for the first time since it last held none."""
        gang.last_start = self.now
        self.started.append(gang.name)


def first_of_each_queue(entries: list[tuple[GangKey, GangRow]], depth: int) -> list[tuple[GangKey, GangRow]]:
    """The best gangs of every queue, so many of each."""
    seen: dict[int, int] = {}
    kept = []
    for key, gang in sorted(entries, key=lambda entry: entry[0]):
        seen[gang.queue] = seen.get(gang.queue, 0) + 1
        if seen[gang.queue] <= depth:
            kept.append((key, gang))
    return kept
