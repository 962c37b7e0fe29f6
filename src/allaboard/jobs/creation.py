"""What a new JobSet may say, in the order and the words of upstream's admission."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api import names
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.api.meta import name_of
from allaboard.jobs import claims, policies
from allaboard.jobs.children import group_of, replicas_of, replicated_jobs
from allaboard.jobs.complaints import invalid, plain
from allaboard.jobs.names import PREFIX, coordinator, job_name
from allaboard.kube.admission import View

LARGEST = 2**31 - 1
_TOO_LONG = "must be no more than 63 characters"
_JOB_TOO_LONG = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
_POD_TOO_LONG = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
_SUBDOMAIN_TOO_LONG = ".spec.network.subdomain is too long, must be less than 63 characters"
_GROUP_TOO_LONG = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
_SAMPLE_SUFFIX = "-abcde"  # stands for the random end of a generated name


def causes(jobset: Document, gates: frozenset[str], view: View) -> list[Cause]:
    """Everything wrong with a JobSet that is to be created."""
    named = _with_name(jobset)
    return [
        *policies.gated(jobset, gates),
        *_first(jobset),
        *_subdomain(jobset),
        *_manager(jobset),
        *_entries(named, gates),
        *policies.causes(jobset, gates),
        *_coordinator(named),
        *claims.causes(named, view),
    ]


def _with_name(jobset: Document) -> Document:
    """With a generated name the rules are asked of a sample."""
    prefix = dig(jobset, "metadata", "generateName", default="")
    if name_of(jobset) or not prefix:
        return jobset
    return {**jobset, "metadata": {**jobset["metadata"], "name": f"{prefix}{_SAMPLE_SUFFIX[1:]}"}}


def _first(jobset: Document) -> Iterable[Cause]:
    """An entry depends on entries before it, so the first on none."""
    entries = replicated_jobs(jobset)
    if entries and entries[0].get("dependsOn"):
        yield plain("DependsOn can't be set for the first ReplicatedJob")


def _subdomain(jobset: Document) -> Iterable[Cause]:
    """It is part of host names and the name of a service: both rules hold."""
    text = dig(jobset, "spec", "network", "subdomain", default="")
    if not text:
        return
    for words in names.dns_subdomain(text):
        yield invalid("spec.network.subdomain", text, words)
    for words in names.dns_1035_label(text):
        yield invalid("spec.network.subdomain", text, _SUBDOMAIN_TOO_LONG if words == _TOO_LONG else words)


def _manager(jobset: Document) -> Iterable[Cause]:
    text = jobset["spec"].get("managedBy")
    if text is None:
        return
    for cause in names.domain_prefixed_path(text):
        if cause.reason == "FieldValueRequired":
            yield Cause(cause.reason, "spec.managedBy", "Required value")
        else:
            yield invalid("spec.managedBy", names.accused(text, cause.message), cause.message)
    if len(text.encode()) > 63:
        yield Cause("FieldValueTooLong", "spec.managedBy", "Too long: may not be more than 63 bytes")


def _entries(jobset: Document, gates: frozenset[str]) -> Iterable[Cause]:
    seen: set[str] = set()
    for number, entry in enumerate(replicated_jobs(jobset)):
        seen.add(entry["name"])
        yield from _entry(jobset, number, entry)
        for dependency in entry.get("dependsOn") or ():
            if dependency["name"] not in seen:
                yield plain(f"replicatedJob: {entry['name']} cannot depend on replicatedJob: {dependency['name']}")
        yield from policies.in_place(jobset, number, gates)


def _entry(jobset: Document, number: int, entry: Document) -> Iterable[Cause]:
    """One replicated Job: its size, its group, and the longest names it will give."""
    job = entry["template"]["spec"]
    if job.get("parallelism", 1) * replicas_of(entry) > LARGEST:
        words = f"the product of replicas and parallelism must not exceed {LARGEST} for replicatedJob '{entry['name']}'"
        yield plain(words)
    field = f"spec.replicatedJobs[{number}]"
    for words in names.dns_1035_label(group_of(entry)):
        yield invalid(f"{field}.groupName", group_of(entry), _GROUP_TOO_LONG if words == _TOO_LONG else words)
    longest = job_name(name_of(jobset), entry["name"], replicas_of(entry) - 1)
    for words in names.dns_1035_label(longest):
        yield invalid(f"{field}.name", longest, _JOB_TOO_LONG if words == _TOO_LONG else words)
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        for words in names.dns_1035_label(f"{longest}-{job['completions'] - 1}{_SAMPLE_SUFFIX}"):
            yield invalid(f"{field}.name", longest, _POD_TOO_LONG if words == _TOO_LONG else words)


def _coordinator(jobset: Document) -> Iterable[Cause]:
    """The coordinator must be a pod that will exist, at an address that fits a label."""
    chosen = jobset["spec"].get("coordinator")
    if not chosen:
        return
    if words := _misplaced(jobset, chosen):
        yield plain(words)
    text = coordinator(jobset)
    if complaints := names.label_value(text):
        where = f'"{text}" for coordinator label "{PREFIX}coordinator" (long JobSet / ReplicatedJob / SubDomain name?)'
        yield plain(f"spec will lead to invalid label value {where}: {', '.join(complaints)}")


def _misplaced(jobset: Document, chosen: Document) -> str:
    name, index, pod = chosen["replicatedJob"], chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    entry = next((entry for entry in replicated_jobs(jobset) if entry["name"] == name), None)
    if entry is None:
        return f"coordinator replicatedJob {name} does not exist"
    job = entry["template"]["spec"]
    if not 0 <= index < replicas_of(entry):
        return f"coordinator job index {index} is invalid for replicatedJob {name}"
    if job.get("completionMode") != "Indexed" or job.get("completions") is None:
        return "job for coordinator pod must be indexed completion mode, and completions number must be set"
    if not 0 <= pod < job["completions"]:
        return f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}"
    return ""
