"""Documents as the scheduler's values: nodes, queues, topologies, trees of sub-groups, and pods as tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, is_leaving, labels_of, moment_of, name_of
from allaboard.scheduling.demands import NODE_NAME, amounts
from allaboard.scheduling.durations import seconds_or_none
from allaboard.scheduling.facts import (
    DEFAULT_POD_SET,
    UNLIMITED,
    Constraint,
    Demand,
    Node,
    PodSet,
    Queue,
    Share,
    Status,
    SubGroup,
    Taint,
    Task,
    Topology,
)

MEGABYTE = 10**6  # Queue documents count memory in these
GPU_MEMORY = "nvidia.com/gpu.memory"
MIG_STRATEGY = "nvidia.com/mig.strategy"
TASK_PRIORITY = "kai.scheduler/task-priority"


@lru_cache(maxsize=4096)
def moment(text: str | None) -> float | None:
    """The moment a stamp names; what people wrote by hand may name none."""
    try:
        return moment_of(text).timestamp() if text else None
    except ValueError:
        return None


def number(text: str | None) -> int | None:
    """The whole number a label or an annotation says, if it says one."""
    try:
        return int(text) if text else None
    except ValueError:
        return None


def created(document: Document) -> float:
    return moment(document["metadata"].get("creationTimestamp")) or 0.0


def node(document: Document) -> Node:
    """A machine with what it offers. Its own name is a label too, so that affinity by name finds it."""
    spec, status, worn = document.get("spec") or {}, document.get("status") or {}, labels_of(document)
    memory = number(worn.get(GPU_MEMORY)) or 0
    return Node(
        name_of(document),
        capacity=amounts(status.get("allocatable") or status.get("capacity")),
        labels={**worn, NODE_NAME: name_of(document)},
        taints=tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        ready=_is_ready(status),
        unschedulable=bool(spec.get("unschedulable")),
        gpu_memory=_gpu_memory(memory),
        gpu_memory_known=memory > 0,
        mig=worn.get(MIG_STRATEGY, ""),
    )


def _is_ready(status: Document) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())


def _gpu_memory(amount: int) -> int:
    """MiB of one device; a number this large can only be bytes. Upstream: 100 where nothing is known."""
    if amount <= 0:
        return 100
    return amount // 2**20 if amount >= 2**20 else amount


def queue(document: Document) -> Queue:
    spec = document.get("spec") or {}
    resources = spec.get("resources") or {}
    return Queue(
        name_of(document),
        parent=spec.get("parentQueue") or "",
        priority=100 if spec.get("priority") is None else spec["priority"],
        created=created(document),
        gpu=_share(resources.get("gpu")),
        cpu=_share(resources.get("cpu")),
        memory=_share(resources.get("memory"), MEGABYTE),
        preempt_min_runtime=seconds_or_none(spec.get("preemptMinRuntime")),
        reclaim_min_runtime=seconds_or_none(spec.get("reclaimMinRuntime")),
        closed=is_leaving(document) or annotations_of(document).get(labels.QUEUE_CLOSED) == "true",
    )


def _share(document: Document | None, unit: int = 1) -> Share:
    """What is left out is 0: no quota, no weight, and a limit of nothing at all (quirk 19)."""

    def amount(name: str) -> float:
        value = float((document or {}).get(name) or 0)
        return UNLIMITED if value == UNLIMITED else value * unit

    return Share(amount("quota"), amount("limit"), float((document or {}).get("overQuotaWeight") or 0))


def topology(document: Document) -> Topology:
    levels = dig(document, "spec", "levels", default=[])
    return Topology(name_of(document), tuple(level.get("nodeLabel", "") for level in levels))


def constraint(document: Document | None) -> Constraint | None:
    if not document or not document.get("topology"):
        return None
    required, preferred = document.get("requiredTopologyLevel") or "", document.get("preferredTopologyLevel") or ""
    return Constraint(document["topology"], required, preferred) if required or preferred else None


def tree(group: Document) -> SubGroup:
    """The sub-groups of a PodGroup as a tree; those that are nobody's parent hold pods. Where nobody asks our
    admission a group may say anything: a ValueError tells what is wrong with it."""
    spec = group.get("spec") or {}
    roles: list[Document] = spec.get("subGroups") or []
    whole = constraint(spec.get("topologyConstraint"))
    if not roles:
        return SubGroup(pod_sets=(PodSet(DEFAULT_POD_SET, _minimum(spec)),), constraint=whole)
    below: dict[str, list[Document]] = {}
    for name, role in _named(roles).items():
        below.setdefault(role.get("parent") or "", []).append({**role, "name": name})
    found = _branch("", below, whole, spec.get("minSubGroup"))
    if lost := sorted({role["name"] for role in roles} - _names(found)):
        raise ValueError(f'spec.subGroups: "{lost[0]}" has a parent that does not exist or is its own descendant')
    return found


def _named(roles: list[Document]) -> dict[str, Document]:
    """Sub-groups by name; a name stands once, so that no branch holds itself."""
    named: dict[str, Document] = {}
    for index, role in enumerate(roles):
        name = role.get("name") if isinstance(role, dict) else None
        if not name or name in named:
            raise ValueError(f"spec.subGroups[{index}].name: {name!r} is missing or not the only one of its name")
        named[name] = role
    return named


def _minimum(said: Document) -> int:
    """Upstream accepts a group without a minimum: one pod is enough."""
    least = said.get("minMember") or 1
    if not isinstance(least, int):
        raise ValueError(f'minMember: "{least}" is not a whole number')
    return least


def _names(branch: SubGroup) -> set[str]:
    """The names of all sub-groups below a branch, pod sets included."""
    inner = {group.name for group in branch.groups} | {leaf.name for leaf in branch.pod_sets}
    return inner.union(*(_names(group) for group in branch.groups))


def leaves(branch: SubGroup) -> set[str]:
    """The names of the pod sets of a tree."""
    return {leaf.name for leaf in branch.pod_sets}.union(*(leaves(inner) for inner in branch.groups))


def _branch(name: str, below: Mapping[str, list[Document]], limit: Constraint | None, least: int | None) -> SubGroup:
    inner = [role for role in below.get(name, ()) if role["name"] in below]
    leaves = [role for role in below.get(name, ()) if role["name"] not in below]
    groups = tuple(
        _branch(role["name"], below, constraint(role.get("topologyConstraint")), role.get("minSubGroup"))
        for role in inner
    )
    sets = tuple(PodSet(role["name"], _minimum(role), constraint(role.get("topologyConstraint"))) for role in leaves)
    return SubGroup(name, groups, sets, limit, least)


def status_of(pod: Document, request: Document | None) -> Status:
    """Where a pod stands, a live request to bind it included."""
    phase, spec = (pod.get("status") or {}).get("phase"), pod["spec"]
    if phase in ("Succeeded", "Failed"):
        return Status.SUCCEEDED if phase == "Succeeded" else Status.FAILED
    if pod["metadata"].get("deletionTimestamp"):
        return Status.RELEASING
    if spec.get("nodeName"):
        return Status.RUNNING if phase == "Running" else Status.BOUND
    if request is not None:
        return Status.BINDING
    return Status.GATED if spec.get("schedulingGates") else Status.PENDING


def task(pod: Document, demand: Demand, request: Document | None, pod_set: str) -> Task:
    """A pod as a task of its gang."""
    wanted: Document = (request or {}).get("spec") or {}
    metadata: Document = pod["metadata"]
    namespace, worn = metadata.get("namespace", ""), metadata.get("labels") or {}
    return Task(
        f"{namespace}/{metadata.get('name', '')}",
        demand,
        status_of(pod, request),
        pod["spec"].get("nodeName") or wanted.get("selectedNode") or "",
        pod_set,
        moment(metadata.get("creationTimestamp")) or 0.0,
        number(worn.get(TASK_PRIORITY)),
        worn,
        tuple(wanted.get("selectedGPUGroups") or gpu_groups(worn)),
        namespace,
    )


def gpu_groups(worn: Mapping[str, str]) -> tuple[str, ...]:
    """The GPU groups a bound pod shares: one label, or one label per group for several devices."""
    if labels.GPU_GROUP not in "\n".join(worn):
        return ()
    several = sorted(key.split("/", 1)[1] for key in worn if key.startswith(f"{labels.GPU_GROUP}/"))
    return tuple(several) or ((worn[labels.GPU_GROUP],) if labels.GPU_GROUP in worn else ())
