"""Startup: which Jobs may exist now, by order, dependency and what still blocks their names."""

from __future__ import annotations

from allaboard.api.documents import Document, dig
from allaboard.api.meta import name_of
from allaboard.jobs import names
from allaboard.jobs.children import job_of, replicas_of
from allaboard.jobs.roster import replicated_of
from allaboard.jobs.story import RESTART_JOB, Story


def may_start(story: Story, replicated: Document) -> bool:
    """Every entry this one depends on is as far as it must be."""
    for dependency in replicated.get("dependsOn") or ():
        other = next(entry for entry in story.replicated if entry["name"] == dependency["name"])
        if dependency.get("status") == "Complete":
            reached = story.row(other["name"])["succeeded"] == replicas_of(other)
        else:
            reached = story.has_started(other)
        if not reached:
            return False
    return True


def missing(story: Story) -> list[Document]:
    """The Jobs to create now: those of the first entry that lacks some, so that what the server refuses of one entry
    keeps the later ones back. In-order startup waits after the first unready entry."""
    present = story.roster.names()
    for replicated in story.replicated:
        if not may_start(story, replicated):
            continue
        if story.is_in_order and story.has_started(replicated):
            continue
        jobs = _absent(story, replicated, present)
        if story.is_in_order:
            in_progress(story)
        if story.is_in_order or jobs:
            return jobs
    if story.is_in_order:
        message = "in order startup policy has completed"
        story.draft.set("StartupPolicyCompleted", "InOrderStartupPolicyCompleted", message)
    return []


def has_later(story: Story, made: Document) -> bool:
    """Whether entries after that of this Job may have their turn in the next pass."""
    return not story.is_in_order and replicated_of(made) != story.replicated[-1]["name"]


def in_progress(story: Story) -> None:
    message = "in order startup policy is in progress"
    story.draft.set("StartupPolicyInProgress", "InOrderStartupPolicyInProgress", message)


def _absent(story: Story, replicated: Document, present: set[str]) -> list[Document]:
    """The Jobs of one entry that do not exist; a name held by an earlier attempt is not free yet."""
    strategy = dig(story.spec, "failurePolicy", "restartStrategy", default="Recreate")
    if strategy == "BlockingRecreate" and story.roster.previous:
        return []
    jobset = name_of(story.jobset)
    return [
        job_of(story.jobset, replicated, index, restarts=_restarts(story, replicated, index))
        for index in range(replicas_of(replicated))
        if names.job_name(jobset, replicated["name"], index) not in present
    ]


def _restarts(story: Story, replicated: Document, index: int) -> int | None:
    if RESTART_JOB not in story.facts.gates:
        return None
    counts = story.row(replicated["name"]).get("jobRestarts") or ()
    return int(counts[index]) if index < len(counts) else 0
