"""How many pods a Job should have now: which to make, which to let go, and when to look again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from allaboard.jobs import backoff, indexes
from allaboard.jobs.members import Member, is_ready, removal_rank
from allaboard.jobs.tally import Order, Tally, has_place

MOST_AT_ONCE = 500  # pods made or removed in one pass, so that a large Job does not starve small ones


@dataclass(slots=True)
class Change:
    """What to do with the pods of a Job in this pass."""

    make: list[int | None] = field(default_factory=list)  # one completion index (or None) per new pod
    remove: list[Member] = field(default_factory=list)
    uncounted: bool = False  # the removed pods are taken out of the count: no failure of theirs
    again: datetime | None = None

    @property
    def removed_ready(self) -> int:
        return sum(is_ready(member.document) for member in self.remove)


def dismiss(tally: Tally) -> Change:
    """The Job is decided: everybody who still works goes home, and is counted by the accounting."""
    return Change(remove=list(tally.active))


def manage(tally: Tally, record: backoff.Record, now: datetime) -> Change:
    """Too many go, too few come; both never happen in one pass."""
    order = tally.order
    if order.suspended:
        return _let_go(tally.active, now)
    wanted = _wanted(tally)
    surplus = _surplus(order, tally.active, max(len(tally.active) - wanted, 0))
    if surplus:
        return _let_go(surplus, now)
    missing = wanted - len(tally.active) - (tally.terminating if order.replace_failed_only else 0)
    if missing <= 0:
        return Change()
    change = _hire(tally, min(missing, MOST_AT_ONCE), record, now)
    if change.make and missing > MOST_AT_ONCE:
        change.again = now  # what a pass makes itself does not wake its Job
    return change


def _let_go(members: Sequence[Member], now: datetime) -> Change:
    again = now if len(members) > MOST_AT_ONCE else None
    return Change(remove=list(members[:MOST_AT_ONCE]), uncounted=True, again=again)


def _wanted(tally: Tally) -> int:
    order = tally.order
    if order.completions is None:  # a work queue: after the first success nobody new starts
        return len(tally.active) if tally.succeeded else order.parallelism
    return max(min(order.completions - tally.succeeded, order.parallelism), 0)


def _surplus(order: Order, active: Sequence[Member], at_least: int) -> list[Member]:
    leaving: list[Member] = []
    staying = list(active)
    if order.indexed:
        leaving, staying = _misplaced(order, active)
    if len(leaving) < at_least:
        staying.sort(key=removal_rank)
        leaving += staying[: at_least - len(leaving)]
    return leaving


def _misplaced(order: Order, active: Sequence[Member]) -> tuple[list[Member], list[Member]]:
    """Pods without a place of their own: of twins the one that got furthest stays."""
    leaving, kept = [], {}
    for member in active:
        if not has_place(order, member):
            leaving.append(member)
        elif member.place not in kept:
            kept[member.place] = member
        else:
            worse, better = sorted((kept[member.place], member), key=removal_rank)
            leaving.append(worse)
            kept[member.place] = better
    return leaving, list(kept.values())


def _hire(tally: Tally, missing: int, record: backoff.Record, now: datetime) -> Change:
    order = tally.order
    if order.per_index is None:
        moment = backoff.due(record)
        if moment is not None and moment > now:
            return Change(again=moment)
    if not order.indexed:
        return Change(make=[None] * missing)
    free = indexes.first_free(_taken(tally), missing, order.completions or 0)
    if order.per_index is None:
        return Change(make=list(free))
    return _hire_by_index(tally, free, now)


def _hire_by_index(tally: Tally, free: Sequence[int], now: datetime) -> Change:
    """Each index waits its own time after its own failures."""
    waits = {index: backoff.due_for_index(tally.held.get(index)) for index in free}
    later = {index: moment for index, moment in waits.items() if moment is not None and moment > now}
    return Change(make=[index for index in free if index not in later], again=min(later.values(), default=None))


def _taken(tally: Tally) -> set[int | None]:
    taken = {member.place for member in tally.active} | tally.completed | (tally.failed_indexes or frozenset())
    if tally.order.replace_failed_only:
        taken |= {member.place for member in tally.members if member.is_terminating}
    return taken
