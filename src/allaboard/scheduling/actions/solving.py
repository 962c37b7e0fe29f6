"""What consolidation, reclaim and preempt share: ask each waiting gang in fair order, and commit what the solver finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.scenario import Rule, Solver
from allaboard.scheduling.session import Session
from allaboard.scheduling.victims import VictimOrder

Attempt = Callable[[GangRow], "Offer | None"]


class Offer:
    """Whose tasks may be taken for a gang, and the rule that has the last word."""

    def __init__(self, leaves: list[int], willing: Callable[[GangRow], bool], rule: Rule) -> None:
        self.leaves, self.willing, self.rule = leaves, willing, rule


def solve_each(session: Session, gangs: Iterable[GangRow], offer: Attempt) -> None:
    order = session.waiting(gangs)
    standing = session.standing()
    while (gang := order.pop()) is not None:
        found = offer(gang)
        if found is None:
            continue

        def victims(found: Offer = found) -> VictimOrder:
            return VictimOrder(standing, session.rule, found.leaves, found.willing, session.gang_key)

        statement = Solver(session, gang, victims, found.rule).solve()
        if statement is not None:
            touched = statement.touched()
            statement.commit()
            session.settled(touched)
            session.reasons.pop(gang.name, None)
