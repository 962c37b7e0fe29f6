"""Suspend and resume: Jobs follow their JobSet, and take over what was changed in it while they slept."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api import kinds
from allaboard.api.documents import Document, without
from allaboard.jobs.roster import replicated_of
from allaboard.jobs.startup import in_progress, may_start
from allaboard.jobs.story import Story
from allaboard.kube.plan import NOTHING, Plan, Status, Update


def suspended(story: Story) -> Plan:
    """Every Job at work is put to sleep."""
    awake = [job for job in story.roster.active if not job["spec"].get("suspend")]
    story.draft.set("Suspended", "SuspendedJobs", "jobset is suspended")
    story.draft.no_longer_restarting("JobSetSuspended", "jobset is suspended")
    return Plan(update=tuple(Update(kinds.JOB, _with(job, {"suspend": True})) for job in awake))


def resumed(story: Story) -> Plan:
    """Sleeping Jobs wake, entry by entry; the set counts as resumed when the last entry may run."""
    plan = NOTHING
    asleep = [job for job in story.roster.active if job["spec"].get("suspend")]
    for replicated in story.replicated:
        if not may_start(story, replicated):
            continue
        if story.is_in_order and story.has_started(replicated):
            continue
        if asleep:
            plan += _wake(replicated, [job for job in asleep if replicated_of(job) == replicated["name"]])
        if story.is_in_order:
            in_progress(story)
            return plan
    story.draft.set("Suspended", "ResumeJobs", "jobset is resumed", true=False)
    return plan


def _wake(replicated: Document, asleep: Sequence[Document]) -> Plan:
    # A template may only change on a Job that never started, so its start is forgotten first.
    started = [job for job in asleep if (job.get("status") or {}).get("startTime")]
    if started:
        return Plan(status=tuple(Status(kinds.JOB, without(job, "status", "startTime")) for job in started))
    if not asleep:
        return NOTHING
    template = replicated["template"]["spec"]["template"]
    woken = [_with(job, {"suspend": False, "template": _merged(job["spec"]["template"], template)}) for job in asleep]
    return Plan(update=tuple(Update(kinds.JOB, job) for job in woken))


def _with(job: Document, fields: Document) -> Document:
    return {**job, "spec": {**job["spec"], **fields}}


def _merged(current: Document, template: Document) -> Document:
    """The Job's pod template with what a suspended JobSet may change: maps are merged, lists united."""
    wanted, spec = template.get("metadata") or {}, dict(current["spec"])
    metadata = dict(current.get("metadata") or {})
    for key in ("labels", "annotations"):
        if wanted.get(key):
            metadata[key] = {**(metadata.get(key) or {}), **wanted[key]}
    if template["spec"].get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **template["spec"]["nodeSelector"]}
    for key in ("tolerations", "schedulingGates"):
        have = spec.get(key) or []
        added = [entry for entry in template["spec"].get(key) or () if entry not in have]
        if added:
            spec[key] = [*have, *added]
    return {**current, "metadata": metadata, "spec": spec}
