"""Restart: Jobs of earlier attempts make room, and a restart is over when every Job is ready again."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, key_of, uid_of
from allaboard.jobs.children import replicas_of
from allaboard.jobs.story import Story
from allaboard.kube.plan import NOTHING, Delete, Plan


def remove(jobs: Iterable[Document]) -> Plan:
    """Foreground: the name stays taken until the last pod is gone."""
    going = [job for job in jobs if not is_leaving(job)]
    if not going:
        return NOTHING
    return Plan(delete=tuple(Delete(kinds.JOB, key_of(job), uid_of(job), "Foreground") for job in going))


def note_ready(story: Story) -> None:
    """All Jobs are ready or done: whatever restart there was is over."""
    if story.is_suspended or not story.draft.status.get("conditions"):
        return
    there = sum(row["ready"] + row["succeeded"] for row in story.rows)
    if there == sum(map(replicas_of, story.replicated)):
        story.draft.no_longer_restarting("JobsReady", "all jobs are ready")
