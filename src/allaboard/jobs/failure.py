"""Failure policy: what a failed Job means for its JobSet, by the first rule that fits a failed Job.

Upstream: jobset, failure policy. Restarts only count here; the next pass removes the old Jobs and makes new ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document
from allaboard.api.meta import condition_of, name_of
from allaboard.jobs.children import replicas_of
from allaboard.jobs.roster import index_of, replicated_of
from allaboard.jobs.story import Story

_DEFAULT = {"action": "RestartJobSet"}


@dataclass(frozen=True, slots=True)
class _Case:
    """The rule that fits (None: no rule did) and the first Job that failed under it."""

    rule: Document | None
    job: Document

    @property
    def action(self) -> str:
        return str((self.rule or _DEFAULT)["action"])

    @property
    def words(self) -> str:
        return self.about(f"applying {self.action} failure policy action")

    def about(self, message: str) -> str:
        return f"{message} (first failed job: {name_of(self.job)})"


def failed(story: Story) -> None:
    """Some Job failed: fail the set, restart it, or restart that Job."""
    policy = story.spec.get("failurePolicy")
    if policy is None:
        case = _Case(None, first_failed(story.roster.failed))
        fail(story, "FailedJobs", case.about("jobset failed due to one or more job failures"))
        return
    case = _case(policy.get("rules") or (), story.roster.failed)
    if case.action == "FailJobSet":
        fail(story, "FailJobSetFailurePolicyAction", case.words)
    elif not case.action.endswith("IgnoreMaxRestarts") and counted(story) >= policy.get("maxRestarts", 0):
        fail(story, "ReachedMaxRestarts", case.about("jobset failed due to reaching max number of restarts"))
    elif case.action.startswith("RestartJobSet"):
        _restart(story, case)
    else:
        _restart_job(story, case)


def first_failed(jobs: Sequence[Document]) -> Document:
    """The Job whose Failed condition is the oldest; equal moments are told apart by name."""
    return min(jobs, key=lambda job: ((condition_of(job, "Failed") or {}).get("lastTransitionTime", ""), name_of(job)))


def _case(rules: Sequence[Document], failed_jobs: Sequence[Document]) -> _Case:
    for rule in rules:
        if fitting := [job for job in failed_jobs if _fits(rule, job)]:
            return _Case(rule, first_failed(fitting))
    return _Case(None, first_failed(failed_jobs))


def _fits(rule: Document, job: Document) -> bool:
    condition = condition_of(job, "Failed") or {}
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    if reasons and condition.get("reason") not in reasons:
        return False
    if patterns and not any(re.search(pattern, condition.get("message", "")) for pattern in patterns):
        return False
    targets = rule.get("targetReplicatedJobs")
    return not targets or replicated_of(job) in targets


def counted(story: Story) -> int:
    """Restarts that count towards the maximum, of the set and of single Jobs."""
    single = sum(sum(row.get("jobRestartsCountTowardsMax") or ()) for row in story.rows)
    return int(story.draft.status.get("restartsCountTowardsMax", 0)) + single


def fail(story: Story, reason: str, message: str) -> None:
    story.draft.set("Failed", reason, message, warning=True)
    story.draft.no_longer_restarting("JobSetFailed", "jobset failed")
    story.draft.status["terminalState"] = "Failed"


def _restart(story: Story, case: _Case) -> None:
    """Every Job of this attempt becomes an earlier attempt."""
    status = story.draft.status
    status["restarts"] += 1
    if case.action == "RestartJobSet":
        status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + 1
    reason = f"FailurePolicy_{case.rule['name']}" if case.rule else "DefaultFailurePolicy"
    story.draft.set("RestartingJobSet", reason, case.words, warning=True)
    story.draft.say(f"{case.action}FailurePolicyAction", case.words, warning=True)


def _restart_job(story: Story, case: _Case) -> None:
    """Only the failed Job becomes an earlier attempt of itself."""
    name = replicated_of(case.job)
    replicas = next(replicas_of(entry) for entry in story.replicated if entry["name"] == name)
    row, free = story.row(name), case.action.endswith("IgnoreMaxRestarts")
    for key in ("jobRestarts",) if free else ("jobRestarts", "jobRestartsCountTowardsMax"):
        counts = list(row.get(key) or [0] * replicas)
        counts[index_of(case.job)] += 1
        row[key] = counts
    story.draft.say(f"{case.action}FailurePolicyAction", case.words, warning=True)
