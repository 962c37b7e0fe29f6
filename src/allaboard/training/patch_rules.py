"""Rules of runtime patches: who may send them, what they may name, and what a suspended JobSet can still take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.api.labels import TRAIN_JOB_ANCESTOR
from allaboard.api.names import domain_prefixed_path
from allaboard.points import nearest
from allaboard.training import patches
from allaboard.training.facts import Case
from allaboard.training.info import DATASET, MODEL, NODE
from allaboard.training.problems import REQUIRED, forbidden, invalid, required
from allaboard.training.runtime import pod_spec_of

FIELD = "spec.runtimePatches"
MANAGED = (DATASET, MODEL, NODE)
# Members of a patch's metadata that would name or hold objects instead of describing them (defect 36).
NO_DESCRIPTION = ("name", "namespace", "finalizers")
# What JobSet lets change in a pod template while it is suspended.
MUTABLE_POD = ("nodeSelector", "tolerations", "schedulingGates")
# What the schema itself keeps from changing, as long as it stands in the patch before and after.
GUARDED = {
    "serviceAccountName", "volumes", "initContainers", "containers", "imagePullSecrets", "securityContext",
    "terminationGracePeriodSeconds",
}  # fmt: skip


def problems(case: Case) -> Iterable[Cause]:
    """What is wrong with the patches, against the runtime as it is without them (defects 6 and 42)."""
    for patch in case.job.patches:
        yield from _manager_problems(patch)
        for change in patches.jobs_of(patch):
            yield from _job_problems(change, case.template_jobs)


def _manager_problems(patch: Document) -> Iterable[Cause]:
    manager = patch.get("manager") or ""
    for cause in domain_prefixed_path(manager, f"{FIELD}.manager"):
        if cause.reason == REQUIRED:
            yield required(cause.field)
        else:
            yield invalid(cause.field, manager, cause.message)


def _job_problems(change: Document, jobs: Documents) -> Iterable[Cause]:
    names = [job["name"] for job in jobs]
    name = change.get("name") or ""
    if name not in names:
        yield invalid(FIELD, name, f"must name a replicatedJob of the runtime{nearest(name, names)}")
        return
    job = jobs[names.index(name)]
    yield from _metadata_problems(change, job)
    spec, known = pod_spec_of(change), pod_spec_of(job)
    for member in ("initContainers", "containers"):
        yield from _container_problems(spec.get(member) or [], known.get(member) or [], name)
    if any(container.get("env") and container.get("name") in MANAGED for container in spec.get("containers") or []):
        yield invalid(FIELD, name, f"must not have envs for the {', '.join(MANAGED)} containers")


def _metadata_problems(change: Document, job: Document) -> Iterable[Cause]:
    template = change.get("template") or {}
    for metadata in (template.get("metadata") or {}, dig(template, "spec", "template", "metadata", default={})):
        for member in NO_DESCRIPTION:
            if metadata.get(member):
                words = f'must not set metadata "{member}"; a patch may set labels and annotations'
                yield invalid(FIELD, metadata[member], words)
    wanted = (template.get("metadata") or {}).get("labels") or {}
    own = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if TRAIN_JOB_ANCESTOR in wanted and wanted[TRAIN_JOB_ANCESTOR] != own.get(TRAIN_JOB_ANCESTOR):
        # A trainer that loses its label silently stops being one (defect 43).
        words = f'must not change label "{TRAIN_JOB_ANCESTOR}", which says what the job is for'
        yield invalid(FIELD, wanted[TRAIN_JOB_ANCESTOR], words)


def _container_problems(wanted: Documents, known: Documents, job: str) -> Iterable[Cause]:
    names = [container["name"] for container in known]
    for container in wanted:
        name = container.get("name") or ""
        if name not in names:
            hint = nearest(name, names) if names else "; it has none of this kind"
            yield invalid(FIELD, name, f'must name a container of replicatedJob "{job}"{hint}')


def change_problems(case: Case, job_set: Document | None) -> Iterable[Cause]:
    """Patches may change only while nothing runs, and then only what JobSet can still take (defect 3)."""
    if case.old is None or case.old.patches == case.job.patches:
        return
    if not (case.old.suspended or case.job.suspended):
        words = "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
        yield forbidden(FIELD, words)
        return
    if job_set is None:
        return
    for entry in (job_set.get("status") or {}).get("replicatedJobsStatus") or []:
        if entry.get("active"):
            words = f"RuntimePatches cannot be modified when the JobSet's ReplicatedJob {entry['name']} is still active"
            yield forbidden(FIELD, words)
    for path in fixed_differences(case):
        words = f'{path} is fixed once the JobSet exists; delete the JobSet "{case.job.name}" to have it made anew'
        yield forbidden(FIELD, words)


def fixed_differences(case: Case) -> Iterator[str]:
    """Where the patched templates differ in something a JobSet does not let change."""
    old_patches: Documents = case.old.patches if case.old else []
    try:
        before, after = (_patched_jobs(case, each) for each in (old_patches, case.job.patches))
    except patches.UnmergeablePatch:
        return  # said already of the new ones; from the old ones no JobSet was ever made
    for old, new in zip(before, after):
        both = _patched(old_patches, new["name"]) & _patched(case.job.patches, new["name"])
        yield from _job_differences(old, new, both & GUARDED)


def _patched_jobs(case: Case, wanted: Documents) -> Documents:
    source: Document = {"replicatedJobs": case.template_jobs}
    merged: Documents = patches.merge(source, wanted)["replicatedJobs"] if case.template_jobs else []
    return merged


def _patched(patches_: Documents, job: str) -> set[str]:
    """The members of a job's pod spec that patches speak about."""
    changes = (change for patch in patches_ for change in patches.jobs_of(patch) if change.get("name") == job)
    return {member for change in changes for member in pod_spec_of(change)}


def _job_differences(old: Document, new: Document, guarded: set[str]) -> Iterator[str]:
    name = new["name"]
    if _job_metadata(old) != _job_metadata(new):
        yield f'the Job metadata of "{name}"'
    was, now = pod_spec_of(old), pod_spec_of(new)
    for member in sorted({*was, *now} - set(MUTABLE_POD) - guarded):
        if was.get(member) != now.get(member):
            yield f'{member} of "{name}"'


def _job_metadata(job: Document) -> Document:
    return (job.get("template") or {}).get("metadata") or {}
