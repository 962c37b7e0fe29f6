"""Job: defaults, the selector it makes for itself, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, dig, without
from allaboard.api.errors import Cause
from allaboard.cluster import ages
from allaboard.cluster.kinds import jobspec, jobstatus, podspec, podwarnings, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

DEFAULTS = {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
NO_LIMIT = 2147483647
ORPHANING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


def default_spec(spec: Document) -> Document:
    filled = {**DEFAULTS, **spec}
    if filled.get("completions") is None and filled.get("parallelism") is None:
        filled["completions"] = filled["parallelism"] = 1
    if filled.get("parallelism") is None:
        filled["parallelism"] = 1
    if filled.get("backoffLimit") is None:
        filled["backoffLimit"] = 6 if filled.get("backoffLimitPerIndex") is None else NO_LIMIT
    if filled.get("podReplacementPolicy") is None:
        filled["podReplacementPolicy"] = "TerminatingOrFailed" if not filled.get("podFailurePolicy") else "Failed"
    filled = with_statuses(filled)
    filled["template"] = podspec.default_template(spec.get("template") or {})
    return filled


def with_statuses(spec: Document) -> Document:
    if rules := dig(spec, "podFailurePolicy", "rules"):
        return {**spec, "podFailurePolicy": {**spec["podFailurePolicy"], "rules": [_rule(rule) for rule in rules]}}
    return spec


def _rule(rule: Document) -> Document:
    """A condition that names no status means that it holds."""
    patterns = rule.get("onPodConditions")
    if not patterns:
        return rule
    return {**rule, "onPodConditions": [{**pattern, "status": pattern.get("status") or "True"} for pattern in patterns]}


def default(job: Document) -> Document:
    return with_labels({**job, "spec": default_spec(job.get("spec") or {})})


def with_labels(job: Document) -> Document:
    """A Job without labels carries those of its pods, the generated ones included."""
    labels = dig(job, "spec", "template", "metadata", "labels")
    if not labels or job["metadata"].get("labels"):
        return job
    return {**job, "metadata": {**job["metadata"], "labels": labels}}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        # Upstream: labels taken from the template are the template's own map, so they grow with it; only a Job
        # whose name is made up was copied before.
        own, template = new["metadata"].get("labels"), dig(new, "spec", "template", "metadata", "labels")
        made = _selecting({**new, "status": {}})
        shared = own is template and not (own and new["metadata"].get("generateName"))
        return with_labels(without(made, "metadata", "labels")) if shared else made
    if subresource == "status":
        return {**new, "spec": old["spec"]}
    return with_labels({**new, "status": old.get("status", {})})


def _selecting(job: Document) -> Document:
    """The Job with a selector made of its uid, and its pods with the labels that go with it."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return job
    metadata, template = job["metadata"], spec["template"]
    labels = {name: metadata.get("name", "") for name in NAME_LABELS}
    labels |= {name: metadata.get("uid", "") for name in UID_LABELS}
    own = template.get("metadata") or {}
    selector = spec.get("selector") or {}
    matching = {UID_LABELS[1]: metadata.get("uid", ""), **(selector.get("matchLabels") or {})}
    template = {**template, "metadata": {**own, "labels": {**labels, **(own.get("labels") or {})}}}
    return {**job, "spec": {**spec, "selector": {**selector, "matchLabels": matching}, "template": template}}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if old is None:
        return jobspec.on_create(new)
    if subresource == "status":
        return jobstatus.causes(new, old)
    return [] if new["spec"] == old["spec"] else jobspec.on_update(new, old)


SURPRISING = "this is used in Pod names and hostnames, which can result in surprising behavior"


def warnings(new: Document, old: Document | None) -> list[str]:
    if old is not None and old["spec"].get("template") == new["spec"].get("template"):
        return []
    found = podwarnings.of_template(dig(new, "spec", "template", default={}), "spec.template")
    words = names.dns_label(str(new["metadata"].get("name", ""))) if old is None else []
    if words:
        found.insert(0, f"metadata.name: {SURPRISING}; a DNS label is recommended: [{' '.join(words)}]")
    return found


COLUMNS = (
    shown.NAME,
    column("Status", "Status of the job."),
    column("Completions", "How many pods of the job have succeeded so far, out of how many shall do so in all."),
    column("Duration", "Time required to complete the job."),
    shown.AGE,
    shown.CONTAINERS,
    shown.IMAGES,
    column(
        "Selector", "Which labels the pods of this job carry, so that the job can tell them from others.", wide=True
    ),
)
WORDS = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def row(job: Document, now: datetime) -> list[object]:
    labels, images = shown.containers(dig(job, "spec", "template", "spec", "containers", default=[]))
    return [
        shown.name_of(job),
        _status(job),
        _completions(job),
        _duration(job, now),
        shown.age_of(job, now),
        labels,
        images,
        shown.selector(dig(job, "spec", "selector")),
    ]


def _status(job: Document) -> str:
    true = {c.get("type") for c in dig(job, "status", "conditions", default=[]) if c.get("status") == "True"}
    for word in WORDS:
        if word in true:
            return word
        if not word and job["metadata"].get("deletionTimestamp"):
            return "Terminating"
    return "Running"


def _completions(job: Document) -> str:
    done, wanted = dig(job, "status", "succeeded", default=0), dig(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    side_by_side = dig(job, "spec", "parallelism", default=0)
    return f"{done}/1 of {side_by_side}" if side_by_side > 1 else f"{done}/1"


def _duration(job: Document, now: datetime) -> str:
    start, end = (ages.instant(dig(job, "status", key)) for key in ("startTime", "completionTime"))
    return "" if start is None else ages.span(((end or now) - start).total_seconds())


def implies_labels(job: Document) -> bool:
    """Whether a new Job's labels are those the server gave its pods. Upstream fills them in whenever it reads the Job,
    and stores them with the first write of any kind, which therefore is one even if it changes nothing."""
    labels = job["metadata"].get("labels") or {}
    return UID_LABELS[1] in labels and labels == dig(job, "spec", "template", "metadata", "labels")


def _successful(job: Document) -> str:
    return str(dig(job, "status", "succeeded", default=0))


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.JOB),
        default=default,
        prepare=prepare,
        check=check,
        warnings=warnings,
        fields={"status.successful": _successful},
        orphans=True,
        orphan_warning=ORPHANING,
        incomplete=implies_labels,
        columns=COLUMNS,
        row=row,
    ),
)
