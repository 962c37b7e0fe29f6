"""Stale-gang eviction: a gang that stays below its minimum for too long gives back what it holds."""

from __future__ import annotations

from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ACTIVE, GangRow
from allaboard.scheduling.session import Session


def evict_stale(session: Session) -> None:
    """The clock of a gang starts when it is first seen stale and stops when it is whole again."""
    state = session.state
    touched = {state.tasks.members[row].gang.name: state.tasks.members[row].gang for row in session.log.origin}
    for _, gang in sorted({**state.gangs.incomplete, **touched}.items()):
        if not is_stale(gang):
            if gang.stale_since is not None:
                gang.stale_since = session.stale[gang.name] = None
            continue
        if gang.stale_since is None:
            gang.stale_since = session.stale[gang.name] = session.now
        grace = session.policy.stale_grace if gang.fact.stale_grace is None else gang.fact.stale_grace
        if grace < 0:
            continue
        if session.now - gang.stale_since >= grace:
            _evict(session, gang)
        else:
            session.wake(gang.stale_since + grace)


def is_stale(gang: GangRow) -> bool:
    """Some pods run but not enough of them; one success ends the question for good."""
    return not any(leaf.count[Status.SUCCEEDED] for leaf in gang.leaves) and gang.used() > 0 and not gang.is_satisfied()


def _evict(session: Session, gang: GangRow) -> None:
    with session.statement(gang) as statement:
        for row in gang.rows:
            if IS_ACTIVE[session.state.tasks.status[row]]:
                statement.evict(row)
        statement.commit()
