"""Allocate: give free capacity to the gangs that wait for it, in fair order."""

from __future__ import annotations

from allaboard.scheduling.boarding import board
from allaboard.scheduling.explain import Stuck
from allaboard.scheduling.gangs import PIPELINED, GangRow
from allaboard.scheduling.promises import keep
from allaboard.scheduling.reservation import is_large, reserve
from allaboard.scheduling.selection import only_class, to_place
from allaboard.scheduling.session import Session


def allocate(session: Session) -> None:
    """A gang that still has pending tasks after a success is asked again: elastic gangs grow one task at a time."""
    keep(session)
    order = session.waiting()
    while (gang := order.pop()) is not None:
        fresh = gang.active() == 0
        with session.statement() as statement:
            chosen = to_place(session.state, gang)
            if refusal := board(session, statement, gang, chosen):
                session.refusals.add(gang, refusal)
                if isinstance(refusal, Stuck):
                    _reserve(session, gang, refusal)
                continue
            statement.commit()
        if fresh and not any(leaf.count[PIPELINED] for leaf in gang.leaves):
            session.first_start(gang)
        if gang.pending():
            order.push(session.panel.gang_key(gang), gang)


def _reserve(session: Session, gang: GangRow, stuck: Stuck) -> None:
    """Keep nodes for the first large gang that has waited long enough; one at a time, and only where its kind fits."""
    after, seen = session.policy.reserve_after, session.refusals.survey(stuck)
    alone = only_class(session.state, gang, to_place(session.state, gang)) is not None
    if after is None or session.reservation or not alone or not is_large(stuck.klass, stuck.wanted):
        return
    if seen.slots_empty < stuck.wanted:
        return
    ripe = gang.fact.created + after
    if session.now < ripe:
        session.wake(ripe, gang)
        return
    session.reservation = reserve(session.state, gang, stuck.klass, stuck.wanted, session.panel.fits(stuck.klass))
