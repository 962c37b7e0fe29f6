"""What consolidation, reclaim and preempt share: ask each waiting gang in fair order, and commit what the solver
finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.scenario import Rule, Scenario, Solver
from allaboard.scheduling.session import Session
from allaboard.scheduling.signatures import Failures
from allaboard.scheduling.swap import swap
from allaboard.scheduling.victims import Circle, VictimOrder


@dataclass(frozen=True, slots=True)
class Offer:
    """Whose tasks may be taken for a gang, the rule that has the last word, and how many gangs may be asked (0:
    all)."""

    leaves: list[int]
    willing: Callable[[GangRow], bool]
    rule: Rule
    limit: int = 0


def solve_each(session: Session, gangs: Iterable[GangRow], offer: Callable[[GangRow], Offer | None]) -> None:
    order = session.waiting(gangs)
    session.robbed = set()
    failures = Failures(session.state, shared=session.action == "consolidation") if session.policy.signatures else None
    while (gang := order.pop()) is not None:
        found = offer(gang) if gang not in session.robbed and not (failures and failures.rule_out(gang)) else None
        if found is None:
            if failures and session.action != "reclaim":
                failures.remember(gang)
            continue
        order_of, rule = victims_of(session, gang, found), rule_of(session, gang, found)
        statement = swap(session, gang, order_of, rule)
        if statement is None:
            solver = Solver(session, gang, order_of, rule)
            statement = solver.solve()
        if statement is not None:
            touched = statement.touched()
            statement.commit()
            session.robbed.update(
                victim for victim in touched if any(leaf.count[Status.RELEASING] for leaf in victim.leaves)
            )
            session.settled(touched)
            session.refusals.take_back(gang)
            continue
        if failures:
            failures.remember(gang)
        if solver.gave_up:
            session.refusals.give_up(gang, session.trials)


def solver_for(session: Session, gang: GangRow, offer: Offer) -> Solver:
    return Solver(session, gang, victims_of(session, gang, offer), rule_of(session, gang, offer))


def victims_of(session: Session, gang: GangRow, offer: Offer) -> Callable[[], VictimOrder]:
    """Gangs that are willing and not spared; elastic ones may always shrink to their minimum."""

    exact, grows = session.policy.exact, _grows(session, gang)

    def willing(victim: GangRow) -> bool:
        if not offer.willing(victim) or not (exact or _is_settled(victim)):
            return False
        return not (grows or session.is_protected(victim, gang)) or _is_elastic(victim)

    circle = Circle(offer.leaves, willing, offer.limit)
    return partial(VictimOrder, session.standing(), session.rule, circle, session.panel.gang_key)


def _is_settled(gang: GangRow) -> bool:
    """Whether it has nothing that is promised or being bound. KAI takes promises and fresh places away again in the
    same cycle; we keep them, so that nobody is evicted for a gang that is not placed in the end, and no gang is
    bound by half because a part of it was moved before it started.
    """
    return not any(leaf.count[Status.PIPELINED] or leaf.count[Status.BINDING] for leaf in gang.leaves)


def _grows(session: Session, gang: GangRow) -> bool:
    """Whether a gang that has its minimum wants more of its own queue: it gets what others have beyond theirs, and
    breaks nobody. KAI breaks whoever has a lower priority; three gangs of two queues could chase each other for ever.
    """
    return session.action == "preempt" and not session.policy.exact and gang.elasticity() > 0


def _is_elastic(gang: GangRow) -> bool:
    return any(leaf.minimum < len(leaf.rows) for leaf in gang.leaves)


def rule_of(session: Session, gang: GangRow, offer: Offer) -> Rule:
    grows = _grows(session, gang)

    def fair(scenario: Scenario) -> bool:
        members = session.state.tasks.members
        for victim in {members[row].gang for row in scenario.victims}:
            if (grows or session.is_protected(victim, gang)) and victim.elasticity() == 0:
                return False
        return offer.rule(scenario)

    return fair
