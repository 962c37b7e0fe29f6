"""JobSet: one gang per phase, one role per replicated job (ruling 10)."""

from __future__ import annotations

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.meta import is_leaving, labels_of, name_of, namespace_of
from allaboard.scheduling.groupers.workload import (
    CannotGroup,
    Group,
    Role,
    Workload,
    constraint_of,
    group_name,
    whole_number,
)


def phases(jobset: Document) -> list[list[Document]]:
    """The replicated jobs that may start together, phase by phase, in the order they are written.

    A gang must not wait for pods that its own members must first allow: InOrder starts one job after the other,
    and jobs with the same `dependsOn` start at the same moment.
    """
    jobs: list[Document] = dig(jobset, "spec", "replicatedJobs", default=[])
    if dig(jobset, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder":
        return [[job] for job in jobs]
    found: dict[frozenset[tuple[str, str]], list[Document]] = {}
    for job in jobs:
        waits_for = frozenset((d.get("name", ""), d.get("status", "")) for d in job.get("dependsOn") or ())
        found.setdefault(waits_for, []).append(job)
    return list(found.values())


def pods_of(job: Document) -> int:
    """How many pods of a replicated job run at once."""
    spec = dig(job, "template", "spec", default={})
    parallelism, completions = whole_number(spec, "parallelism", default=1), whole_number(spec, "completions")
    at_once = min(parallelism, completions) if completions > 0 else parallelism
    return whole_number(job, "replicas", default=1) * at_once


def first_pods(jobset: Document) -> list[Document]:
    """One pod of every job that may start at once, as its template will make it: the gang before its pods exist."""
    found, namespace, name = [], namespace_of(jobset), name_of(jobset)
    for job in next(iter(phases(jobset)), ()):
        template = dig(job, "template", "spec", "template", default={})
        worn = {**labels_of(template), labels.JOBSET_NAME: name, labels.REPLICATED_JOB: job["name"]}
        metadata = {**(template.get("metadata") or {}), "name": f"{name}-{job['name']}-0-0", "labels": worn}
        metadata["namespace"] = namespace
        if not job.get("dependsOn"):
            found.append({"metadata": metadata, "spec": template.get("spec") or {}})
    return found


def is_startable(jobset: Document) -> bool:
    """Whether its pods will come: it is not suspended, ending or ended, and nobody else's to run."""
    ended = dig(jobset, "status", "terminalState")
    return not (ended or dig(jobset, "spec", "suspend") or dig(jobset, "spec", "managedBy") or is_leaving(jobset))


def group_names(jobset: Document) -> dict[str, str]:
    """Which group the pods of each replicated job belong to."""
    found, stem = phases(jobset), group_name(jobset)
    return {job["name"]: stem if len(found) == 1 else f"{stem}-{phase[0]['name']}" for phase in found for job in phase}


def jobset(workload: Workload) -> list[Group]:
    """The gangs of a JobSet: those phases that have pods."""
    by_role: dict[str, list[str]] = {}
    for pod in workload.pods:
        by_role.setdefault(_role(pod), []).append(name_of(pod))
    found = phases(workload.owner)
    names = group_names(workload.owner)
    unknown = set(by_role) - set(names)
    if unknown:
        role = min(unknown)
        raise CannotGroup(f'label {labels.REPLICATED_JOB}: jobset "{name_of(workload.owner)}" has no job "{role}"')
    return [_gang(workload, phase, by_role, names) for phase in found if any(job["name"] in by_role for job in phase)]


def _role(pod: Document) -> str:
    role = labels_of(pod).get(labels.REPLICATED_JOB)
    if not role:
        raise CannotGroup(f'pod "{name_of(pod)}" has no label {labels.REPLICATED_JOB}, so its role is unknown')
    return role


def _gang(workload: Workload, phase: list[Document], by_role: dict[str, list[str]], names: dict[str, str]) -> Group:
    roles = tuple([Role(job["name"], count) for job in phase if (count := pods_of(job))])
    members = {pod: job["name"] for job in phase for pod in by_role.get(job["name"], ())}
    total = max(1, sum(role.min_member for role in roles))
    name = names[phase[0]["name"]]
    return Group(name, workload.owner, members, total, roles, constraint=constraint_of(workload))
