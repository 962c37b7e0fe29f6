"""The scheduler at work: changes in, a cycle when something changed, and what it decided as a plan."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import ApiError
from allaboard.api.kinds import BIND_REQUEST, NODE, POD_GROUP, Kind
from allaboard.api.meta import annotations_of, namespace_of, uid_of
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Plan
from allaboard.scheduling import metrics, outcomes, readings
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Bind, Decisions
from allaboard.scheduling.plugins.minruntime import MinRuntime
from allaboard.scheduling.podgroups import MAX_RUNTIME
from allaboard.scheduling.policy import DEFAULT, Policy
from allaboard.scheduling.reasons import WAITING, Reason
from allaboard.scheduling.records import pod_key
from allaboard.scheduling.snapshot import FOLLOWED, Snapshot

log = logging.getLogger("allaboard")

CYCLE = Key("", "cycle")
ONLY = (CYCLE,)
# Seconds until a gang whose requests the server refused is tried again.
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
SECOND_LOOK = timedelta(seconds=1)
# Nodes that have just come need a moment until they are ready, and others may follow: so long nobody is told to wait.
PATIENCE = timedelta(seconds=5)


class Scheduler:
    """One key, one cycle at a time. It runs when a change was told, or at the deadline the last cycle gave."""

    name = "scheduler"
    manager = "default-scheduler"

    def __init__(self, reader: Reader, clock: Clock, schedulers: frozenset[str], policy: Policy = DEFAULT) -> None:
        self.reader, self.clock = reader, clock
        self.snapshot = Snapshot(schedulers, policy)
        self.watches = tuple(Watch(kind, lambda _document: ONLY) for kind in FOLLOWED)
        self._complained = ""
        self._has_begun = False
        self._deadline: float | None = None
        self._said: dict[str, Reason] = {}
        self._losses: dict[str, int] = {}
        self._unready: dict[str, datetime] = {}
        self._joined: datetime | None = None
        self._shares: Mapping[str, tuple[float, float, float]] = {}

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        self.snapshot.observe(kind, old, new)
        if kind is NODE and old is None:
            self._joined = self.clock.now()
        if self._losses and kind is BIND_REQUEST and new is not None:
            self._losses.pop(_gang_of(new), None)
        return self.snapshot.moved

    def lost(self, requests: tuple[Document, ...], error: ApiError) -> None:
        """The server refused a gang's requests: the others go on, this one is tried again later and later."""
        gang = _gang_of(requests[0])
        times = self._losses[gang] = self._losses.get(gang, 0) + 1
        delay = min(FIRST_DELAY * 2 ** (times - 1), LONGEST_DELAY)
        self.snapshot.hold(gang, self.clock.now().timestamp() + delay)
        log.warning('msg="Gang refused by the server" gang=%s error="%s"', gang, error)

    async def reconcile(self, _key: Key) -> Plan:
        moment = self.clock.now()
        now = moment.timestamp()
        try:
            changed = self.snapshot.flush(now)
            said = self._answer_operators()
            if self.policy is None or (not changed and (self._deadline is None or now < self._deadline)):
                return self._again(said)
            started = time.perf_counter()
            decisions = cycle(self.snapshot.state, self.policy, now)
        except Exception:
            self.snapshot.doubt()
            raise
        metrics.CYCLE.set((time.perf_counter() - started) * 1000)
        self._deadline = _next_look(decisions, now)
        plan = said + self._plan(decisions, moment)
        self._assume(decisions, now)
        self._count(decisions, now)
        # What the server refuses is heard of while the plan is carried out: one more look finds it.
        return self._again(plan + Plan(again=moment + SECOND_LOOK) if plan.together else plan)

    @property
    def policy(self) -> Policy | None:
        """What is decided by; none as long as the first one told makes no sense: unknown names stop the start."""
        shard = self.snapshot.shard
        self._has_begun = self._has_begun or not shard.fault
        return shard.policy if self._has_begun else None

    def _answer_operators(self) -> Plan:
        """What authors of the SchedulingShard hear: that it makes no sense, or what a check they asked for found."""
        shard, plan = self.snapshot.shard, NOTHING
        if shard.fault != self._complained:
            self._complained = shard.fault
            if shard.fault:
                log.error('msg="SchedulingShard refused" error="%s"', shard.fault)
                plan += outcomes.about_shard(shard.document, "PolicyRefused", shard.fault)
        if shard.wants_check():
            shard.checked()
            found = self.snapshot.drift()
            plan += outcomes.checked(shard.document, found)
            if found:
                log.error('msg="State differs from a rebuild" differences="%s"', "; ".join(found[:10]))
                self.snapshot.doubt()
        return plan

    def _again(self, plan: Plan) -> Plan:
        moments = [moment for moment in (self._deadline, self.snapshot.next_release) if moment is not None]
        return plan + Plan(again=datetime.fromtimestamp(min(moments), UTC)) if moments else plan

    def _assume(self, decisions: Decisions, now: float) -> None:
        """Until the watch shows them, what was decided holds as fact."""
        for bind in decisions.binds:
            self.snapshot.assume_bound(pod_key(bind.task), bind.node, bind.gpu_groups, now)
        for eviction in decisions.evictions:
            self.snapshot.assume_leaving(pod_key(eviction.task), now)

    def _count(self, decisions: Decisions, now: float) -> None:
        """Numbers for whoever watches from outside."""
        gangs = len({bind.gang for bind in decisions.binds})
        metrics.SCHEDULED.labels("allocate").inc(gangs)
        metrics.ACTED_ON.labels("allocate").inc(gangs + len(decisions.reasons))
        for bind in decisions.binds:
            pod = self.snapshot.pods[pod_key(bind.task)]
            metrics.TASK_LATENCY.observe(max(0.0, now - readings.created(pod)) * 1000)
        for eviction in decisions.evictions:
            group = self.snapshot.groups.get(eviction.gang, (None, {}))[1]
            namespace, _, name = eviction.gang.partition("/")
            uid = uid_of(group) if group else ""
            metrics.EVICTED.labels(name, namespace, uid, outcomes.DEFAULT_POOL, eviction.action).inc()
        if decisions.evictions:
            metrics.PREEMPTIONS.inc()
        if len(self._said) > 2 * len(self.snapshot.members) + 64:
            self._said = {gang: said for gang, said in self._said.items() if gang in self.snapshot.members}
        if decisions.fair_shares != self._shares:
            self._shares = decisions.fair_shares
            metrics.tell_shares(decisions.fair_shares)

    # --- decisions as writes ---

    def _plan(self, decisions: Decisions, now: datetime) -> Plan:
        plan = outcomes.forget(self.snapshot.records.failed_requests())
        plan += Plan(together=tuple([self._requests(gang, b) for gang, b in groupby(decisions.binds, _gang)]))
        for eviction in decisions.evictions:
            message = eviction.message.replace(eviction.by, self._known_as(eviction.by)) if eviction.by else ""
            plan += outcomes.evict(self.snapshot.pods[pod_key(eviction.task)], message or eviction.message, now)
        return plan + self._marks(decisions, now) + self._words(decisions, now)

    def _known_as(self, gang: str) -> str:
        """The name people know a gang by: that of its workload, where the grouper noted one."""
        workload = outcomes.workload_of(self.snapshot.groups.get(gang, (None, {}))[1])
        return f"{gang.partition('/')[0]}/{workload}" if workload else gang

    def _requests(self, gang: str, binds: Iterable[Bind]) -> tuple[Document, ...]:
        """The requests of one gang: created all or none."""
        short, pods, requests = gang.partition("/")[2], self.snapshot.pods, []
        for bind in binds:
            seat = outcomes.Seat(pods[pod_key(bind.task)], bind.node, short, bind.gpu_groups, bind.portion)
            requests.append(outcomes.bind_request(seat, bind.gpus))
        return tuple(requests)

    def _marks(self, decisions: Decisions, now: datetime) -> Plan:
        """Times the next cycles need: when a gang last started, since when it is incomplete."""
        plan = NOTHING
        always = bool(decisions.started) and self._minds_every_start()
        for gang in decisions.started:
            if always or MAX_RUNTIME in annotations_of(self.snapshot.groups.get(gang, (None, {}))[1]):
                plan += self._mark(gang, labels.LAST_START, now.timestamp())
        for gang, since in decisions.stale.items():
            plan += self._mark(gang, labels.STALE_SINCE, since)
        return plan

    def _minds_every_start(self) -> bool:
        """Whether something depends on when gangs started that do not say how long they run: a promised least time."""
        plugins = self.snapshot.shard.policy.plugins
        promised = any(plugin.preempt or plugin.reclaim for plugin in plugins if isinstance(plugin, MinRuntime))
        return promised or self.snapshot.frame.promises_runtime

    def _mark(self, gang: str, key: str, since: float | None) -> Plan:
        kind, group = self.snapshot.groups.get(gang, (None, {}))
        return outcomes.mark(group, key, since) if kind == POD_GROUP else NOTHING

    def _words(self, decisions: Decisions, now: datetime) -> Plan:
        plan = NOTHING
        for gang in dict.fromkeys([bind.gang for bind in decisions.binds]):
            self._said.pop(gang, None)
            kind, group = self.snapshot.groups.get(gang, (None, {}))
            if kind == POD_GROUP:
                plan += outcomes.relieve(group, now)
        plan += self._be_patient(decisions.reasons, now)
        for gang, reason in decisions.reasons.items():
            kind, group = self.snapshot.groups.get(gang, (None, {}))
            before = self._said.get(gang)
            if kind is not None and gang in self._unready and now < self._unready[gang] + PATIENCE:
                continue
            if before == reason and kind is not None and (kind != POD_GROUP or outcomes.says(group, reason)):
                continue
            self._said[gang] = reason
            if kind not in (None, POD_GROUP) and (before is None or before.code != reason.code):
                plan += outcomes.announce(kind, group, reason)
            plan += self._refuse(gang, reason, now)
        return plan

    def _be_patient(self, reasons: Mapping[str, Reason], now: datetime) -> Plan:
        """Since when gangs wait for nothing but nodes that are starting or may follow; another look when that takes
        long."""
        young = self._joined is not None and now < self._joined + PATIENCE
        waiting = (gang for gang, why in reasons.items() if _for_nodes(why, young=young))
        self._unready = {gang: self._unready.get(gang, now) for gang in waiting}
        late = [since + PATIENCE for since in self._unready.values() if since + PATIENCE > now]
        if not late:
            return NOTHING
        self._deadline = min(min(late).timestamp(), self._deadline or float("inf"))
        return Plan(again=min(late))

    def _refuse(self, gang: str, reason: Reason, now: datetime) -> Plan:
        """The waiting pods of a gang, and its PodGroup where it has one, say why; gated pods say so themselves."""
        snapshot = self.snapshot
        keys = [key for key in sorted(snapshot.members.get(gang, ())) if key not in snapshot.requests]
        specs = ((key, snapshot.pods[key]["spec"]) for key in keys)
        pods = [snapshot.pods[key] for key, said in specs if not (said.get("nodeName") or said.get("schedulingGates"))]
        kind, group = snapshot.groups.get(gang, (None, {}))
        plan = outcomes.refuse(group, reason, now) if kind == POD_GROUP else NOTHING
        if dig(group, "spec", "markUnschedulable") is False:
            return plan
        return plan + outcomes.tell_pods(pods, outcomes.pod_message(reason, len(snapshot.state.nodes)), now)


def _for_nodes(why: Reason, *, young: bool) -> bool:
    """Whether a gang waits for nodes that are on their way: `young` when the last has just come."""
    return (why.code, why.verdict) == ("NodesUnready", WAITING) or (young and why.code == "NeverFits")


def _next_look(decisions: Decisions, now: float) -> float | None:
    """What was done may help others at once, also when no event comes of it."""
    soon = now + SECOND_LOOK.total_seconds() if decisions.binds or decisions.evictions else None
    return min((moment for moment in (soon, decisions.deadline) if moment is not None), default=None)


def _gang_of(request: Document) -> str:
    return f"{namespace_of(request)}/{annotations_of(request).get(labels.POD_GROUP, '')}"


def _gang(bind: Bind) -> str:
    return bind.gang
