"""Gangs: which pods must start together, and what they ask for together (ruling 10)."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.quantity import Resources, resource_list, resources, total
from allaboard.training.facts import Facts
from allaboard.training.info import LAUNCHER, NODE, TRAINER, Info, PodSet
from allaboard.training.resources import limited, product, reserved
from allaboard.training.runtime import pod_spec_of


def members(info: Info) -> list[PodSet]:
    """The pods of the trainer's phase: those no `dependsOn` waits for; in an MPI job the workers, if there are any.

    A gang that also held its own predecessors would wait for pods that cannot exist yet (defect 30).
    """
    if info.ml_policy.get("mpi") is not None and _depends(info, LAUNCHER, NODE):
        return [pods for pods in info.pod_sets if pods.name == NODE]
    if (info.template.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder":
        return [pods for pods in info.pod_sets if pods is info.trainer] or info.pod_sets[-1:]
    awaited = {other.get("name") for job in info.jobs for other in job.get("dependsOn") or []}
    return [pods for pods in info.pod_sets if pods.name not in awaited]


def _requests(pods: PodSet, spec: Document, facts: Facts) -> Resources:
    """One pod's requests with what admission will add to them (defect 13)."""
    found = resources(pods.requests)
    if facts.limit_ranges:
        found = reserved(limited(spec, facts.limit_ranges))
    overhead = facts.overheads.get(spec.get("runtimeClassName") or "")
    return total((found, resources(overhead))) if overhead and not spec.get("overhead") else found


def _depends(info: Info, waiting: str, awaited: str) -> bool:
    jobs = (job for job in info.jobs if job["name"] == waiting)
    return any(other.get("name") == awaited for job in jobs for other in job.get("dependsOn") or [])


def trainer_first(pods: list[PodSet]) -> list[PodSet]:
    return sorted(pods, key=lambda found: found.ancestor != TRAINER)


def size(info: Info, facts: Facts) -> Document:
    """The counts both PodGroup kinds carry."""
    gang = [(pods, 1 if pods.count is None else pods.count) for pods in members(info)]
    specs = {job.get("name"): pod_spec_of(job) for job in info.jobs}
    together = product((_requests(pods, specs.get(pods.name, {}), facts), count) for pods, count in gang)
    found: Document = {"minMember": sum(count for _, count in gang)}
    return {**found, "minResources": resource_list(together)} if together else found
