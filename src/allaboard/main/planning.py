"""What would happen to a TrainJob that is not submitted: its gangs, asked about on a cluster as it is now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from allaboard.api import labels
from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.documents import replace as put
from allaboard.api.errors import NotFound
from allaboard.api.kinds import CLUSTER_TRAINING_RUNTIME, JOB_SET, POD_GROUP, TRAIN_JOB, TRAINING_RUNTIME, Kind
from allaboard.api.meta import key_of, labels_of, name_of, namespace_of
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import SystemClock
from allaboard.main.heart import SCHEDULERS
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Gang
from allaboard.scheduling.grouper import assemble
from allaboard.scheduling.groupers.jobset import jobset as gangs_of
from allaboard.scheduling.groups import gang_name
from allaboard.scheduling.outcomes import why
from allaboard.scheduling.podgroups import Settings, desired
from allaboard.scheduling.snapshot import FOLLOWED, Snapshot
from allaboard.scheduling.whatif import Answer, what_if
from allaboard.training.facts import Facts
from allaboard.training.job import TrainJob
from allaboard.training.render import render

UID = "00000000-0000-0000-0000-000000000000"  # of objects that are only thought of


@dataclass(frozen=True, slots=True)
class Forecast:
    """`places` when the job would start (by `action` on `evicted` and `moved`, if others must make room), else
    `why`; `smaller` is the largest size that would start at once."""

    queue: str
    pods: int
    places: dict[str, str] = field(default_factory=dict)
    action: str = ""
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    why: Document = field(default_factory=dict)
    smaller: int = 0

    @property
    def fits(self) -> bool:
        return bool(self.places)


async def look(reader: Reader, now: float) -> Snapshot:
    """What a scheduling cycle on this cluster would see."""
    seen = Snapshot(SCHEDULERS)
    for kind in FOLLOWED:
        for document in await _listed(reader, kind):
            seen.observe(kind, None, document)
    seen.flush(now)
    return seen


async def _listed(reader: Reader, kind: Kind) -> Documents:
    """A cluster need not serve every kind of PodGroup."""
    try:
        return await reader.list(kind)
    except NotFound:
        return []


async def fair_shares(reader: Reader) -> dict[str, dict[str, float]]:
    """What every queue may have just now, by resource (cpu in milli, memory in bytes): the next cycle's division."""
    now = SystemClock().now().timestamp()
    seen = await look(reader, now)
    decided = cycle(seen.state, seen.shard.policy, now)
    return {queue: dict(zip(("cpu", "memory", "gpu"), fair)) for queue, fair in decided.fair_shares.items()}


async def forecast(reader: Reader, job: Document) -> Forecast:
    """What would become of a TrainJob if it were created now; nothing is written."""
    now = SystemClock().now().timestamp()
    seen, runtime = await look(reader, now), await _runtime(reader, job)
    found = _forecast(seen, runtime, job, now)
    nodes = int(dig(job, "spec", "trainer", "numNodes", default=1))
    if found.fits and not found.action:
        return found
    return replace(found, smaller=_largest(seen, runtime, job, nodes, now))


async def _runtime(reader: Reader, job: Document) -> Document:
    named = TrainJob(job).runtime
    kind = TRAINING_RUNTIME if named.kind == TRAINING_RUNTIME.kind else CLUSTER_TRAINING_RUNTIME
    namespace = namespace_of(job) if kind.namespaced else ""
    found = await reader.get(kind, Key(namespace, named.name))
    if found is None:
        there = ", ".join(name_of(other) for other in await reader.list(kind, Select(namespace)))
        raise NotFound(f'{kind.resource} "{named.name}" not found; there are: {there or "none"}')
    return found


def _forecast(seen: Snapshot, runtime: Document, job: Document, now: float) -> Forecast:
    """The answer for the first phase that would not start at once, else for the last."""
    gangs = list(_gangs(seen, _job_set(runtime, job), job))
    pods, queue = sum(len(gang.tasks) for gang in gangs), gangs[-1].queue if gangs else ""
    for gang in gangs:
        answer = what_if(seen.state, seen.shard.policy, gang, now)
        if answer.reason is not None or answer.action:
            break
    return _told(answer, queue, pods) if gangs else Forecast(queue, 0)


def _told(answer: Answer, queue: str, pods: int) -> Forecast:
    places = {task.partition("/")[2]: node for task, node in answer.places}
    reason = why(answer.reason) if answer.reason is not None else {}
    return Forecast(queue, pods, places, answer.action, answer.evicted, answer.moved, reason)


def _largest(seen: Snapshot, runtime: Document, job: Document, nodes: int, now: float) -> int:
    """The most nodes, fewer than asked for, with which the job would start at once: found by halving."""
    fits, too_many = 0, nodes
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        answer = _forecast(seen, runtime, put(job, "spec", "trainer", "numNodes", value=middle), now)
        if answer.fits and not answer.action:
            fits = middle
        else:
            too_many = middle
    return fits


def _job_set(runtime: Document, job: Document) -> Document:
    named = {**job, "metadata": {"uid": UID, **job["metadata"]}}
    rendered = render(runtime, named, Facts(entropy=os.urandom))[0]
    return {**rendered, "metadata": {**rendered["metadata"], "uid": UID}}


def _gangs(seen: Snapshot, job_set: Document, job: Document) -> Iterator[Gang]:
    """The gangs the grouper would make of the job's pods, phase by phase."""
    pods = list(_pods(job_set))
    typed = {"apiVersion": TRAIN_JOB.api_version, "kind": TRAIN_JOB.kind, **job}
    typed["metadata"] = {"uid": UID, **job["metadata"]}
    workload = assemble(pods, [{**job_set, "kind": JOB_SET.kind}, typed])
    for group in gangs_of(workload):
        document = desired(group, workload, seen.records.classes, Settings(SCHEDULERS))
        document["metadata"]["namespace"] = namespace_of(job)
        name = gang_name(POD_GROUP, namespace_of(job), group.name)
        members = [
            _member(pod, group.name, group.members[name_of(pod)]) for pod in pods if name_of(pod) in group.members
        ]
        gang = _gang(seen, name, document, members)
        if gang is not None:
            yield gang


def _gang(seen: Snapshot, name: str, group: Document, pods: Sequence[Document]) -> Gang | None:
    """The gang as the scheduler reads it; the records forget it again."""
    seen.records.note_group(POD_GROUP, name, group)
    for pod in pods:
        seen.records.note_pod(key_of(pod), None, pod)
    try:
        return seen.records.gang(name, [key_of(pod) for pod in pods])
    finally:
        for pod in pods:
            seen.records.note_pod(key_of(pod), pod, None)
        seen.records.note_group(POD_GROUP, name, None)


def _pods(job_set: Document) -> Iterator[Document]:
    """Every pod the JobSet's Jobs would run at once."""
    for replicated in job_set["spec"]["replicatedJobs"]:
        spec = replicated["template"]["spec"]
        for job in range(int(replicated.get("replicas", 1))):
            for index in range(int(spec.get("parallelism", 1))):
                yield _pod(job_set, replicated, f"{name_of(job_set)}-{replicated['name']}-{job}-{index}")


def _pod(job_set: Document, replicated: Document, name: str) -> Document:
    template = replicated["template"]["spec"]["template"]
    worn = {**labels_of(template), labels.JOBSET_NAME: name_of(job_set), labels.REPLICATED_JOB: replicated["name"]}
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace_of(job_set), "labels": worn}
    spec = template["spec"]
    asking = {**spec, "containers": [_asking(container) for container in spec.get("containers") or ()]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": asking}


def _asking(container: Document) -> Document:
    """What is limited is asked for too, as the API server reads it."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}} if requests else container


def _member(pod: Document, group: str, role: str) -> Document:
    metadata = dict(pod["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), labels.POD_GROUP: group}
    metadata["labels"] = {**metadata["labels"], labels.SUB_GROUP: role}
    return {**pod, "metadata": metadata}
