"""Promises of the last cycle are kept first: who was moved, and for whom, take the places they were promised.

KAI forgets what it promised. A victim that was moved to make room may then be packed back onto the very node it left,
before the gang it made room for is asked, and both are moved again in the next cycle, without end.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.decisions import Promise
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State


def remember(state: State, promises: Iterable[Promise]) -> None:
    """What this cycle promised; gangs that have all their tasks placed need no promise any more."""
    fresh: dict[str, list[str]] = {}
    for promise in promises:
        fresh.setdefault(promise.gang, []).append(promise.node)
    for name, gang in state.gangs.items() if fresh or state.promises else ():
        gang.promised = tuple(fresh.get(name, ())) if name in fresh or not gang.pending() else gang.promised
    state.promises = bool(fresh) or any(gang.promised for gang in state.waiting.values())


def keep(session: Session) -> None:
    """Give promised gangs the idle room of their nodes, each whole or not at all; others are asked as usual."""
    if session.policy.exact or not session.state.promises:
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
    rows = sorted({index[node] for node in gang.promised if node in index})
    chosen = to_place(session.state, gang)
    if not rows or session.panel.objection(gang, session.amounts(chosen)) is not None:
        return 0
    fresh = gang.active() == 0
    # A topology is asked about all nodes, as domains wider than the given nodes count as having nothing.
    among = None if gang.only is None or _is_bound(gang) else np.array(rows, dtype=np.intp)
    with session.statement() as statement:
        seated = Boarding(session, statement, gang, chosen).run(among)
        if not seated or not {session.state.node[row] for tasks in chosen.values() for row in tasks} <= set(rows):
            return 0
        # What is not free yet stays promised, before somebody else is given the part that is.
        waits = any(leaf.count[Status.PIPELINED] for leaf in gang.leaves)
        if waits and gang.must_pipeline():
            statement.to_pipelined(gang)
        statement.commit()
    if fresh and not waits:
        session.first_start(gang)
    return sum(map(len, chosen.values()))


def _is_bound(gang: GangRow) -> bool:
    return gang.tree.constraint is not None or any(leaf.constraint is not None for leaf in gang.leaves)
