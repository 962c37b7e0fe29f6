"""The end of a cycle: what it decided becomes fact, what it only promised is taken back, and use is remembered."""

from __future__ import annotations

from allaboard.scheduling import accounts
from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ALLOCATED, GangRow
from allaboard.scheduling.queues import Amounts, Holdings
from allaboard.scheduling.state import State
from allaboard.scheduling.tasks import NOWHERE, Place

WAITING = Place(NOWHERE, Status.PENDING, ())


def settle(state: State, origin: dict[int, Status], holdings: Holdings) -> None:
    """A cycle ends: promises are taken back, and what is bound or leaving is counted as a fact."""
    state.queues.restore(holdings)
    tasks = state.tasks
    sums: dict[tuple[GangRow, PodClass, Status, Status], int] = {}
    for row, before in origin.items():
        _land(state, row, before)
        tasks.virtual[row] = False
        gang, klass, now = tasks.members[row].gang, tasks.klass[row], tasks.status[row]
        if now == before or gang.queue < 0:
            continue
        if klass.shared:
            held = accounts.held(tasks, state.nodes, row) if tasks.node[row] >= 0 else klass.quota
            _recount(state, gang, (held, klass), (before, now))
        else:
            key = (gang, klass, before, now)
            sums[key] = sums.get(key, 0) + 1
    for (gang, klass, before, now), count in sums.items():
        _recount(state, gang, (klass.quota, klass), (before, now), count)
    state.nodes.tidy()
    for gang in {tasks.members[row].gang for row in origin}:
        state.review(gang)


def forget_classes(state: State) -> None:
    """Classes nobody has any more are forgotten, once there are many."""
    if state.classes.is_crowded:
        held = zip(state.tasks.fact, state.tasks.klass)
        state.classes.keep_only({klass for task, klass in held if task is not None})


def _land(state: State, row: int, before: Status) -> None:
    """Where a touched task really stands: on the place it is leaving, on the one it is bound to, or nowhere."""
    tasks, nodes = state.tasks, state.nodes
    status, klass, places = tasks.status[row], tasks.klass[row], tasks.ghosts.lay(row)
    if status == Status.PIPELINED or places:
        nodes.vacate(tasks.node[row], klass, status, tasks.groups[row])
        home, *others = places or [WAITING]
        tasks.mark(row, home)
        for place in others:
            nodes.vacate(place.node, klass, place.status, place.groups)
    if tasks.status[row] == Status.RELEASING and before == Status.PENDING:
        nodes.vacate(tasks.node[row], klass, Status.RELEASING, tasks.groups[row])
        tasks.mark(row, WAITING)


def _recount(
    state: State, gang: GangRow, worth: tuple[Amounts, PodClass], change: tuple[Status, Status], times: int = 1
) -> None:
    """Equal tasks of a gang went from one status to another."""
    held, klass = worth
    for status, sign in zip(change, (-times, times)):
        amounts = held if IS_ALLOCATED[status] else klass.asked_quota(state.nodes.smallest_memory)
        accounts.count(state.queues, gang, status, amounts, sign)


def remember_usage(state: State, now: float, half_life: float) -> None:
    """Count what queues held since the last cycle, and let older use fade: other shares, so all who wait may hope."""
    queues = state.queues
    holdings = dict(zip(queues.names, queues.allocated))
    state.memory.ledger = state.memory.ledger.after(now, holdings, state.totals(), half_life)
    for row, queue in enumerate(queues.facts):
        cpu, memory, gpu = (told + seen for told, seen in zip(queue.usage, state.memory.ledger.part(queue.name)))
        queues.usage[row] = (cpu, memory, gpu)
    state.memory.relief += 1
