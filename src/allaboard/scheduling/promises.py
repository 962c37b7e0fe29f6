"""Promises of the last cycle are kept first: who was moved, and for whom, take the places they were promised.

KAI forgets what it promised. A victim that was moved to make room may then be packed back onto the very node it left,
before the gang it made room for is asked, and both are moved again in the next cycle, without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.decisions import Bind, Decisions, Promise
from allaboard.scheduling.facts import Seat, Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State


def remember(state: State, decisions: Decisions) -> None:
    """What this cycle promised. An older promise is for what is not bound yet, and ends when its gang is whole or has
    to make room itself."""
    fresh = _by_gang(state, decisions.pipelined)
    if not fresh and not state.memory.promises:
        return
    bound = _by_gang(state, decisions.binds)
    evicted = {eviction.gang for eviction in decisions.evictions}
    for name, gang in state.gangs.items():
        if name in fresh or name in evicted or _is_whole(gang):
            gang.promised = tuple(fresh.get(name, ()))
        elif gang.promised and name in bound:
            gang.promised = tuple((Counter(gang.promised) - Counter(bound[name])).elements())
    state.memory.promises = any(gang.promised for gang in state.gangs.values())


def _is_whole(gang: GangRow) -> bool:
    """Whether nothing of it waits, nor is on its way out to be replaced, nor is gone altogether for a moment."""
    return bool(gang.rows) and not gang.pending() and not any(leaf.count[Status.RELEASING] for leaf in gang.leaves)


def _by_gang(state: State, placed: Iterable[Promise | Bind]) -> dict[str, list[Seat]]:
    found: dict[str, list[Seat]] = {}
    for place in placed:
        role = state.tasks.members[state.tasks.row_of[place.task]].name
        found.setdefault(place.gang, []).append(Seat(place.node, role))
    return found


Seats = Counter[tuple[str, int]]
"""How many tasks of a pod set were promised a node (its row)."""


def keep(session: Session) -> None:
    """Give promised gangs the idle room of their nodes, each whole or not at all; others are asked as usual."""
    if session.policy.exact or not session.state.memory.promises:
        return
    # An elastic gang was promised more than its minimum: it comes up again for the seats it has left.
    left = {gang: _seats(session.state, gang) for gang in session.candidates() if gang.promised}
    order = session.waiting(left)
    while (gang := order.pop()) is not None:
        taken = _keep(session, gang, left[gang])
        left[gang] -= taken
        if taken and left[gang] and gang.pending():
            order.push(session.panel.gang_key(gang), gang)


def _seats(state: State, gang: GangRow) -> Seats:
    index = state.nodes.index
    return Counter((seat.pod_set, index[seat.node]) for seat in gang.promised if seat.node in index)


def _keep(session: Session, gang: GangRow, seats: Seats) -> Seats:
    """The seats that the tasks which come next have now."""
    chosen = to_place(session.state, gang)
    if not seats or session.panel.objection(gang, session.amounts(chosen)) is not None:
        return Counter()
    fresh = gang.active() == 0
    with session.statement() as statement:
        if not Boarding(session, statement, gang, chosen, seats=seats).run():
            return Counter()
        # What is not free yet stays promised, before somebody else is given the part that is.
        waits = any(leaf.count[Status.PIPELINED] for leaf in gang.leaves)
        if waits and gang.must_pipeline():
            statement.to_pipelined(gang)
        statement.commit()
    if fresh and not waits:
        session.first_start(gang)
    return Counter((leaf.name, session.state.tasks.node[row]) for leaf, rows in chosen.items() for row in rows)
