"""LeaderWorkerSet: every replica is a group of a leader and its workers, and each group is a gang of its own."""

from __future__ import annotations

from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, labels_of, name_of
from allaboard.scheduling.groupers.workload import (
    CannotGroup,
    Group,
    Role,
    Workload,
    constraint_of,
    segment_constraint,
    segment_size,
    whole_number,
)

GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
SIZE = "leaderworkerset.sigs.k8s.io/size"
LEADER, WORKERS = "leader", "workers"


def leader_worker_set(workload: Workload) -> list[Group]:
    by_index: dict[str, list[Document]] = {}
    for pod in workload.pods:
        by_index.setdefault(labels_of(pod).get(GROUP_INDEX, "0"), []).append(pod)
    return [_gang(workload, index, pods) for index, pods in sorted(by_index.items())]


def _gang(workload: Workload, index: str, pods: list[Document]) -> Group:
    size = _size(workload, pods)
    segment = _segment_size(workload, size)
    roles = _segmented(workload, size, segment) if segment else _roles(size)
    members = {name_of(pod): _part(pod, size, segment, workload) for pod in pods}
    name = f"{workload.group_name}-group-{index}"
    return Group(name, workload.owner, members, size, roles, constraint=constraint_of(workload))


def _size(workload: Workload, pods: list[Document]) -> int:
    """How many pods of the group must start together: all, or the leader first where workers wait for it."""
    size = whole_number(workload.spec, "leaderWorkerTemplate", "size")
    if size < 1:
        raise CannotGroup(f'spec.leaderWorkerTemplate.size: "{size}" is too small; must be at least 1')
    policy = workload.spec.get("startupPolicy") or "LeaderCreated"
    if policy == "LeaderCreated":
        return size
    if policy != "LeaderReady":
        raise CannotGroup(f'spec.startupPolicy: "{policy}" is not known; LeaderCreated and LeaderReady are')
    leader = next((pod for pod in pods if labels_of(pod).get(WORKER_INDEX) == "0"), None)
    if leader is not None and len(pods) == 1 and not leader["spec"].get("nodeName"):
        return 1
    said = next((annotations_of(pod)[SIZE] for pod in pods if annotations_of(pod).get(SIZE, "").isdigit()), "")
    return int(said) if said else size


def _segment_size(workload: Workload, size: int) -> int:
    """Pods of a segment; 0 where there are none."""
    template = dig(workload.spec, "leaderWorkerTemplate", default={})
    said = whole_number(template, "subGroupPolicy", "subGroupSize")
    said = said or segment_size(workload.annotations, annotations_of(template.get("workerTemplate") or {}))
    return said if 1 < said <= size else 0


def _roles(size: int) -> tuple[Role, ...]:
    return (Role(LEADER, 1), Role(WORKERS, size - 1)) if size > 1 else (Role(LEADER, 1),)


def _excludes_leader(workload: Workload) -> bool:
    policy = dig(workload.spec, "leaderWorkerTemplate", "subGroupPolicy", "subGroupPolicyType", default="LeaderWorker")
    return bool(policy == "LeaderExcluded")


def _segmented(workload: Workload, size: int, segment: int) -> tuple[Role, ...]:
    """Segments of equal size. Where the workers alone divide evenly, the leader is extra in the first."""
    even, alone = (size - 1) % segment == 0, _excludes_leader(workload)
    if alone and not even:
        raise CannotGroup(f"spec.leaderWorkerTemplate: {size - 1} workers do not divide into segments of {segment}")
    workers = annotations_of(dig(workload.spec, "leaderWorkerTemplate", "workerTemplate", default={}))
    near = segment_constraint(workload.annotations, workers)
    counts = [0] * -(-(size - 1 if even else size) // segment)
    for index in range(1 if alone else 0, size):
        counts[segment_of(index, size, segment)] += 1
    later = tuple(Role(f"segment-{i}", count, "", near) for i, count in enumerate(counts) if i or alone)
    if alone:
        return (Role(LEADER, 1), *later)
    rest = (Role(WORKERS, counts[0] - 1, "segment-0"),) if counts[0] > 1 else ()
    return (Role("segment-0", 0, "", near), Role(LEADER, 1, "segment-0"), *rest, *later)


def segment_of(index: int, size: int, segment: int) -> int:
    """The segment of a worker index; the leader (0) is in the first."""
    if index == 0:
        return 0
    return (index - 1) // segment if (size - 1) % segment == 0 else index // segment


def _part(pod: Document, size: int, segment: int, workload: Workload) -> str:
    text = labels_of(pod).get(WORKER_INDEX, "0")
    index = int(text) if text.isdigit() else 0
    if index == 0:
        return LEADER
    if not segment:
        return WORKERS if size > 1 else ""
    number = segment_of(index, size, segment)
    return f"segment-{number}" if number or _excludes_leader(workload) else WORKERS
