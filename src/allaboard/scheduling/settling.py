"""The end of a cycle: what it decided becomes fact, what it only promised is taken back, and use is remembered."""

from __future__ import annotations

from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ALLOCATED, GangRow
from allaboard.scheduling.queues import Amounts, Holdings
from allaboard.scheduling.state import NOWHERE, State


def settle(state: State, origin: dict[int, Status], holdings: Holdings) -> None:
    """A cycle ends: promises are taken back, and what is bound or leaving is counted as a fact."""
    state.queues.restore(holdings)
    sums: dict[tuple[GangRow, PodClass, Status, Status], int] = {}
    for row, before in origin.items():
        _land(state, row, before)
        state.virtual[row] = False
        gang, klass, now = state.members[row].gang, state.klass[row], state.status[row]
        if now == before or gang.queue < 0:
            continue
        if klass.shared:
            held = state.accepted(row) if state.node[row] >= 0 else klass.quota
            _recount(state, gang, (held, klass), (before, now))
        else:
            key = (gang, klass, before, now)
            sums[key] = sums.get(key, 0) + 1
    for (gang, klass, before, now), count in sums.items():
        _recount(state, gang, (klass.quota, klass), (before, now), count)
    state.nodes.tidy()
    for gang in {state.members[row].gang for row in origin}:
        state.review(gang)


def _land(state: State, row: int, before: Status) -> None:
    """Where a touched task really stands: on the place it is leaving, on the one it is bound to, or nowhere."""
    status, klass, places = state.status[row], state.klass[row], state.ghosts.pop(row, [])
    if status == Status.PIPELINED or places:
        state.nodes.vacate(state.node[row], klass, status, state.groups[row])
        home, *others = places or [(NOWHERE, Status.PENDING, ())]
        state.mark(row, home[1], home[0], home[2])
        for node, held, groups in others:
            state.nodes.vacate(node, klass, held, groups)
    if state.status[row] == Status.RELEASING and before == Status.PENDING:
        state.nodes.vacate(state.node[row], klass, Status.RELEASING, state.groups[row])
        state.mark(row, Status.PENDING, NOWHERE, ())


def _recount(
    state: State, gang: GangRow, sums: tuple[Amounts, PodClass], change: tuple[Status, Status], count: int = 1
) -> None:
    """The same sums that `State.count` keeps, for equal tasks that went from one status to another."""
    held, klass = sums
    for status, sign in zip(change, (-count, count)):
        if IS_ALLOCATED[status]:
            state.queues.count(gang.queue, held, sign, preemptible=gang.preemptible)
            state.queues.request(gang.queue, held, sign)
        elif status == Status.PENDING:
            state.queues.request(gang.queue, klass.asked_quota(state.nodes.smallest_memory), sign)


def remember_usage(state: State, now: float, half_life: float) -> None:
    """Count what queues held since the last cycle, and let older use fade: other shares, so all who wait may hope."""
    queues = state.queues
    holdings = dict(zip(queues.names, queues.allocated))
    state.memory.ledger = state.memory.ledger.after(now, holdings, state.totals(), half_life)
    for row, queue in enumerate(queues.facts):
        cpu, memory, gpu = (told + seen for told, seen in zip(queue.usage, state.memory.ledger.part(queue.name)))
        queues.usage[row] = (cpu, memory, gpu)
    state.memory.relief += 1
