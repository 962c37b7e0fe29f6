"""CronJob: a Job to be, and when."""

from __future__ import annotations

import zoneinfo
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import ages, complaints
from allaboard.cluster.kinds import containers, job, jobspec, podspec, podwarnings, schedules, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

DEFAULTS = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
CONCURRENCY = ("Allow", "Forbid", "Replace")
LONGEST_NAME = 52


def default(document: Document) -> Document:
    spec = {**DEFAULTS, **(document.get("spec") or {})}
    template = spec.get("jobTemplate") or {}
    inner = template.get("spec") or {}
    # Only the pod template of a Job template is defaulted; the rest is the Job's own affair.
    inner = job.with_statuses(inner)
    filled = {**inner, "template": podspec.default_template(inner.get("template") or {})}
    spec["jobTemplate"] = {**template, "metadata": template.get("metadata") or {}, "spec": filled}
    return {**document, "spec": spec}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        return {**new, "status": {}}
    if subresource == "status":
        return {**new, "spec": old["spec"]}
    return {**new, "status": old.get("status", {})}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "status":
        return []
    spec, name, found = new["spec"], new["metadata"].get("name", ""), list[Cause]()
    if old is None and len(name) > LONGEST_NAME:
        found.append(complaints.invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters"))
    found += _schedule(spec.get("schedule") or "")
    if spec.get("timeZone") is not None:
        found += _zone(spec["timeZone"])
    for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        found += complaints.not_negative(f"spec.{key}", spec.get(key))
    found += containers.one_of(spec, "concurrencyPolicy", CONCURRENCY, "spec")
    inner = dig(spec, "jobTemplate", "spec", default={})
    where = "spec.jobTemplate.spec"
    found += jobspec.template_free(inner, where)
    if inner.get("selector") is not None:
        found.append(complaints.invalid(f"{where}.selector", inner["selector"], "`selector` will be auto-generated"))
    if inner.get("manualSelector"):
        found.append(complaints.not_supported(f"{where}.manualSelector", inner["manualSelector"], ("nil", "false")))
    found += podspec.template_causes(inner.get("template") or {}, f"{where}.template")
    return found + jobspec.restart_policy(inner, f"{where}.template.spec.restartPolicy")


def _schedule(text: str) -> list[Cause]:
    if not text:
        return [complaints.required("spec.schedule")]
    whys = ["cannot use TZ or CRON_TZ in schedule, use timeZone field instead"] if "TZ" in text else []
    if (problem := schedules.complaint(text)) and not whys:
        whys.append(problem)
    return complaints.all_invalid("spec.schedule", text, whys)


def _zone(name: str) -> list[Cause]:
    if not name:
        return [complaints.invalid("spec.timeZone", name, "timeZone must be nil or non-empty string")]
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        found = [complaints.invalid("spec.timeZone", name, why)]
        return found if name == "Local" else [*found, _unknown_zone(name)]
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return [_unknown_zone(name)]
    return []


def _unknown_zone(name: str) -> Cause:
    return complaints.invalid("spec.timeZone", name, f"unknown time zone {name}")


def warnings(new: Document, old: Document | None) -> list[str]:
    template = dig(new, "spec", "jobTemplate", "spec", "template", default={})
    if old is not None and template == dig(old, "spec", "jobTemplate", "spec", "template", default={}):
        return []
    return podwarnings.of_template(template, "spec.jobTemplate.spec.template")


COLUMNS = (
    shown.NAME,
    column("Schedule", "When jobs are started, in the format of cron: minute, hour, day of month, month, day of week."),
    column("Timezone", "The time zone the schedule is read in; without one it is that of the controller itself."),
    column(
        "Suspend", "Whether further runs are held back; runs that have already started are not touched.", type="boolean"
    ),
    column("Active", "A list of pointers to currently running jobs.", type="integer"),
    column("Last Schedule", "How long ago a job was started for the last time, whatever has become of it since."),
    shown.AGE,
    shown.CONTAINERS,
    shown.IMAGES,
    column("Selector", "Which labels the pods of each job carry, so that a job can tell them from others.", wide=True),
)


def row(document: Document, now: datetime) -> list[object]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    inner = dig(spec, "jobTemplate", "spec", default={})
    names, images = shown.containers(dig(inner, "template", "spec", "containers", default=[]))
    last = status.get("lastScheduleTime")
    suspended = spec.get("suspend")
    return [
        shown.name_of(document),
        spec.get("schedule", ""),
        spec.get("timeZone") or shown.NONE,
        shown.UNSET if suspended is None else "True" if suspended else "False",
        len(status.get("active") or ()),
        ages.age(last, now) if last else shown.NONE,
        shown.age_of(document, now),
        names,
        images,
        shown.selector(inner.get("selector")),
    ]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.CRON_JOB),
        default=default,
        prepare=prepare,
        check=check,
        warnings=warnings,
        columns=COLUMNS,
        row=row,
    ),
)
