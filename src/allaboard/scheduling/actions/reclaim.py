"""Reclaim: a queue below its fair share takes back what other queues hold above theirs."""

from __future__ import annotations

from allaboard.scheduling.fairness import Reclaimer, may_reclaim
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import Offer, solve_each


def reclaim(session: Session) -> None:
    solve_each(session, session.candidates(), lambda gang: offer(session, gang))


def offer(session: Session, gang: GangRow) -> Offer | None:
    queues, wanted = session.state.queues, session.request(gang)
    if not may_reclaim(queues, gang, wanted):
        return None
    reclaimer = Reclaimer(session.state, gang, wanted, session.policy.proportion.saturation)
    leaves = [row for row in sorted(session.standing().evictable) if row != gang.queue and reclaimer.may_take_from(row)]
    if not leaves and not session.policy.signatures:
        return None
    return Offer(leaves, lambda victim: True, reclaimer.is_fair)
