"""Success policy: when enough Jobs have succeeded, the JobSet has."""

from __future__ import annotations

from allaboard.api.documents import Document, dig
from allaboard.jobs.children import replicas_of
from allaboard.jobs.roster import replicated_of
from allaboard.jobs.story import Story


def succeeded(story: Story) -> bool:
    """All: as many successes as targeted Jobs. Any: one success among them. No target means every entry."""
    if not story.roster.successful:
        return False
    policy = story.spec.get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [entry["name"] for entry in story.replicated]
    done = sum(replicated_of(job) in targets for job in story.roster.successful)
    if policy.get("operator", "All") == "Any":
        return done > 0
    wanted = sum(replicas_of(entry) for entry in story.replicated if entry["name"] in targets)
    return done == wanted


def complete(story: Story) -> None:
    """Write the end of a JobSet that succeeded; Jobs still at work are removed by the next pass."""
    story.draft.set("Completed", "AllJobsCompleted", "jobset completed successfully")
    story.draft.no_longer_restarting("JobSetCompleted", "jobset completed successfully")
    story.draft.status["terminalState"] = "Completed"


def is_finished(jobset: Document) -> bool:
    conditions = dig(jobset, "status", "conditions", default=())
    return any(c["type"] in ("Completed", "Failed") and c["status"] == "True" for c in conditions)
