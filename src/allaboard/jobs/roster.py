"""The Jobs of a JobSet, sorted once: at work, successful, failed, or left over from an earlier attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from allaboard.api import labels
from allaboard.api.documents import Document
from allaboard.api.meta import is_true, labels_of, name_of
from allaboard.jobs import names


@dataclass(slots=True)
class Roster:
    """Every owned Job is in exactly one of these."""

    active: list[Document] = field(default_factory=list)
    successful: list[Document] = field(default_factory=list)
    failed: list[Document] = field(default_factory=list)
    previous: list[Document] = field(default_factory=list)

    def names(self) -> set[str]:
        everyone = (self.active, self.successful, self.failed, self.previous)
        return {name_of(job) for jobs in everyone for job in jobs}


def replicated_of(job: Document) -> str:
    """The replicated Job this Job belongs to."""
    return labels_of(job).get(labels.REPLICATED_JOB, "")


def index_of(job: Document) -> int:
    return int(labels_of(job).get(labels.JOB_INDEX, "0"))


def sort(jobset: Document, jobs: Sequence[Document]) -> Roster:
    """Sort the Jobs a JobSet owns. A Job without a readable attempt is an error: somebody tampered with it."""
    status = jobset.get("status") or {}
    attempt = status.get("restarts", 0)
    own = {row["name"]: row.get("jobRestarts") or () for row in status.get("replicatedJobsStatus") or ()}
    roster = Roster()
    for job in jobs:
        if _attempt(job) < attempt or _is_behind(job, own.get(replicated_of(job), ())):
            roster.previous.append(job)
        elif is_true(job, "Complete"):
            roster.successful.append(job)
        elif is_true(job, "Failed"):
            roster.failed.append(job)
        else:
            roster.active.append(job)
    return roster


def _attempt(job: Document) -> int:
    text = labels_of(job).get(labels.RESTART_ATTEMPT, "")
    if not text.isdecimal():
        raise ValueError(f'job "{name_of(job)}": label {labels.RESTART_ATTEMPT} is "{text}"; must be a number')
    return int(text)


def _is_behind(job: Document, restarts: Sequence[int]) -> bool:
    """With restarts of single Jobs, a Job of an earlier attempt of its own is left over too."""
    text, index = labels_of(job).get(names.JOB_RESTART, ""), index_of(job)
    return text.isdecimal() and index < len(restarts) and int(text) < restarts[index]


def rows(jobset: Document, roster: Roster) -> list[Document]:
    """The status row of every replicated Job; counts of single restarts are carried on."""
    old = {row["name"]: row for row in (jobset.get("status") or {}).get("replicatedJobsStatus") or ()}
    entries = jobset["spec"].get("replicatedJobs") or ()
    found = {entry["name"]: _row(entry["name"], old.get(entry["name"])) for entry in entries}
    for job in roster.active:
        if row := found.get(replicated_of(job)):
            row["ready"] += _is_ready(job)
            row["active"] += (job.get("status") or {}).get("active", 0) > 0
            row["suspended"] += bool(job["spec"].get("suspend"))
    for word, jobs in (("succeeded", roster.successful), ("failed", roster.failed)):
        for job in jobs:
            if row := found.get(replicated_of(job)):
                row[word] += 1
    return list(found.values())


def _row(name: str, old: Document | None) -> Document:
    row: Document = {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    kept = ("jobRestarts", "jobRestartsCountTowardsMax")
    return row | {key: old[key] for key in kept if old and old.get(key)}


def _is_ready(job: Document) -> bool:
    """As many pods as can work at once are ready or done."""
    spec, status = job["spec"], job.get("status") or {}
    wanted = spec.get("parallelism", 1)
    if spec.get("completions") is not None:
        wanted = min(wanted, spec["completions"])
    return bool(status.get("succeeded", 0) + status.get("ready", 0) >= wanted)
