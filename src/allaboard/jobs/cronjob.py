"""A CronJob becomes Jobs, one for each moment of its schedule.

Upstream: the CronJob controller of kube-controller-manager; reasons and texts are its.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.meta import (
    condition_of,
    is_leaving,
    is_true,
    key_of,
    moment_of,
    name_of,
    namespace_of,
    owner_reference,
    revision_of,
    stamp,
    uid_of,
)
from allaboard.jobs.schedule import BadSchedule, Every, Schedule, UnknownZone, parse
from allaboard.jobs.verdict import is_finished
from allaboard.kube.plan import NOTHING, Create, Delete, Event, Plan, Status

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY, _TOO_MANY = (
    100,
    ("too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"),
)
_MISSED_LATEST = timedelta(milliseconds=100)  # come back just after the minute, not just before


@dataclass(slots=True)
class _Draft:
    """The status to be, and the events to be written after it."""

    cron: Document
    status: Document
    events: list[Event] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)  # uids of Jobs this pass deletes

    def say(self, reason: str, message: str, type_: str = "Normal") -> None:
        self.events.append(Event(self.cron, reason, message, type_))

    def forget(self, jobs: Sequence[Document]) -> None:
        """These go by our own hand, so nobody wonders where they are."""
        gone = {uid_of(job) for job in jobs}
        self.status["active"] = [entry for entry in self.status.get("active") or () if entry["uid"] not in gone]
        self.removed |= gone

    def saved(self) -> Plan:
        status = {key: value for key, value in self.status.items() if value}
        if status == (self.cron.get("status") or {}):
            return Plan(events=tuple(self.events))
        document = {**self.cron, "status": status}
        return Plan(status=(Status(kinds.CRON_JOB, document),), events=tuple(self.events))


def decide(cron: Document, jobs: Sequence[Document], now: datetime) -> Plan:
    """One pass: see what became of earlier Jobs, tidy up, start what is due."""
    draft = _Draft(cron, dict(cron.get("status") or {}))
    plan = _tidied(draft, jobs)
    _look(draft, jobs)
    if not is_leaving(cron) and not cron["spec"].get("suspend"):
        plan += _start(draft, jobs, now)
    return plan + draft.saved()


def _look(draft: _Draft, jobs: Sequence[Document]) -> None:
    """The list of Jobs at work, and the latest success."""
    listed = {entry["uid"]: entry for entry in draft.status.get("active") or ()}
    for job in jobs:
        known = uid_of(job) in listed
        if known and is_finished(job):
            del listed[uid_of(job)]
            condition = "Complete" if is_true(job, "Complete") else "Failed"
            draft.say("SawCompletedJob", f"Saw completed job: {name_of(job)}, condition: {condition}")
        elif not known and not is_finished(job) and uid_of(job) not in draft.removed:
            listed[uid_of(job)] = _reference(job)
    present = {uid_of(job) for job in jobs}
    for uid in [uid for uid in listed if uid not in present]:
        draft.say("MissingJob", f"Active job went missing: {listed.pop(uid)['name']}")
    draft.status["active"] = list(listed.values())
    ends = [job["status"]["completionTime"] for job in jobs if is_true(job, "Complete")]
    known_end = [draft.status["lastSuccessfulTime"]] if draft.status.get("lastSuccessfulTime") else []
    draft.status["lastSuccessfulTime"] = max([*ends, *known_end], default=None)


def _reference(job: Document) -> Document:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": namespace_of(job),
        "name": name_of(job),
        "uid": uid_of(job),
        "resourceVersion": revision_of(job),
    }


def _start(draft: _Draft, jobs: Sequence[Document], now: datetime) -> Plan:
    """Make the Job of the latest moment that was not served yet, unless it is too late or one must not overlap."""
    spec = draft.cron["spec"]
    try:
        schedule = parse(spec["schedule"], spec.get("timeZone"))
    except UnknownZone as error:
        draft.say("UnknownTimeZone", f'invalid timeZone: "{spec.get("timeZone")}": {error}', "Warning")
        return NOTHING
    except BadSchedule as error:
        draft.say("UnparseableSchedule", f'unparseable schedule: "{spec["schedule"]}" : {error}', "Warning")
        return NOTHING
    upcoming = schedule.next(now)
    if upcoming is None:  # the 31st of February
        words = "time difference between two schedules is less than 1 second"
        draft.say("InvalidSchedule", f"invalid schedule: {spec['schedule']} : {words}", "Warning")
        return NOTHING
    later = Plan(again=upcoming + _MISSED_LATEST)
    moment = _due(draft, schedule, now)
    if moment is None:
        return later
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and moment + timedelta(seconds=deadline) < now:
        when = moment.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S %z")
        draft.say("MissSchedule", f"Missed scheduled time to start a job: {when}", "Warning")
        return later
    return later + _launch(draft, jobs, moment)


def _due(draft: _Draft, schedule: Schedule | Every, now: datetime) -> datetime | None:
    last, deadline = draft.status.get("lastScheduleTime"), draft.cron["spec"].get("startingDeadlineSeconds")
    earliest = moment_of(last or draft.cron["metadata"]["creationTimestamp"])
    if deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=deadline))
    if _has_missed_many(schedule, earliest, now):
        draft.say("TooManyMissedTimes", _TOO_MANY, "Warning")
    return schedule.last(earliest, now)


def _has_missed_many(schedule: Schedule | Every, earliest: datetime, now: datetime) -> bool:
    """Roughly, by the time between the first two: a clock that is wrong by years must not be counted out."""
    first = schedule.next(earliest)
    second = schedule.next(first) if first else None
    if first is None or second is None or now < second:
        return False
    return (now - first) // (second - first) + 1 > _MANY


def _launch(draft: _Draft, jobs: Sequence[Document], moment: datetime) -> Plan:
    policy, job, plan = draft.cron["spec"].get("concurrencyPolicy", "Allow"), job_of(draft.cron, moment), NOTHING
    # The Job of this very moment may be there: whoever made it died before it could say so.
    working = [other for other in jobs if not is_finished(other) and name_of(other) != name_of(job)]
    if working and policy == "Forbid":
        words = "Not starting job because prior execution is running and concurrency policy is Forbid"
        draft.say("JobAlreadyActive", words)
        return plan
    if policy == "Replace":
        plan = _removed(draft, working)
    draft.status["lastScheduleTime"] = stamp(moment)
    draft.say("SuccessfulCreate", f"Created job {name_of(job)}")
    return plan + Plan(create=(Create(kinds.JOB, job),))


def job_of(cron: Document, moment: datetime) -> Document:
    """The Job of one moment; its name is the moment's, so that it cannot be made twice."""
    template = cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    metadata: Document = {
        "name": f"{name_of(cron)}-{int(moment.timestamp()) // 60}",
        "namespace": namespace_of(cron),
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: stamp(moment)},
        "ownerReferences": [owner_reference(cron)],
    }
    if not metadata["labels"]:
        del metadata["labels"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _tidied(draft: _Draft, jobs: Sequence[Document]) -> Plan:
    """Old finished Jobs go; a few of each kind stay to be looked at."""
    plan, cron = NOTHING, draft.cron
    for type_, field_, usual in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        done = sorted((job for job in jobs if is_true(job, type_)), key=lambda job: (_ended(job, type_), name_of(job)))
        kept = cron["spec"].get(field_, usual)
        plan += _removed(draft, done[: max(len(done) - kept, 0)])
    return plan


def _ended(job: Document, type_: str) -> str:
    return str((condition_of(job, type_) or {}).get("lastTransitionTime", ""))


def _removed(draft: _Draft, jobs: Sequence[Document]) -> Plan:
    going = [job for job in jobs if not is_leaving(job)]
    if not going:
        return NOTHING
    draft.forget(going)
    return Plan(
        delete=tuple(Delete(kinds.JOB, key_of(job), uid_of(job), "Background") for job in going),
        events=tuple(Event(draft.cron, "SuccessfulDelete", f"Deleted job {name_of(job)}") for job in going),
    )
