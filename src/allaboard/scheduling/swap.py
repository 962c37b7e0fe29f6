"""One for one: a single task takes the place of a single task, without the machinery of a search.

When no GPU is loose anywhere, a gang that waits for one plain task can only start where somebody leaves, and the first
in line to go is the first the search would try. If that settles it, the end is the same as that of a search;
otherwise nothing has happened and the search begins.
"""

from __future__ import annotations

from collections.abc import Callable

from allaboard.scheduling.classes import GPU, PodClass
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.nodes import EPSILON
from allaboard.scheduling.policy import LOCAL
from allaboard.scheduling.scenario import Rule, Scenario
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.statement import Statement
from allaboard.scheduling.victims import VictimOrder


def swap(session: Session, gang: GangRow, order: Callable[[], VictimOrder], rule: Rule) -> Statement | None:
    """An open statement in which the gang's task is promised the place of the next victim, or None."""
    wants = _alone(session, gang)
    if wants is None or wants.gpu_wish <= 0 or not _is_full(session):
        return None
    group = order().group(frozenset())
    if group is None or len(group[1]) != 1:
        return None
    victim, (leaving,) = group
    holds, node = _alone(session, victim), session.state.tasks.node[leaving]
    allowed = session.panel.fits(wants)
    if holds is None or holds.gpu_wish < wants.gpu_wish or not (allowed is None or allowed[node]):
        return None
    return _attempt(session, (gang, wants), (victim, holds, leaving), rule)


def _attempt(
    session: Session, claim: tuple[GangRow, PodClass], loss: tuple[GangRow, PodClass, int], rule: Rule
) -> Statement | None:
    (gang, wants), (victim, holds, leaving) = claim, loss
    state, node, pending = (
        session.state,
        session.state.tasks.node[leaving],
        to_place(session.state, gang, simulated=True),
    )
    statement = session.statement(gang)
    session.trials += 1
    statement.evict(leaving)
    session.robbed -= {victim}
    comes_first = next(iter(session.replay_order({gang, victim}))) is gang
    if comes_first and state.nodes.has_room(wants, node) and not session.panel.objection(gang, wants.quota):
        statement.pipeline(next(iter(pending.values())), [node])
        settled = not state.nodes.has_room(holds, node) and gang.is_satisfied()
        if settled and rule(Scenario(gang, pending, [leaving])):
            return statement
    statement.rollback(0)
    return None


def _alone(session: Session, gang: GangRow) -> PodClass | None:
    """The class of the only task of an unconstrained gang, if placing it is arithmetic."""
    leaf = gang.only
    if leaf is None or len(leaf.rows) != 1 or leaf.klass is None or leaf.constraint or gang.tree.constraint:
        return None
    if leaf.klass.best_effort or leaf.klass.demand.obstacle:
        return None
    return leaf.klass if session.panel.packs(leaf.klass) else None


def _is_full(session: Session) -> bool:
    """Whether no GPU is idle or being released anywhere, no node owes any, and nothing asks for a search."""
    nodes, policy = session.state.nodes, session.policy
    if nodes.sharing or nodes.may_owe or session.reservation or not len(nodes):
        return False
    if policy.fewest_victims or policy.thorough or LOCAL not in policy.generators:
        return False
    return bool(nodes.free(GPU).max() <= EPSILON)
