"""Whether a Job is decided, and why: the rules in the order they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.meta import condition_of, is_true, moment_of
from allaboard.jobs import indexes, podfailure
from allaboard.jobs.members import restarts
from allaboard.jobs.tally import Order, Tally, has_failed

FAILURE, SUCCESS = "FailureTarget", "SuccessCriteriaMet"
FINAL = {FAILURE: "Failed", SUCCESS: "Complete"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end a Job goes to; the final condition follows when the last pod is accounted for."""

    interim: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        return self.interim == FAILURE


COMPLETIONS = Verdict(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF = Verdict(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = Verdict(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
MANY_INDEXES = Verdict(
    FAILURE, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES = Verdict(FAILURE, "FailedIndexes", "Job has failed indexes")


def is_finished(job: Document) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def reach(tally: Tally, now: datetime) -> Verdict | None:
    """The first rule with an opinion wins; what was once decided stays decided."""
    for rule in (_decided, _policy, _limit, _deadline, _failed_indexes, _success_policy):
        if verdict := rule(tally, now):
            return verdict
    return None


def _decided(tally: Tally, _now: datetime) -> Verdict | None:
    for interim in (SUCCESS, FAILURE):
        condition = condition_of(tally.order.job, interim)
        if condition and condition["status"] == "True":
            return Verdict(interim, condition.get("reason", ""), condition.get("message", ""))
    return None


def _policy(tally: Tally, _now: datetime) -> Verdict | None:
    """A pod the Job itself let go (no longer tracked, on its way out) is not asked how it ended."""
    policy = tally.order.spec.get("podFailurePolicy")
    for member in tally.members if policy else ():
        if has_failed(tally.order, member) and (member.tracked or not member.leaving):
            finding = podfailure.judge(policy, member.document)
            if finding.action == "FailJob":
                return Verdict(FAILURE, "PodFailurePolicy", finding.message)
    return None


def _limit(tally: Tally, _now: datetime) -> Verdict | None:
    order = tally.order
    if tally.failed > order.limit:
        return BACKOFF
    if order.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return None
    # Containers that start again in place spend the same budget.
    spent = sum(restarts(member.document) for member in tally.members if member.phase in ("Running", "Pending"))
    return BACKOFF if spent >= max(order.limit, 1) else None


def deadline_of(order: Order, now: datetime) -> datetime | None:
    """When an active Job has been active too long; one that was not started yet starts now."""
    seconds, start = order.spec.get("activeDeadlineSeconds"), order.status.get("startTime")
    if seconds is None or order.suspended:
        return None
    return (moment_of(start) if start else now) + timedelta(seconds=seconds)


def _deadline(tally: Tally, now: datetime) -> Verdict | None:
    moment = deadline_of(tally.order, now)
    return DEADLINE if moment is not None and now >= moment else None


def _failed_indexes(tally: Tally, _now: datetime) -> Verdict | None:
    if not tally.failed_indexes:
        return None
    allowed = tally.order.spec.get("maxFailedIndexes")
    if allowed is not None and len(tally.failed_indexes) > allowed:
        return MANY_INDEXES
    decided = len(tally.failed_indexes) + len(tally.completed)
    return FAILED_INDEXES if decided >= (tally.order.completions or 0) else None


def _success_policy(tally: Tally, _now: datetime) -> Verdict | None:
    policy = tally.order.spec.get("successPolicy")
    if not policy or not tally.completed:
        return None
    for number, rule in enumerate(policy.get("rules") or ()):
        if _satisfied(rule, tally):
            return Verdict(SUCCESS, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _satisfied(rule: Document, tally: Tally) -> bool:
    wanted, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if wanted is None:
        return count is not None and len(tally.completed) >= count
    named = indexes.parse(wanted, tally.order.completions or 0)
    return len(named & tally.completed) >= (len(named) if count is None else count)


def completed(tally: Tally, active: int) -> Verdict | None:
    """Every completion is there (or, where none are asked for, any) and nobody works any more."""
    wanted = tally.order.completions
    enough = tally.succeeded > 0 if wanted is None else tally.succeeded >= wanted
    return COMPLETIONS if enough and active == 0 else None
