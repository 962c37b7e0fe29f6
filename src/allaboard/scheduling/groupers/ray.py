"""Ray: a head and its worker groups are one gang; jobs and services find theirs through the cluster they made."""

from __future__ import annotations

from collections.abc import Iterator

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import Kind
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of
from allaboard.scheduling.facts import Constraint
from allaboard.scheduling.groupers.workload import (
    CannotGroup,
    Group,
    Role,
    Workload,
    constraint_from,
    constraint_of,
    whole_number,
)

RAY_CLUSTER = Kind("ray.io", "v1", "RayCluster", "rayclusters")
HEAD = "headgroup"
GROUP = "ray.io/group"
CLASS = "ray.io/priority-class-name"


def cluster_key(workload: Workload) -> Key | None:
    """The RayCluster a RayJob or a RayService runs on, once its status names one."""
    status = workload.owner.get("status") or {}
    name = (
        status.get("rayClusterName")
        or dig(status, "activeServiceStatus", "rayClusterName")
        or dig(status, "pendingServiceStatus", "rayClusterName")
    )
    return Key(namespace_of(workload.owner), name) if name else None


def needs(workload: Workload) -> list[tuple[Kind, Key]]:
    key = cluster_key(workload)
    return [(RAY_CLUSTER, key)] if key and workload.owner["kind"] != "RayCluster" else []


def ray(workload: Workload) -> list[Group]:
    """One gang: the head and the least number of workers of every group that is not suspended."""
    cluster = _cluster(workload)
    head = dig(cluster, "spec", "headGroupSpec", "template", default={})
    roles = (Role(HEAD, 1, "", _near(head)), *_worker_roles(cluster))
    names = {role.name for role in roles}
    members = {name_of(pod): _part(pod, names) for pod in workload.pods}
    named = workload.labels.get(CLASS) or labels_of(cluster).get(CLASS, "")
    enough = sum(role.min_member for role in roles)
    constraint = constraint_of(workload)
    return [Group(workload.group_name, workload.owner, members, enough, roles, "train", constraint, named)]


def _cluster(workload: Workload) -> Document:
    if workload.owner["kind"] == "RayCluster":
        return workload.owner
    key = cluster_key(workload)
    found = workload.related.get(key) if key else None
    below = next((owner for owner in workload.chain if owner.get("kind") == "RayCluster" and "spec" in owner), None)
    if found is None and below is None:
        raise CannotGroup(f'{workload.owner["kind"]} "{name_of(workload.owner)}" has no RayCluster yet')
    return found or below or {}


def _worker_roles(cluster: Document) -> Iterator[Role]:
    for index, group in enumerate(dig(cluster, "spec", "workerGroupSpecs", default=())):
        replicas, least = whole_number(group, "replicas"), whole_number(group, "minReplicas")
        name = group.get("groupName") or f"worker-group-{index}"
        if group.get("suspend"):
            continue
        if least > replicas:
            raise CannotGroup(f'worker group "{name}": minReplicas {least} is above replicas {replicas}')
        if count := (least or replicas) * whole_number(group, "numOfHosts", default=1):
            yield Role(name, count, "", _near(group.get("template") or {}))


def _near(template: Document) -> Constraint | None:
    said = annotations_of(template)
    levels = (labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED)
    if any(said.get(level) for level in levels) and not said.get(labels.TOPOLOGY):
        raise CannotGroup(f"a template names topology levels but no topology; add the annotation {labels.TOPOLOGY}")
    return constraint_from(said)


def _part(pod: Document, names: set[str]) -> str:
    group = labels_of(pod).get(GROUP, "")
    return group if group in names else ""
