"""Consolidation: move preemptible work together so that a waiting gang finds room; nobody loses a place."""

from __future__ import annotations

from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.scenario import Scenario
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import Offer, solve_each

EPSILON = 1e-9


def consolidate(session: Session) -> None:
    """Only for preemptible gangs whose request would fit what is free in the whole cluster."""
    if session.policy.consolidation_victims == 0:
        return
    gangs = [gang for gang in session.candidates() if gang.preemptible]
    if not any(_could_fit(session, gang) for gang in gangs):
        return
    solve_each(session, gangs, lambda gang: offer(session, gang))


def _could_fit(session: Session, gang: GangRow) -> bool:
    state, nodes, leaf = session.state, session.state.nodes, gang.only
    if leaf is not None and leaf.klass is not None and leaf.klass.gpu_wish > session.loose_gpus() + EPSILON:
        return False
    rows = [row for rows in to_place(state, gang, simulated=True).values() for row in rows]
    gpus = sum(state.tasks.klass[row].gpu_wish for row in rows)
    memory = sum(state.tasks.klass[row].memory for row in rows)
    if session.loose_gpus() + EPSILON < gpus:
        return False
    return memory == 0 or sum(nodes.gpus_at(row)[1] for row in range(len(nodes))) >= memory


def offer(session: Session, gang: GangRow) -> Offer | None:
    """Every other preemptible gang may be moved, if what is free in the whole cluster would do."""
    if not _could_fit(session, gang):
        return None
    leaves = sorted(session.standing().evictable)
    limit = max(session.policy.consolidation_victims, 0)
    return Offer(leaves, lambda victim: victim is not gang, lambda scenario: _all_placed(session, scenario), limit)


def _all_placed(session: Session, scenario: Scenario) -> bool:
    return all(session.state.tasks.status[row] != Status.RELEASING for row in scenario.victims)
