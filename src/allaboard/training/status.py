"""JobSet status → TrainJob status: conditions, counts per job, and what we alone keep under `aboard` (ruling 7)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.labels import ABOARD, COMPLETION_INDEX, FAILURES, REPLICATED_JOB, RESTART_ATTEMPT
from allaboard.api.meta import annotations_of, condition_of, is_leaving, labels_of, name_of, stamp
from allaboard.training.job import TrainJob

COUNTS = ("ready", "succeeded", "failed", "active", "suspended")
COPIED = ("reason", "message", "lastTransitionTime", "observedGeneration")
# JobSet's word and ours for the two ways to end.
ENDINGS = (("Completed", "Complete"), ("Failed", "Failed"))
DEADLINE = {"reason": "DeadlineExceeded", "message": "TrainJob exceeded its active deadline"}


def condition(type_: str, status: str, reason: str, message: str) -> Document:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def with_condition(conditions: Documents, new: Document, now: datetime) -> Documents:
    """The conditions with one set; one whose status does not change keeps its time."""
    old = next((found for found in conditions if found["type"] == new["type"]), None)
    if old is None:
        return [*conditions, {"lastTransitionTime": stamp(now), **new}]
    same = old.get("status") == new["status"]
    since = old.get("lastTransitionTime") if same else new.get("lastTransitionTime") or stamp(now)
    merged = {**old, **new, "lastTransitionTime": since}
    return [merged if found is old else found for found in conditions]


def suspension(job: TrainJob, conditions: Documents, now: datetime) -> Documents:
    """`Suspended`, from the TrainJob's own wish; a job that was never suspended says nothing."""
    if job.suspended:
        return with_condition(conditions, condition("Suspended", "True", "Suspended", "TrainJob is suspended"), now)
    if any(found["type"] == "Suspended" and found.get("status") == "True" for found in conditions):
        return with_condition(conditions, condition("Suspended", "False", "Resumed", "TrainJob is resumed"), now)
    return conditions


def endings(job: TrainJob, job_set: Document, conditions: Documents, now: datetime) -> Documents:
    """`Complete` and `Failed`, copied from the JobSet; a missed deadline stays the reason it was."""
    for theirs, ours in ENDINGS:
        found = condition_of(job_set, theirs)
        if found is None or found.get("status") != "True" or (ours == "Failed" and job.deadline_exceeded):
            continue
        copied = {name: found[name] for name in COPIED if found.get(name) is not None}
        conditions = with_condition(conditions, {"type": ours, "status": "True", **copied}, now)
    return conditions


def counts(job_set: Document) -> Documents:
    """How many Jobs of each replicated job are in which state."""
    stated: Documents = dig(job_set, "status", "replicatedJobsStatus", default=[])
    return [{"name": entry["name"], **{name: entry.get(name) or 0 for name in COUNTS}} for entry in stated]


def from_job_set(job: TrainJob, status: Document, job_set: Document, now: datetime) -> Document:
    """The status with everything the JobSet tells."""
    conditions = endings(job, job_set, status.get("conditions") or [], now)
    told = {"conditions": conditions, "jobsStatus": counts(job_set)}
    rest = {name: value for name, value in status.items() if name not in told}
    return rest | {name: value for name, value in told.items() if value}


def synced(job: TrainJob, job_set: Document | None, now: datetime) -> Document:
    """The TrainJob's status as its own wish and the JobSet make it."""
    status = dict(job.document.get("status") or {})
    if conditions := suspension(job, status.get("conditions") or [], now):
        status["conditions"] = conditions
    return status if job_set is None else from_job_set(job, status, job_set, now)


def failed(status: Document, reason: str, message: str, generation: int | None, now: datetime) -> Document:
    """The status with our own verdict; the generation says which wish it was about."""
    verdict = condition("Failed", "True", reason, message)
    if generation is not None:
        verdict["observedGeneration"] = generation
    return {**status, "conditions": with_condition(status.get("conditions") or [], verdict, now)}


def phase(job: TrainJob, status: Document) -> str:
    """One word for people: where a job stands."""
    true = {found["type"] for found in status.get("conditions") or () if found.get("status") == "True"}
    if "Failed" in true:
        return "Failed"
    if "Complete" in true:
        return "Succeeded"
    if job.suspended:
        return "Suspended"
    jobs = status.get("jobsStatus") or []
    return "Running" if any(entry.get("ready") or entry.get("succeeded") for entry in jobs) else "Pending"


def story(job: TrainJob, status: Document, job_set: Document | None, failure: Document | None) -> Document:
    """What upstream does not keep: phase, times, restarts and the first failure."""
    told = dict((job.document.get("status") or {}).get("aboard") or {})
    told["phase"] = phase(job, status)
    conditions = status.get("conditions") or []
    times = {found["type"]: found["lastTransitionTime"] for found in conditions if found.get("status") == "True"}
    if ended := times.get("Complete") or times.get("Failed"):
        told["completionTime"] = ended
    if restarts := dig(job_set, "status", "restarts", default=0):
        told["restarts"] = restarts
    if first := first_failure(told.get("firstFailure"), failure, recorded_failure(job_set)):
        told["firstFailure"] = first
    return told


def first_failure(*candidates: Document | None) -> Document | None:
    """The container that ended badly first; a later attempt of the JobSet starts a new account."""
    found = [failure for failure in candidates if failure is not None]
    if not found:
        return None
    latest = max(failure.get("attempt", 0) for failure in found)
    of_latest = [failure for failure in found if failure.get("attempt", 0) == latest]
    first = min(of_latest, key=lambda failure: (failure.get("time", ""), failure["pod"], failure["container"]))
    # Two accounts of one pod: what one leaves out (its last words, its node) the other may have.
    for other in of_latest:
        if other["pod"] == first["pod"]:
            first = {**other, **first}
    return first


def recorded_failure(job_set: Document | None) -> Document | None:
    """The first failure a JobSet itself keeps, for when its pods went before we looked."""
    text = annotations_of(job_set or {}).get(FAILURES)
    try:
        entries = msgspec.json.decode(text, type=list[Document]) if text else []
    except msgspec.DecodeError:  # somebody else's words under our key
        entries = []
    if not entries or not entries[0].get("pod"):
        return None
    names = {"index": "rank", "at": "time"}
    kept = ("pod", "container", "exitCode", "index", "attempt", "message", "at", "node")
    found = {names.get(name, name): entries[0][name] for name in kept if name in entries[0]}
    return {"container": "", "exitCode": 1, "attempt": 0, **found}


def failures(pod: Document) -> Iterable[Document]:
    """Every container of the pod that ended badly by itself; a pod told to leave ends by a signal of ours."""
    if is_leaving(pod):
        return
    labels = labels_of(pod)
    initial: Documents = dig(pod, "status", "initContainerStatuses", default=[])
    for status in [*initial, *dig(pod, "status", "containerStatuses", default=[])]:
        for state in ("state", "lastState"):
            ended = dig(status, state, "terminated", default={})
            if ended.get("exitCode"):
                failure = {"pod": name_of(pod), "container": status.get("name", ""), "exitCode": ended["exitCode"]}
                yield failure | _circumstances(ended, labels)


def _circumstances(ended: Document, labels: dict[str, str]) -> Document:
    found: Document = {"attempt": int(labels.get(RESTART_ATTEMPT) or 0)}
    if labels.get(REPLICATED_JOB):
        found["job"] = labels[REPLICATED_JOB]
    if (rank := labels.get(COMPLETION_INDEX)) is not None:
        found["rank"] = int(rank)
    if words := ended.get("message") or ended.get("reason"):
        found["message"] = words[:1024]
    return {**found, "time": ended.get("finishedAt") or ""}


def as_annotations(told: Document) -> dict[str, str]:
    """The same story where a cluster's own schema has no room for it."""
    words = {ABOARD + "phase": told["phase"]}
    for name, key in (("startTime", "start-time"), ("completionTime", "completion-time")):
        if name in told:
            words[ABOARD + key] = told[name]
    if failure := told.get("firstFailure"):
        where = f"{failure['pod']}/{failure['container']}"
        said = f": {failure['message']}" if failure.get("message") else ""
        words[ABOARD + "first-failure"] = f"{where} exit code {failure['exitCode']}{said}"
    return words
