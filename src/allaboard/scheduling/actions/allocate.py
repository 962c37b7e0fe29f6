"""Allocate: give free capacity to the gangs that wait for it, in fair order."""

from __future__ import annotations

from allaboard.scheduling.boarding import board
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session


def allocate(session: Session) -> None:
    """A gang that still has pending tasks after a success is asked again: elastic gangs grow one task at a time."""
    order = session.waiting()
    while (gang := order.pop()) is not None:
        fresh = gang.active() == 0
        with session.statement() as statement:
            chosen = to_place(session.state, gang)
            if refusal := board(session, statement, gang, chosen):
                session.refuse(gang, refusal)
                continue
            statement.commit()
        if fresh and not any(leaf.count[3] for leaf in gang.leaves):
            session.first_start(gang)
        if gang.pending():
            order.push(session.gang_key(gang), gang)
