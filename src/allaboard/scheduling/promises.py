"""Promises of the last cycle are kept first: who was moved, and for whom, take the places they were promised.

KAI forgets what it promised. A victim that was moved to make room may then be packed back onto the very node it left,
before the gang it made room for is asked, and both are moved again in the next cycle, without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State


def remember(state: State, decisions: Decisions) -> None:
    """What this cycle promised. An older promise is for what is not bound yet, and ends when its gang is whole or has
    to make room itself."""
    fresh = _by_gang((promise.gang, promise.node) for promise in decisions.pipelined)
    if not fresh and not state.memory.promises:
        return
    bound = _by_gang((bind.gang, bind.node) for bind in decisions.binds)
    evicted = {eviction.gang for eviction in decisions.evictions}
    for name, gang in state.gangs.items():
        if name in fresh or name in evicted or _is_whole(gang):
            gang.promised = tuple(fresh.get(name, ()))
        elif gang.promised and name in bound:
            gang.promised = tuple((Counter(gang.promised) - Counter(bound[name])).elements())
    state.memory.promises = any(gang.promised for gang in state.gangs.values())


def _is_whole(gang: GangRow) -> bool:
    """Whether nothing of it waits, nor is on its way out to be replaced."""
    return not gang.pending() and not any(leaf.count[Status.RELEASING] for leaf in gang.leaves)


def _by_gang(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for gang, node in pairs:
        found.setdefault(gang, []).append(node)
    return found


def keep(session: Session) -> None:
    """Give promised gangs the idle room of their nodes, each whole or not at all; others are asked as usual."""
    if session.policy.exact or not session.state.memory.promises:
        return
    left = {gang: len(gang.promised) for gang in session.candidates() if gang.promised}
    order = session.waiting(left)
    while (gang := order.pop()) is not None:
        seats = _keep(session, gang)
        left[gang] -= seats
        if seats and left[gang] > 0 and gang.pending():  # an elastic gang was promised more than its minimum
            order.push(session.panel.gang_key(gang), gang)


def _keep(session: Session, gang: GangRow) -> int:
    """How many of the tasks that come next have promised places now."""
    index = session.state.nodes.index
    seats = Counter(index[node] for node in gang.promised if node in index)
    chosen = to_place(session.state, gang)
    if not seats or session.panel.objection(gang, session.amounts(chosen)) is not None:
        return 0
    fresh = gang.active() == 0
    with session.statement() as statement:
        if not Boarding(session, statement, gang, chosen, seats=seats).run():
            return 0
        # What is not free yet stays promised, before somebody else is given the part that is.
        waits = any(leaf.count[Status.PIPELINED] for leaf in gang.leaves)
        if waits and gang.must_pipeline():
            statement.to_pipelined(gang)
        statement.commit()
    if fresh and not waits:
        session.first_start(gang)
    return sum(map(len, chosen.values()))
