"""Preempt: inside one queue, work of strictly lower priority makes room for a waiting gang."""

from __future__ import annotations

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import Offer, solve_each


def preempt(session: Session) -> None:
    solve_each(session, session.candidates(), lambda gang: offer(session, gang))


def offer(session: Session, gang: GangRow) -> Offer | None:
    if session.standing().lowest_priority(gang.queue) >= gang.priority:
        return None
    wanted = to_place(session.state, gang, simulated=True)
    if session.panel.quota_objection(gang, session.amounts(wanted)) is not None:
        return None
    return Offer([gang.queue], lambda victim: victim.priority < gang.priority, lambda scenario: True)
