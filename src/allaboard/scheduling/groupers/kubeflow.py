"""Kubeflow's training jobs: the gang is every replica of every role, unless the job says less is enough."""

from __future__ import annotations

from collections.abc import Mapping

from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, is_leaving, labels_of, name_of
from allaboard.scheduling.groupers.workload import (
    BUILD,
    CannotGroup,
    Group,
    Role,
    Workload,
    constraint_of,
    segment_constraint,
    segment_size,
    whole_number,
)

REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
JOB_NAME = "training.kubeflow.org/job-name"
JOB_ROLE = "training.kubeflow.org/job-role"
# The field with the roles, and the roles a job of this kind cannot do without.
REPLICAS = {
    "TFJob": ("tfReplicaSpecs", ()),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
    "PyTorchJob": ("pytorchReplicaSpecs", ()),
}


def replicas(workload: Workload) -> dict[str, int]:
    """How many pods of each role the job wants."""
    kind = workload.owner["kind"]
    field, needed = REPLICAS[kind]
    specs: Mapping[str, Document] = workload.spec.get(field) or {}
    for role in needed:
        if role not in specs:
            raise CannotGroup(f'spec.{field}: {kind} "{name_of(workload.owner)}" has no {role}; it needs one')
    counts = {role: whole_number(spec or {}, "replicas") for role, spec in specs.items()}
    for role, count in counts.items():
        if count < 1:
            raise CannotGroup(f'spec.{field}.{role}.replicas: "{count}" is too small; must be at least 1')
    return counts


def least(workload: Workload, counts: Mapping[str, int]) -> int:
    """How many pods the job says are enough."""
    enough = dig(workload.spec, "runPolicy", "schedulingPolicy", "minAvailable")
    return enough if isinstance(enough, int) and enough > 0 else sum(counts.values())


def training_job(workload: Workload) -> list[Group]:
    """TFJob, XGBoostJob and JAXJob: one gang of all replicas."""
    return [_gang(workload, least(workload, replicas(workload)))]


def _gang(workload: Workload, enough: int, roles: tuple[Role, ...] = (), parts: dict[str, str] | None = None) -> Group:
    members = parts if parts is not None else workload.members()
    return Group(
        workload.group_name, workload.owner, members, max(1, enough), roles, constraint=constraint_of(workload)
    )


def mpi_job(workload: Workload) -> list[Group]:
    """MPIJob: a launcher that is created only after its workers run cannot be waited for."""
    counts = replicas(workload)
    enough = least(workload, counts)
    late = workload.spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
    launched = any(labels_of(p).get(JOB_ROLE) == "launcher" and not is_leaving(p) for p in workload.pods)
    return [_gang(workload, enough - counts["Launcher"] if late and not launched else enough)]


def pytorch_job(workload: Workload) -> list[Group]:
    """PyTorchJob: master and workers are roles; elastic jobs start with fewer (seed 004, ruling 11)."""
    counts = replicas(workload)
    enough = _pytorch_least(workload, counts)
    masters = min(counts.get("Master", 0), enough)
    workers = max(0, enough - masters) if "Worker" in counts else 0
    roles: tuple[Role, ...] = (Role("master", masters),) if masters else ()
    template = dig(workload.spec, "pytorchReplicaSpecs", "Worker", "template", default={})
    size = segment_size(*(annotations_of(pod) for pod in _workers(workload)[:1]), annotations_of(template))
    roles += _segments(workload, workers, size, template) if size else (Role("worker", workers),) if workers else ()
    parts = {name_of(pod): _part(pod, size, roles) for pod in workload.pods}
    return [_gang(workload, enough, roles, parts)]


def _pytorch_least(workload: Workload, counts: Mapping[str, int]) -> int:
    """`minAvailable` over the elastic minimum over each role's own minimum over all replicas."""
    specs = workload.spec.get("pytorchReplicaSpecs") or {}
    each = sum(whole_number(specs[role] or {}, "minReplicas") or count for role, count in counts.items())
    elastic = dig(workload.spec, "elasticPolicy", "minReplicas")
    enough = elastic if isinstance(elastic, int) and elastic > 0 else each
    named = dig(workload.spec, "runPolicy", "schedulingPolicy", "minAvailable")
    return named if isinstance(named, int) and named > 0 else enough


def _workers(workload: Workload) -> list[Document]:
    return [pod for pod in workload.pods if labels_of(pod).get(REPLICA_TYPE, "").lower() == "worker"]


def _segments(workload: Workload, workers: int, size: int, template: Document) -> tuple[Role, ...]:
    """Workers in segments that stay close together; the last one takes what is left."""
    sources = [annotations_of(pod) for pod in _workers(workload)[:1]]
    near = segment_constraint(*sources, annotations_of(template), workload.annotations)
    count = -(-workers // size)
    sizes = [min(size, workers - index * size) for index in range(count)]
    parts = tuple(Role(f"worker-{index}", pods, "worker", near) for index, pods in enumerate(sizes))
    return (Role("worker"), *parts)


def _part(pod: Document, size: int, roles: tuple[Role, ...]) -> str:
    """The role of one pod; workers beyond the last segment belong to it."""
    kind = labels_of(pod).get(REPLICA_TYPE, "").lower()
    names = [role.name for role in roles]
    if kind != "worker" or not size:
        return kind if kind in names else ""
    index = labels_of(pod).get(REPLICA_INDEX, "0")
    segments = [name for name in names if name.startswith("worker-")]
    wanted = int(index) // size if index.isdigit() else 0
    return segments[min(wanted, len(segments) - 1)] if segments else ""


def notebook(workload: Workload) -> list[Group]:
    """Someone is waiting in front of it."""
    members, constraint = workload.members(), constraint_of(workload)
    return [Group(workload.group_name, workload.owner, members, priority_class=BUILD, constraint=constraint)]
