"""One cycle: a state, a policy and a moment; actions take turns, statements change the state, decisions come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from allaboard.scheduling.facts import Task
from allaboard.scheduling.gangs import PENDING, RELEASING, GangRow
from allaboard.scheduling.lazytree import LazyOrder
from allaboard.scheduling.order import GangKey, JobOrder, QueueRule
from allaboard.scheduling.panel import NodeSet, Panel
from allaboard.scheduling.plugins.ordering import TaskRule
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.queues import Amounts
from allaboard.scheduling.refusals import Refusals
from allaboard.scheduling.replaying import ReplayOrder
from allaboard.scheduling.reservation import Reservation
from allaboard.scheduling.selection import Chosen, to_place
from allaboard.scheduling.standing import Standing
from allaboard.scheduling.state import State
from allaboard.scheduling.statement import Committed, Statement


class Session:
    """What actions and the solver share while one cycle runs.

    `panel` is what the plugins think, `log` what was committed, `refusals` who got nothing; `action` is the one at
    work.
    """

    def __init__(self, state: State, policy: Policy, now: float) -> None:
        self.state, self.policy, self.now = state, policy, now
        self.panel = Panel(state, policy)
        self.refusals = Refusals(state, self.panel)
        self.log = Committed()
        self.action = ""
        self.started: list[str] = []
        self.stale: dict[str, float | None] = {}
        self.deadline: float | None = None
        # When time alone may help a gang that is refused now.
        self.retries: dict[str, float] = {}
        self.reservation: Reservation | None = None
        self.trials = 0
        # KAI keeps the list of tasks a victim was asked for until one of them changes, so a gang that lost some in an
        # action is not served in it.
        self.robbed: set[GangRow] = set()
        self.before = state.queues.holdings()
        self.skipped = frozenset() if policy.exact else state.memory.hopeless(now)
        self.rule = QueueRule(state.queues, state.totals(), lazy=policy.exact)
        state.queues.divide(state.totals(), policy.proportion.usage_weight)
        order_tasks(state, policy.task_rule(), self.panel.task_key)
        state.nodes.open(strict=policy.exact)
        for name in self.skipped:
            if (until := state.memory.refused[name].until) is not None:
                self.wake(until)
        self._loose = (-1, 0.0)
        self._groups, self._taken = 0, set[str]()
        self._standing: Standing | None = None
        self._replay: ReplayOrder | None = None

    def statement(self, gang: GangRow | None = None) -> Statement:
        """A transaction, for a gang's sake."""
        return Statement(self.state, self.log, (self.action, gang.name if gang else ""))

    def wake(self, moment: float, gang: GangRow | None = None) -> None:
        """Something could be decided otherwise at this moment, even if no event comes: about a gang, or at all."""
        self.deadline = moment if self.deadline is None else min(self.deadline, moment)
        if gang is not None:
            self.retries[gang.name] = min(moment, self.retries.get(gang.name, moment))

    # --- orders ---

    def waiting(self, gangs: Iterable[GangRow] | None = None) -> JobOrder | LazyOrder:
        """Gangs that wait for room, in fair order."""
        order = (LazyOrder if self.rule.lazy else JobOrder)(self.rule, self.request)
        entries = [(self.panel.gang_key(gang), gang) for gang in (self.candidates() if gangs is None else gangs)]
        depth = (self.policy.queue_depth or {}).get(self.action, 0)
        order.fill(first_of_each_queue(entries, depth) if depth > 0 else entries)
        return order

    def candidates(self) -> Iterator[GangRow]:
        """Gangs with enough pods for their minimum, some of them pending, in a queue that may hold jobs."""
        queues = self.state.queues
        for gang in self.state.gangs.waiting.values():
            if gang.queue < 0 or gang.name in self.skipped or not (gang.pending() and gang.is_ready()):
                continue
            if not gang.fact.held and queues.closed_by(gang.queue) is None:
                yield gang

    def standing(self) -> Standing:
        """Waiting and evictable gangs by queue; made on first use and kept with the state, as building it walks all
        gangs."""
        if self._standing is None:
            known = self.state.memory.standing
            if isinstance(known, Standing) and known.rule == self.policy.names():
                known.adopt(self.panel.gang_key, self.state.gangs.changed.values())
            else:
                known = Standing(self.state, self.policy.names(), self.panel.gang_key)
            self.state.memory.standing, self.state.gangs.changed = known, {}
            known.refresh({self.state.tasks.members[row].gang for row in self.log.origin})
            self._standing = known
        return self._standing

    def replay_order(self, gangs: set[GangRow]) -> Iterator[GangRow]:
        """These gangs in the order they would come up among all who wait."""
        if self._replay is None:
            self._replay = ReplayOrder(self.rule, self.standing(), self.request, self.panel.gang_key)
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
        if leaf is not None and leaf.klass is not None and not leaf.count[RELEASING]:
            part = leaf.klass.asked_quota(self.state.nodes.smallest_memory)
            count = min(leaf.count[PENDING], max(leaf.minimum - leaf.active(), 0) or 1)
            return part[0] * count, part[1] * count, part[2] * count
        return self.amounts(to_place(self.state, gang, simulated=True), by_memory=True)

    def amounts(self, chosen: Chosen, *, by_memory: bool = False) -> Amounts:
        """Sum of requests as queues count them; GPU memory counts only where asked, as KAI's capacity check ignores
        it."""
        klass_of, smallest = self.state.tasks.klass, self.state.nodes.smallest_memory
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

    # --- room ---

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

    def new_group(self) -> str:
        """A name for a device that starts to be shared, unlike that of any shared now; the binder maps it to a real
        one."""
        if not self._groups:
            self._taken = {group for gpus in self.state.nodes.sharing.values() for group in gpus.used}
        name = ""
        while not name or name in self._taken:
            self._groups += 1
            name = f"shared-{int(self.now)}-{self._groups}"
        return name

    # --- time ---

    def is_protected(self, victim: GangRow, claimant: GangRow) -> bool:
        """Whether a victim may not lose its minimum yet; the cycle comes back when it may."""
        if victim.last_start is None:
            return False
        moment = self.panel.protected_until(victim, claimant, self.action)
        if moment > self.now:
            self.wake(moment, claimant)
        return moment > self.now

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


def order_tasks(state: State, rule: tuple[str, ...], key: Callable[[Task], tuple[object, ...]]) -> None:
    """Pod sets in the order a policy wants; sorted again only when another policy wants another one."""
    if rule == state.tasks.rule.names:
        return
    state.tasks.rule = TaskRule(rule, key)
    for gang in state.gangs.values():
        for leaf in gang.leaves:
            leaf.rows.sort(key=state.tasks.key)
