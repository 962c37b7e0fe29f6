"""How long a TrainJob may run, and how long it is kept when it has ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.meta import condition_of, moment_of
from allaboard.training.job import TrainJob


def deadline_of(job: TrainJob) -> datetime | None:
    """When the job must have ended; a resumed job gets its whole time again, a suspended one has none."""
    seconds = job.spec.get("activeDeadlineSeconds")
    if not seconds or job.suspended or job.finished:
        return None
    resumed = condition_of(job.document, "Suspended")
    if resumed is not None and resumed.get("status") == "True":  # it wakes in this very pass; its time begins now
        return None
    if resumed is not None and resumed.get("status") == "False":
        start = resumed["lastTransitionTime"]
    else:
        start = job.document["metadata"].get("creationTimestamp")
    return moment_of(start) + timedelta(seconds=seconds) if start else None


def kept_until(job: TrainJob, status: Document) -> datetime | None:
    """When a finished job may go (ruling 21); None where it stays, or has not ended."""
    seconds = job.spec.get("ttlSecondsAfterFinished")
    if seconds is None:
        return None
    verdicts = (condition_of({"status": status}, name) for name in ("Complete", "Failed"))
    ended = [found["lastTransitionTime"] for found in verdicts if found and found["status"] == "True"]
    return moment_of(ended[0]) + timedelta(seconds=seconds) if ended else None
