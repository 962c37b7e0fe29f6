"""No pod is counted twice and none is forgotten: the status remembers a pod before its finalizer is taken away.

First the status names the ended pods (`uncountedTerminatedPods`, or their completion index); only a pass that
finds them written takes their finalizers and moves them into the counters. Whoever dies in between is repaired by
the next pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from allaboard.api.documents import Document
from allaboard.api.meta import condition_of
from allaboard.jobs import indexes, podfailure
from allaboard.jobs.members import Member
from allaboard.jobs.tally import Order, Tally, has_failed, has_place
from allaboard.jobs.verdict import Verdict

MOST_UNCOUNTED = 500  # uids in a status: about 20 KB


@dataclass(slots=True)
class Account:
    """What the status should remember, and which pods may lose their finalizer for it."""

    succeeded: list[str] = field(default_factory=list)  # uids, in the order they were written down
    failed: list[str] = field(default_factory=list)
    released: list[Member] = field(default_factory=list)
    is_full: bool = False  # more pods ended than one status names: the rest comes in the next pass


def open_account(tally: Tally, verdict: Verdict | None) -> Account:
    """Go through the tracked pods: name what ended, release what need not be tracked any more."""
    uncounted = tally.order.status.get("uncountedTerminatedPods") or {}
    account = Account(list(uncounted.get("succeeded") or ()), list(uncounted.get("failed") or ()))
    fresh = 0
    for member in tally.members:
        if not member.tracked or not _may_go(tally, member, verdict):
            continue
        if fresh >= MOST_UNCOUNTED:
            account.is_full = True
            break
        fresh += _name(account, tally, member, verdict)
        account.released.append(member)
    return account


def _may_go(tally: Tally, member: Member, verdict: Verdict | None) -> bool:
    if tally.order.leaving or verdict is not None or member.phase == "Succeeded":
        return True
    if not has_failed(tally.order, member):
        return False
    held = tally.held.get(member.place) if member.place is not None else None
    return held is None or held.uid != member.uid


def _name(account: Account, tally: Tally, member: Member, verdict: Verdict | None) -> bool:
    """Write an ended pod down, unless it is known or does not count."""
    order = tally.order
    if member.phase == "Succeeded" and member.uid not in tally.uncounted_failed:
        if order.indexed:  # its index in completedIndexes is memory enough
            return member in tally.succeeded_now
        known = member.uid in tally.uncounted_succeeded
        if not known:
            account.succeeded.append(member.uid)
        return not known
    if not _counts(tally, member, verdict) or member.uid in tally.uncounted_failed or not has_place(order, member):
        return False
    if not podfailure.judge(order.spec.get("podFailurePolicy"), member.document).counts:
        return False
    account.failed.append(member.uid)
    return True


def _counts(tally: Tally, member: Member, verdict: Verdict | None) -> bool:
    """A failing Job counts everyone it sends home; a succeeding one only who was gone before it sent anybody."""
    if verdict is not None and verdict.is_failure:
        return True
    if not has_failed(tally.order, member):
        return False
    return verdict is None or not member.leaving or _was_gone(tally, member, verdict)


def _was_gone(tally: Tally, member: Member, verdict: Verdict) -> bool:
    if condition_of(tally.order.job, verdict.interim) is not None:
        return False
    return member.phase == "Failed" or (member.place is not None and tally.held.get(member.place) is member)


def remembered(order: Order, tally: Tally, account: Account) -> Document:
    """The part of the status that must be written before any finalizer goes."""
    memory: Document = {"uncountedTerminatedPods": _uncounted(account.succeeded, account.failed)}
    if order.indexed:
        memory["completedIndexes"] = indexes.render(tally.completed)
        if tally.failed_indexes is not None:
            memory["failedIndexes"] = indexes.render(tally.failed_indexes)
    return memory


def settle(order: Order, tally: Tally, account: Account) -> Document:
    """The counters once the released pods have lost their finalizers: every pod named is counted for good."""
    tracked = {member.uid for member in tally.members if member.tracked} - {m.uid for m in account.released}
    succeeded = [uid for uid in account.succeeded if uid not in tracked]
    failed = [uid for uid in account.failed if uid not in tracked]
    counters = {"failed": order.status.get("failed", 0) + len(failed)}
    counters["succeeded"] = tally.succeeded if order.indexed else order.status.get("succeeded", 0) + len(succeeded)
    rest = _uncounted(_left(account.succeeded, succeeded), _left(account.failed, failed))
    return {**counters, "uncountedTerminatedPods": rest}


def _left(uids: Iterable[str], counted: Iterable[str]) -> list[str]:
    gone = set(counted)
    return [uid for uid in uids if uid not in gone]


def _uncounted(succeeded: list[str], failed: list[str]) -> Document:
    return {key: uids for key, uids in (("succeeded", succeeded), ("failed", failed)) if uids}
