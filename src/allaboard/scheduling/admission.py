"""What is said about PodGroups, Queues and Topologies before they are stored, and about pods that share GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import Cause, Invalid
from allaboard.api.kinds import (
    JAX_JOB,
    JOB,
    JOB_SET,
    MPI_JOB,
    POD,
    POD_GROUP,
    PYTORCH_JOB,
    QUEUE,
    SCHEDULING_SHARD,
    TF_JOB,
    TOPOLOGY,
    TRAIN_JOB,
    XGBOOST_JOB,
    Kind,
)
from allaboard.api.meta import annotations_of, labels_of, name_of, owners_of
from allaboard.api.twins import made_once
from allaboard.kube.admission import ALLOWED, Request, Verdict, View
from allaboard.points import nearest
from allaboard.scheduling import policy, shard
from allaboard.scheduling.demands import GPUS
from allaboard.scheduling.durations import seconds
from allaboard.scheduling.groupers.jobset import group_names
from allaboard.scheduling.podgroups import Settings, has_own_group, scheduler_of

RESOURCES = ("gpu", "cpu", "memory")
HOSTNAME = "kubernetes.io/hostname"


def refused(kind: Kind, name: str, causes: Sequence[Cause]) -> Invalid:
    """The API's own way of saying which fields are wrong."""
    words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    message = f'{kind.kind}.{kind.group} "{name}" is invalid: {words}'
    return Invalid(message, details={"name": name, "group": kind.group, "kind": kind.kind}, causes=list(causes))


def _invalid(field: str, value: object, rule: str) -> Cause:
    return Cause("FieldValueInvalid", field, f'Invalid value: "{value}": {rule}')


# --- PodGroup ---


def pod_group_causes(spec: Document) -> Iterable[Cause]:
    """Names of sub-groups are unique, parents exist, nobody is their own ancestor; what is not honoured is refused."""
    roles: list[Document] = spec.get("subGroups") or []
    parents = {role.get("name", ""): role.get("parent") or "" for role in roles}
    seen: set[str] = set()
    for index, role in enumerate(roles):
        name, field = role.get("name", ""), f"spec.subGroups[{index}]"
        if name in seen:
            yield Cause("FieldValueDuplicate", f"{field}.name", f'Duplicate value: "{name}"')
        seen.add(name)
        parent = parents[name]
        if parent and parent not in parents:
            yield _invalid(f"{field}.parent", parent, f"no sub-group has this name{nearest(parent, parents)}")
        elif _is_own_ancestor(name, parents):
            yield _invalid(f"{field}.parent", parent, "the sub-group would be its own ancestor")
        if role.get("minMember") and role.get("minSubGroup"):
            yield _invalid(f"{field}.minSubGroup", role["minSubGroup"], "may not be combined with minMember")
    yield from _duration_causes(spec, "stalenessGracePeriod", negative=True)
    if delay := spec.get("preemptionDelay"):
        yield _invalid("spec.preemptionDelay", delay, "is not supported: nothing would wait; remove it")
    if spec.get("minMember") and spec.get("minSubGroup"):
        yield _invalid("spec.minSubGroup", spec["minSubGroup"], "may not be combined with minMember")


def _duration_causes(spec: Document, field: str, *, negative: bool = False) -> Iterable[Cause]:
    text = str(spec.get(field) or "0")
    try:
        seconds(text.removeprefix("-") if negative else text)
    except ValueError:
        yield _invalid(f"spec.{field}", text, "must be a duration, such as 90s or 1h30m")


def _is_own_ancestor(name: str, parents: Mapping[str, str]) -> bool:
    step = parents.get(name, "")
    for _ in parents:
        if step == name:
            return True
        step = parents.get(step, "")
    return False


def queue_name_warnings(where: str, name: str, view: View) -> Iterable[str]:
    """A queue that is named but runs nothing: it does not exist, or others stand below it."""
    found = view.get(QUEUE, Key("", name))
    if found is None:
        near = nearest(name, [name_of(queue) for queue in view.list(QUEUE)])
        yield f'{where}: queue "{name}" does not exist; the job waits until it does{near}'
    elif below := dig(found, "status", "childQueues", default=[]):
        yield f'{where}: "{name}" is not a leaf queue and runs no jobs; choose one of: {", ".join(below)}'


def pod_group_warnings(spec: Document, view: View) -> Iterable[str]:
    """What will not keep the group from being stored, but from being scheduled."""
    if name := spec.get("queue"):
        yield from queue_name_warnings("spec.queue", name, view)
    topology = dig(spec, "topologyConstraint", "topology", default="")
    if topology and view.get(TOPOLOGY, Key("", topology)) is None:
        yield f'spec.topologyConstraint.topology: topology "{topology}" does not exist; the group waits until it does'


class PodGroups:
    """KAI's webhook for PodGroups, with warnings KAI does not give."""

    name = "vpodgroup.kb.io"
    kinds = (POD_GROUP,)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def validate(self, request: Request, view: View) -> Verdict:
        spec = dig(request.new or {}, "spec", default={})
        causes = list(pod_group_causes(spec))
        if causes:
            return Verdict(refused(POD_GROUP, request.key.name, causes))
        unchanged = request.old is not None and request.old.get("spec") == spec
        return ALLOWED if unchanged else Verdict(warnings=tuple(pod_group_warnings(spec, view)))


# Which documents a real API server asks about.
WITH_QUEUE: Document = {"matchExpressions": [{"key": labels.QUEUE, "operator": "Exists"}]}
OF_JOB_SETS: Document = {"matchExpressions": [{"key": labels.JOBSET_NAME, "operator": "Exists"}]}


class QueueLabels:
    """Whoever submits a job hears at once that the queue it names runs nothing."""

    name = "vqueuelabel.aboard.dev"
    is_courtesy = True
    selector = WITH_QUEUE
    kinds = (TRAIN_JOB, JOB_SET, JOB, PYTORCH_JOB, MPI_JOB, TF_JOB, XGBOOST_JOB, JAX_JOB)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def validate(self, request: Request, view: View) -> Verdict:
        queue = labels_of(request.new or {}).get(labels.QUEUE)
        # What a controller makes of a job repeats its label; the job's own author was told.
        if not queue or labels_of(request.old or {}).get(labels.QUEUE) == queue or owners_of(request.new or {}):
            return ALLOWED
        return Verdict(warnings=tuple(queue_name_warnings(f"metadata.labels[{labels.QUEUE}]", queue, view)))


# --- Queue ---


def queue_causes(document: Document, queues: Mapping[str, Document]) -> Iterable[Cause]:
    spec, name = document.get("spec") or {}, name_of(document)
    if not spec.get("resources"):
        yield Cause("FieldValueRequired", "spec.resources", "Required value: a queue must say what it may use")
    for resource in RESOURCES:
        for field in ("quota", "limit", "overQuotaWeight"):
            value = dig(spec, "resources", resource, field, default=0)
            if value < 0 and (value != -1 or field == "overQuotaWeight"):
                where = f"spec.resources.{resource}.{field}"
                yield _invalid(
                    where, value, "must be 0 or more" + (", or -1 for no bound" if field != "overQuotaWeight" else "")
                )
    for field in ("preemptMinRuntime", "reclaimMinRuntime"):
        yield from _duration_causes(spec, field)
    parents = {other: dig(d, "spec", "parentQueue", default="") for other, d in queues.items()}
    parents[name] = spec.get("parentQueue") or ""
    if _is_own_ancestor(name, parents):
        yield _invalid("spec.parentQueue", parents[name], "the queue would be its own ancestor")


def queue_warnings(document: Document, queues: Mapping[str, Document]) -> Iterable[str]:
    """A limit of 0 is nothing at all (quirk 19): almost always a field that was forgotten."""
    spec = document.get("spec") or {}
    for resource in RESOURCES:
        share = dig(spec, "resources", resource, default={})
        if not share.get("limit"):
            said = "0" if "limit" in share else "not set, which means 0"
            yield f"spec.resources.{resource}.limit is {said}: no job of this queue gets any {resource}; -1 is no limit"
        elif 0 < share["limit"] < share.get("quota", 0):
            yield f"spec.resources.{resource}.quota is above its limit: {share['quota']:g} of {share['limit']:g}"
    parent = spec.get("parentQueue") or ""
    if parent and parent not in queues:
        yield f'spec.parentQueue: queue "{parent}" does not exist; jobs of this queue wait until it does'


class Queues:
    """KAI's webhook for queues, with warnings KAI does not give."""

    name = "vqueue.kb.io"
    kinds = (QUEUE,)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def validate(self, request: Request, view: View) -> Verdict:
        document = request.new or {}
        queues = {name_of(queue): queue for queue in view.list(QUEUE) if name_of(queue) != request.key.name}
        causes = list(queue_causes(document, queues))
        if causes:
            return Verdict(refused(QUEUE, request.key.name, causes))
        return Verdict(warnings=tuple(queue_warnings(document, queues)))


# --- Topology ---


def topology_causes(spec: Document, old: Document | None) -> Iterable[Cause]:
    """Levels are distinct, the hostname comes last, and no label changes afterwards."""
    levels = _node_labels(spec)
    if old is not None and _node_labels(old) != levels:
        yield Cause("FieldValueInvalid", "spec.levels", "Invalid value: field is immutable")
    for index, level in enumerate(levels):
        field = f"spec.levels[{index}].nodeLabel"
        if level in levels[:index]:
            yield Cause("FieldValueDuplicate", field, f'Duplicate value: "{level}"')
        if level == HOSTNAME and index != len(levels) - 1:
            yield _invalid(field, level, "can only be the last level, the narrowest")


def _node_labels(spec: Document) -> list[str]:
    return [level.get("nodeLabel", "") for level in spec.get("levels") or ()]


def topology_warnings(spec: Document) -> Iterable[str]:
    """An alias is stored, but a constraint has to name the label."""
    for index, level in enumerate(spec.get("levels") or ()):
        if alias := level.get("alias"):
            said = f'"{alias}" is not read; constraints name the level "{level.get("nodeLabel", "")}"'
            yield f"spec.levels[{index}].alias: {said}"


class Topologies:
    """Levels make sense and stay."""

    name = "vtopology.kb.io"
    kinds = (TOPOLOGY,)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def validate(self, request: Request, _view: View) -> Verdict:
        spec, old = dig(request.new or {}, "spec", default={}), dig(request.old, "spec") if request.old else None
        causes = list(topology_causes(spec, old))
        if causes:
            return Verdict(refused(TOPOLOGY, request.key.name, causes))
        return Verdict(warnings=tuple(topology_warnings(spec)))


# --- SchedulingShard ---


def shard_causes(document: Document) -> Iterable[Cause]:
    """A policy the scheduler would refuse, and a shard nobody would read, are refused when they are written."""
    name = name_of(document)
    if name != shard.NAME:
        rule = f'one scheduler serves all nodes here and reads the shard "{shard.NAME}"'
        yield _invalid("metadata.name", name, rule)
    try:
        policy.read(shard.spec_of(document))
    except (TypeError, ValueError) as error:
        yield Cause("FieldValueInvalid", "spec", str(error))


class Shards:
    """Unknown plugins, actions and settings are said to whoever writes them."""

    name = "vschedulingshard.aboard.dev"
    kinds = (SCHEDULING_SHARD,)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def validate(self, request: Request, _view: View) -> Verdict:
        causes = list(shard_causes(request.new or {}))
        return Verdict(refused(SCHEDULING_SHARD, request.key.name, causes)) if causes else ALLOWED


# --- pods that share GPUs ---


def sharing_causes(pod: Document) -> Iterable[Cause]:
    said = annotations_of(pod)
    fraction, memory = said.get(labels.GPU_FRACTION), said.get(labels.GPU_MEMORY)
    devices = said.get(labels.GPU_FRACTION_DEVICES)
    where = "metadata.annotations"
    if fraction is not None and not _is_fraction(fraction):
        yield _invalid(f"{where}[{labels.GPU_FRACTION}]", fraction, "must be a number above 0 and below 1")
    if memory is not None and not (memory.isdigit() and int(memory) > 0):
        yield _invalid(f"{where}[{labels.GPU_MEMORY}]", memory, "must be a whole number of MiB above 0")
    if fraction is not None and memory is not None:
        yield _invalid(f"{where}[{labels.GPU_MEMORY}]", memory, f"may not be combined with {labels.GPU_FRACTION}")
    if devices is not None and not (devices.isdigit() and int(devices) > 0):
        yield _invalid(f"{where}[{labels.GPU_FRACTION_DEVICES}]", devices, "must be a whole number above 0")
    if devices is not None and fraction is None and memory is None:
        rule = f"needs {labels.GPU_FRACTION} or {labels.GPU_MEMORY}"
        yield _invalid(f"{where}[{labels.GPU_FRACTION_DEVICES}]", devices, rule)
    if (fraction is not None or memory is not None) and _asks_for_devices(pod):
        yield _invalid("spec.containers", "nvidia.com/gpu", "a pod that shares GPUs may not ask for whole ones")


def _is_fraction(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def _asks_for_devices(pod: Document) -> bool:
    limits = (dig(c, "resources", "limits", default={}) for c in dig(pod, "spec", "containers", default=()))
    return any(not GPUS.isdisjoint(names) for names in limits)


class SharingPods:
    """Pods of our schedulers that ask for a share of a GPU must ask for one that exists."""

    name = "vpod.kai.scheduler"
    kinds = (POD,)
    operations = ("CREATE",)
    subresources = ("",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def condition(self) -> str:
        """The pods of others are never held up."""
        ours = ", ".join(f"'{name}'" for name in sorted(self.settings.schedulers))
        return f"has(object.spec.schedulerName) && object.spec.schedulerName in [{ours}]"

    def validate(self, request: Request, _view: View) -> Verdict:
        pod = request.new or {}
        if not annotations_of(pod) or scheduler_of(pod) not in self.settings.schedulers:
            return ALLOWED
        causes = list(sharing_causes(pod))
        if not causes:
            return ALLOWED
        words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        message = f'Pod "{request.key.name}" is invalid: {words}'
        return (
            Verdict(Invalid(message, details={"name": request.key.name, "kind": "Pod"}, causes=causes))
            if causes
            else ALLOWED
        )


# --- pods that are born into their gang ---


_groups_of = made_once(group_names)  # the pods of a JobSet are born one after the other


class Births:
    """A JobSet's pod is created with its group on it, which saves the grouper a write per pod.

    Only a courtesy: where the JobSet cannot be seen, or this hook does not run, the grouper tells the pod later.
    """

    name = "mpod.aboard.dev"
    alike = True
    is_courtesy = True
    selector = OF_JOB_SETS
    kinds = (POD,)
    operations = ("CREATE",)
    subresources = ("",)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def mutate(self, request: Request, view: View) -> Document | None:
        pod = request.new or {}
        worn, said = labels_of(pod), annotations_of(pod)
        jobset, role = worn.get(labels.JOBSET_NAME), worn.get(labels.REPLICATED_JOB)
        if not jobset or not role or scheduler_of(pod) not in self.settings.schedulers or has_own_group(pod):
            return None
        owner = view.get(JOB_SET, Key(request.key.namespace, jobset))
        group = _groups_of(owner).get(role) if owner is not None else None
        if group is None or labels.POD_GROUP in said:
            return None
        said, worn = {**said, labels.POD_GROUP: group}, {**worn, labels.SUB_GROUP: role}
        metadata = {**pod["metadata"], "annotations": said, "labels": worn}
        return {**pod, "metadata": metadata}


def hooks(settings: Settings) -> tuple[object, ...]:
    """What main hands to the admission chain."""
    return (Births(settings), PodGroups(), QueueLabels(), Queues(), Topologies(), Shards(), SharingPods(settings))
