"""What is counted about TrainJobs: where they stand, how long they waited, how often they restarted or went wrong."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import Counter, Gauge, Histogram

from allaboard.api.documents import Document
from allaboard.api.labels import QUEUE
from allaboard.api.meta import labels_of, moment_of
from allaboard.training.job import TrainJob
from allaboard.training.status import phase

# Waiting for a gang's place is minutes to hours, not milliseconds.
WAITS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)

JOBS = Gauge("aboard_trainjobs", "TrainJobs by phase and queue", ["phase", "queue"])
WAITED = Histogram("aboard_trainjob_time_to_running_seconds", "From creation to running", buckets=WAITS)
RESTARTS = Counter("aboard_trainjob_restarts", "Restarts of a whole job", ["queue"])
ERRORS = Counter("aboard_trainjob_reconcile_errors", "Passes that could not make what was asked for", ["reason"])


def place_of(job: Document) -> tuple[str, str]:
    """Under which phase and queue a job is counted."""
    return phase(TrainJob(job), job.get("status") or {}), queue_of(job)


def queue_of(job: Document) -> str:
    return labels_of(job).get(QUEUE) or "default-queue"


def waited(job: Document) -> timedelta | None:
    """How long a job waited until it ran; None while it waits."""
    started = _story(job).get("startTime")
    born = job["metadata"].get("creationTimestamp")
    return max(moment_of(started) - moment_of(born), timedelta()) if started and born else None


def _story(job: Document | None) -> Document:
    return ((job or {}).get("status") or {}).get("aboard") or {}


def count(old: Document | None, new: Document | None) -> None:
    """A TrainJob changed: move it from where it was counted to where it stands."""
    before = place_of(old) if old is not None else None
    after = place_of(new) if new is not None else None
    if before != after:
        if before is not None:
            JOBS.labels(*before).dec()
        if after is not None:
            JOBS.labels(*after).inc()
    if new is None:
        return
    if (wait := waited(new)) is not None and old is not None and "startTime" not in _story(old):
        WAITED.observe(wait.total_seconds())
    if old is not None and (more := _story(new).get("restarts", 0) - _story(old).get("restarts", 0)) > 0:
        RESTARTS.labels(queue_of(new)).inc(more)
