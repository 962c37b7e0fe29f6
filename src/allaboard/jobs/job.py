"""A Job becomes Pods, and pods that end become its status: one pass, from top to bottom.

Upstream: the Job controller of kube-controller-manager; order and texts are its.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.meta import asks_the_same, condition_of, namespace_of, stamp
from allaboard.jobs import accounting, workforce
from allaboard.jobs.backoff import FRESH, Record
from allaboard.jobs.members import TRACKING, Member
from allaboard.jobs.tally import Order, Tally, count, read_order
from allaboard.jobs.template import pod_of
from allaboard.jobs.verdict import FINAL, Verdict, completed, deadline_of, is_finished, reach
from allaboard.jobs.workforce import Change
from allaboard.kube.client import PatchType
from allaboard.kube.plan import NOTHING, Create, Delete, Event, Patch, Plan, Status

CONTROLLER = "kubernetes.io/job-controller"
COUNTS = ("active", "ready", "terminating")


@dataclass(frozen=True, slots=True)
class Chance:
    """What a decision cannot know by itself: the time, what failed before, and how to name pods."""

    now: datetime
    record: Record = FRESH
    suffix: Callable[[], str] = lambda: "xxxxx"
    hold: datetime | None = None  # make no pods before this: the server refused the last ones
    gathering: datetime | None = None  # hire nobody and send nobody home before this: others may be ending, too


def is_ours(job: Document) -> bool:
    """Somebody else may have been asked to run this Job."""
    return bool(job["spec"].get("managedBy", CONTROLLER) == CONTROLLER)


def only_counts(old: Document, new: Document) -> bool:
    """Whether a Job changed in nothing but how many of its pods do what: a pass counts them itself.

    When it started matters where it has a deadline.
    """
    counts = COUNTS if "activeDeadlineSeconds" in new["spec"] else (*COUNTS, "startTime")
    before, after = (
        {name: value for name, value in (job.get("status") or {}).items() if value and name not in counts}
        for job in (old, new)
    )
    return before == after and asks_the_same(old, new)


def decide(job: Document, members: Sequence[Member], chance: Chance) -> Plan:
    """One pass over a Job: count, judge, change the workforce, account, write down."""
    if is_finished(job):
        return NOTHING
    order = read_order(job)
    tally = count(order, members)
    verdict = reach(tally, chance.now)
    change, managed = _change(tally, verdict, chance)
    if chance.gathering is not None and chance.now < chance.gathering and _is_hasty(order, verdict, change):
        return Plan(again=chance.gathering)
    active = len(tally.active) - len(change.remove) + len(change.make)
    surplus = NOTHING
    if verdict is None and (verdict := completed(tally, active)):
        managed, surplus = False, _surplus(tally)
    story = _Story(tally, verdict, change, active)
    plan = _pods(story, chance) + _books(story, chance, managed=managed) + surplus
    # A replacement carries its forerunner's failures on; the pass after this one lets the forerunner go.
    freed = chance.now if any(index in tally.held for index in change.make) else None
    again = [moment for moment in (change.again, _deadline(order, verdict, chance.now), freed) if moment is not None]
    return plan + Plan(again=min(again)) if again else plan


def _is_hasty(order: Order, verdict: Verdict | None, change: Change) -> bool:
    """Whether the first of several pods that end together would decide who goes home, or who takes its place."""
    if verdict is None:
        return bool(change.make)
    return bool(change.remove) and condition_of(order.job, verdict.interim) is None


def _change(tally: Tally, verdict: Verdict | None, chance: Chance) -> tuple[Change, bool]:
    if verdict is not None:
        return workforce.dismiss(tally), False
    if tally.order.leaving:
        return Change(), False
    change = workforce.manage(tally, chance.record, chance.now)
    if change.make and chance.hold is not None and chance.hold > chance.now:
        change = Change(again=chance.hold)
    return change, True


def _surplus(tally: Tally) -> Plan:
    if tally.order.completions is None or tally.succeeded <= tally.order.completions:
        return NOTHING
    words = "Too many succeeded pods running after completion count reached"
    return Plan(events=(Event(tally.order.job, "TooManySucceededPods", words, "Warning"),))


def _deadline(order: Order, verdict: Verdict | None, now: datetime) -> datetime | None:
    return deadline_of(order, now) if verdict is None else None


@dataclass(frozen=True, slots=True)
class _Story:
    """What this pass found and wants."""

    tally: Tally
    verdict: Verdict | None
    change: Change
    active: int


def _pods(story: _Story, chance: Chance) -> Plan:
    """New pods, and pods sent home; those taken out of the count lose their finalizer first."""
    order, change = story.tally.order, story.change
    if not change.make and not change.remove:
        return NOTHING
    made = [
        pod_of(order, index, chance.suffix(), story.tally.held.get(index) if index is not None else None)
        for index in change.make
    ]
    key = namespace_of(order.job)
    words = [("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") for pod in made]
    words += [("SuccessfulDelete", f"Deleted pod: {member.name}") for member in change.remove]
    return Plan(
        create=tuple(Create(kinds.POD, pod) for pod in made),
        patch=tuple(map(untrack, change.remove)) if change.uncounted else (),
        delete=tuple(Delete(kinds.POD, Key(key, member.name), member.uid) for member in change.remove),
        events=tuple(Event(order.job, reason, message, is_fact=True) for reason, message in words),
    )


def untrack(member: Member) -> Patch:
    """Take the tracking finalizer from a pod, and nothing else."""
    body = {"metadata": {"uid": member.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}
    return Patch(kinds.POD, Key(namespace_of(member.document), member.name), body, PatchType.STRATEGIC)


def _books(story: _Story, chance: Chance, *, managed: bool) -> Plan:
    """Account for the ended pods and write the status, if it says anything new."""
    tally, verdict, order = story.tally, story.verdict, story.tally.order
    account = accounting.open_account(tally, verdict)
    conditions, events = _conditions(order, verdict, chance.now, managed=managed)
    memory = accounting.remembered(order, tally, account)
    status = {**order.status, **_counts(story), **memory, "conditions": conditions}
    if order.indexed:
        status["succeeded"] = tally.succeeded
    known = not account.released or _is_written(order, memory, verdict)
    plan = NOTHING
    if known:
        plan = Plan(patch=tuple(map(untrack, account.released)))
        status |= accounting.settle(order, tally, account)
        if verdict and not account.is_full and _is_drained(status):
            status, last = _finished(status, verdict, chance.now)
            events = [*events, _farewell(order.job, last)]
    status["startTime"] = _start(order, chance.now, {event.reason for event in events})
    status = _trimmed(status)
    if status != order.status:
        plan += Plan(status=(Status(kinds.JOB, {**order.job, "status": status}),), events=tuple(events))
    return plan


def _is_written(order: Order, memory: Document, verdict: Verdict | None) -> bool:
    """The server already knows everything that taking a finalizer would make us forget."""
    if verdict is not None and condition_of(order.job, verdict.interim) is None:
        return False
    return all((order.status.get(key) or type(value)()) == value for key, value in memory.items())


def _is_drained(status: Document) -> bool:
    """The final condition waits for the last terminating pod and the last uncounted one."""
    return not (status["uncountedTerminatedPods"] or status["terminating"] or status["active"])


def _counts(story: _Story) -> Document:
    change = story.change
    return {
        "active": story.active,
        "ready": story.tally.ready - change.removed_ready,
        "terminating": story.tally.terminating + len(change.remove),
    }


def _start(order: Order, now: datetime, news: set[str]) -> str | None:
    """A Job put to sleep has not started; a resumed one starts anew, so that its deadline does too."""
    known = order.status.get("startTime")
    if order.suspended:
        return None if "Suspended" in news else known
    return stamp(now) if "Resumed" in news or known is None else str(known)


def _conditions(
    order: Order, verdict: Verdict | None, now: datetime, *, managed: bool
) -> tuple[list[Document], list[Event]]:
    """The interim condition of a decided Job, or whether an undecided one is suspended."""
    conditions: list[Document] = list(order.status.get("conditions") or ())
    if verdict is not None:
        if condition_of(order.job, verdict.interim) is None:
            conditions.append(_condition(verdict.interim, verdict, now))
        return conditions, []
    if not managed:
        return conditions, []
    old = condition_of(order.job, "Suspended")
    if order.suspended == (old is not None and old["status"] == "True"):
        return conditions, []
    word = "suspended" if order.suspended else "resumed"
    new = {
        "type": "Suspended",
        "status": str(order.suspended),
        "reason": f"Job{word.capitalize()}",
        "message": f"Job {word}",
        "lastProbeTime": stamp(now),
        "lastTransitionTime": stamp(now),
    }
    conditions = [condition for condition in conditions if condition is not old] + [new]
    return conditions, [Event(order.job, word.capitalize(), f"Job {word}", is_fact=True)]


def _condition(type_: str, verdict: Verdict, now: datetime) -> Document:
    moment = stamp(now)
    return {
        "type": type_,
        "status": "True",
        "reason": verdict.reason,
        "message": verdict.message,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }


def _finished(status: Document, verdict: Verdict, now: datetime) -> tuple[Document, Document]:
    last = _condition(FINAL[verdict.interim], verdict, now)
    done = {**status, "conditions": [*status["conditions"], last]}
    if not verdict.is_failure:
        done["completionTime"] = stamp(now)
    return done, last


def _farewell(job: Document, last: Document) -> Event:
    if last["type"] == "Complete":
        return Event(job, "Completed", "Job completed")
    return Event(job, last["reason"], last["message"], "Warning")


def _trimmed(status: Document) -> Document:
    """Counters of zero and empty texts are not written; `ready`, `terminating` and `failedIndexes` always are."""
    always = ("ready", "terminating", "uncountedTerminatedPods", "failedIndexes")
    return {key: value for key, value in status.items() if value or (key in always and value is not None)}
