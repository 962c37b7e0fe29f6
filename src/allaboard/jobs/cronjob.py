"""A CronJob becomes Jobs, one for each moment of its schedule.

Upstream: the CronJob controller of kube-controller-manager; reasons and texts are its.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.meta import (
    is_leaving,
    is_true,
    moment_of,
    name_of,
    namespace_of,
    owner_reference,
    revision_of,
    stamp,
    uid_of,
)
from allaboard.jobs.schedule import BadSchedule, Every, Schedule, UnknownZone, missed_since, parse, zone_of
from allaboard.jobs.verdict import is_finished
from allaboard.kube.plan import NOTHING, Create, Delete, Event, Plan, Status

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_MISSED_LATEST = timedelta(milliseconds=100)  # come back just after the minute, not just before


@dataclass(slots=True)
class _Draft:
    """The status to be, and the events to be written after it."""

    cron: Document
    status: Document
    events: list[Event] = field(default_factory=list)

    def say(self, reason: str, message: str, type_: str = "Normal", *, is_fact: bool = False) -> None:
        self.events.append(Event(self.cron, reason, message, type_, is_fact=is_fact))

    def saved(self) -> Plan:
        status = {key: value for key, value in self.status.items() if value}
        if status == (self.cron.get("status") or {}):
            return Plan(events=tuple(self.events))
        document = {**self.cron, "status": status}
        return Plan(status=(Status(kinds.CRON_JOB, document),), events=tuple(self.events))


def decide(cron: Document, jobs: Sequence[Document], now: datetime, others: Container[str] = ()) -> Plan:
    """One pass: see what became of earlier Jobs, tidy up, start what is due.

    `others` are the names of Jobs beside them that are not this CronJob's.
    """
    draft = _Draft(cron, dict(cron.get("status") or {}))
    plan = _tidied(draft, jobs)
    _look(draft, jobs, others)
    if not is_leaving(cron) and _knows_zone(draft) and not cron["spec"].get("suspend"):
        plan += _start(draft, jobs, now, others)
    return plan + draft.saved()


def is_rescheduled(old: Document, new: Document) -> bool:
    return any(old["spec"].get(name) != new["spec"].get(name) for name in ("schedule", "timeZone"))


def later(cron: Document, now: datetime) -> Plan:
    """Nothing before the next moment of its schedule: what another schedule would have started is not made up for."""
    try:
        schedule = parse(cron["spec"]["schedule"], cron["spec"].get("timeZone"))
    except BadSchedule:
        return NOTHING
    return (
        NOTHING if cron["spec"].get("suspend") else _upcoming(schedule, _earliest(cron, cron.get("status") or {}), now)
    )


def _look(draft: _Draft, jobs: Sequence[Document], others: Container[str]) -> None:
    """The list of Jobs at work, and the latest success."""
    listed = {entry["uid"]: entry for entry in draft.status.get("active") or ()}
    for job in jobs:
        known = uid_of(job) in listed
        if known and is_finished(job):
            del listed[uid_of(job)]
            condition = "Complete" if is_true(job, "Complete") else "Failed"
            draft.say("SawCompletedJob", f"Saw completed job: {name_of(job)}, condition: {condition}")
        elif not known and not is_finished(job):
            if _is_latest(draft, job):  # made by the pass before this one
                listed[uid_of(job)] = _reference(job)
            else:
                words = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                draft.say("UnexpectedJob", words, "Warning")
    present = {uid_of(job) for job in jobs}
    for uid in [uid for uid, entry in listed.items() if uid not in present and entry["name"] not in others]:
        draft.say("MissingJob", f"Active job went missing: {listed.pop(uid)['name']}")
    draft.status["active"] = list(listed.values())
    ends = [job["status"]["completionTime"] for job in jobs if is_true(job, "Complete")]
    known_end = [draft.status["lastSuccessfulTime"]] if draft.status.get("lastSuccessfulTime") else []
    draft.status["lastSuccessfulTime"] = max([*ends, *known_end], default=None)


def _is_latest(draft: _Draft, job: Document) -> bool:
    last: str = draft.status.get("lastScheduleTime") or ""
    return bool(last) and name_of(job) == _name(draft.cron, moment_of(last))


def _knows_zone(draft: _Draft) -> bool:
    name = draft.cron["spec"].get("timeZone")
    try:
        zone_of(name)
    except UnknownZone as error:
        draft.say("UnknownTimeZone", f'invalid timeZone: "{name}": {error}', "Warning")
        return False
    return True


def _reference(job: Document) -> Document:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": namespace_of(job),
        "name": name_of(job),
        "uid": uid_of(job),
        "resourceVersion": revision_of(job),
    }


def _start(draft: _Draft, jobs: Sequence[Document], now: datetime, others: Container[str]) -> Plan:
    """Make the Job of the latest moment that was not served yet, unless it is too late or one must not overlap."""
    spec = draft.cron["spec"]
    try:
        schedule = parse(spec["schedule"], spec.get("timeZone"))
    except BadSchedule as error:
        draft.say("UnparseableSchedule", f'unparseable schedule: "{spec["schedule"]}" : {error}', "Warning")
        return NOTHING
    if schedule.next(now) is None:  # the 31st of February
        words = "time difference between two schedules is less than 1 second"
        draft.say("InvalidSchedule", f"invalid schedule: {spec['schedule']} : {words}", "Warning")
        return NOTHING
    moment = _due(draft, schedule, now)
    deadline = spec.get("startingDeadlineSeconds")
    plan = NOTHING
    if moment is not None and deadline is not None and moment + timedelta(seconds=deadline) < now:
        when = moment.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S %z")
        draft.say("MissSchedule", f"Missed scheduled time to start a job: {when}", "Warning")
    elif moment is not None:
        plan = _launch(draft, jobs, moment, others)
    return plan + _upcoming(schedule, _earliest(draft.cron, draft.status), now)


def _earliest(cron: Document, status: Document) -> datetime:
    """After which moment nothing was started yet."""
    return moment_of(status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])


def _due(draft: _Draft, schedule: Schedule | Every, now: datetime) -> datetime | None:
    deadline, earliest = draft.cron["spec"].get("startingDeadlineSeconds"), _earliest(draft.cron, draft.status)
    if deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=deadline))
    missed = missed_since(schedule, earliest, now)
    if missed.latest is not None and missed.number > _MANY:
        draft.say("TooManyMissedTimes", _TOO_MANY, "Warning")
    return missed.latest


def _upcoming(schedule: Schedule | Every, earliest: datetime, now: datetime) -> Plan:
    missed = missed_since(schedule, earliest, now)
    upcoming = schedule.next(missed.latest or (now if missed.number else earliest))
    return Plan(again=upcoming + _MISSED_LATEST) if upcoming else NOTHING


def _launch(draft: _Draft, jobs: Sequence[Document], moment: datetime, others: Container[str]) -> Plan:
    policy, name, plan = draft.cron["spec"].get("concurrencyPolicy", "Allow"), _name(draft.cron, moment), NOTHING
    active = draft.status["active"]
    if any(entry["name"] == name for entry in active):
        return NOTHING
    if active and policy == "Forbid":
        words = "Not starting job because prior execution is running and concurrency policy is Forbid"
        draft.say("JobAlreadyActive", words)
        return NOTHING
    if policy == "Replace":
        plan = _removed(draft, active)
    if name in others:  # somebody else's: whoever made it sees to it
        return plan
    draft.status["lastScheduleTime"] = stamp(moment)
    # Ours may be there, too, and may even have ended: whoever made it could not say so, or somebody took that back.
    if mine := next((job for job in jobs if name_of(job) == name), None):
        draft.status["active"] = [*draft.status["active"], _reference(mine)]
        return plan
    draft.say("SuccessfulCreate", f"Created job {name}", is_fact=True)
    return plan + Plan(create=(Create(kinds.JOB, job_of(draft.cron, moment)),))


def _name(cron: Document, moment: datetime) -> str:
    """The Job's name is the moment's, so that it cannot be made twice."""
    return f"{name_of(cron)}-{int(moment.timestamp()) // 60}"


def job_of(cron: Document, moment: datetime) -> Document:
    """The Job of one moment, which is told as clocks in its time zone tell it."""
    template = cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    told = moment.astimezone(zone_of(cron["spec"].get("timeZone"))).isoformat(timespec="seconds")
    metadata: Document = {
        "name": _name(cron, moment),
        "namespace": namespace_of(cron),
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: told.replace("+00:00", "Z")},
        "ownerReferences": [owner_reference(cron)],
    }
    if not metadata["labels"]:
        del metadata["labels"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _tidied(draft: _Draft, jobs: Sequence[Document]) -> Plan:
    """Finished Jobs that began first go; a few of each kind stay to be looked at."""
    plan, cron = NOTHING, draft.cron
    for type_, field_, usual in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        done = sorted((job for job in jobs if is_true(job, type_)), key=_began)
        kept = cron["spec"].get(field_, usual)
        going = [job for job in done[: max(len(done) - kept, 0)] if not is_leaving(job)]
        plan += _removed(draft, [_reference(job) for job in going])
    return plan


def _began(job: Document) -> tuple[bool, str, str]:
    start = (job.get("status") or {}).get("startTime")
    return start is None, start or "", name_of(job)


def _removed(draft: _Draft, references: Sequence[Document]) -> Plan:
    """These go by our own hand, so nobody wonders where they are."""
    gone = {entry["uid"] for entry in references}
    draft.status["active"] = [entry for entry in draft.status.get("active") or () if entry["uid"] not in gone]
    namespace = namespace_of(draft.cron)
    return Plan(
        delete=tuple(
            Delete(kinds.JOB, Key(namespace, entry["name"]), entry["uid"], "Background") for entry in references
        ),
        events=tuple(
            Event(draft.cron, "SuccessfulDelete", f"Deleted job {entry['name']}", is_fact=True) for entry in references
        ),
    )
