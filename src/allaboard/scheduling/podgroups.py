"""PodGroup documents: what a workload's gang should say, and how that changes one that is there already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.kinds import CRON_JOB, POD_GROUP
from allaboard.api.meta import (
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    owners_of,
    refers_to,
    uid_of,
)
from allaboard.scheduling.groupers.families import family
from allaboard.scheduling.groupers.plain import SPARK_SELECTOR
from allaboard.scheduling.groupers.workload import DEFAULT_QUEUE, Group, Workload, constraint_document

# What the labels last said: a queue set by hand on the PodGroup stands until they say something else.
TOLD_QUEUE = f"{labels.ABOARD}queue"
# Whom the gang's words concern: `apiVersion|kind|name|uid` of the topmost owner.
WORKLOAD = f"{labels.ABOARD}workload"
# How long a workload says it runs at most, as a duration; a small gang may then run before a reserved one.
MAX_RUNTIME = f"{labels.ABOARD}max-runtime"
NOT_INHERITED = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
# Fields of a PodGroup that belong to whoever set them first.
KEPT = ("markUnschedulable", "schedulingBackoff")
# Seed 004 writes these classes with a capital letter (ruling 20).
SEED_CLASSES = {"Train": "train", "Build": "build", "Inference": "inference"}

WISHES = frozenset({labels.QUEUE, labels.PRIORITY_CLASS, labels.PREEMPTIBILITY, labels.TOPOLOGY})
# The scheduler whose name says nothing about gangs: its pods get a PodGroup only where there is something to say.
ORDINARY = "default-scheduler"


@dataclass(frozen=True, slots=True)
class TypeDefault:
    """What a cluster's owner decided for one kind of workload."""

    priority_class: str = ""
    preemptibility: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Whose pods we group, and the defaults per kind (`Kind.group`, then `Kind`)."""

    schedulers: frozenset[str]
    defaults: Mapping[str, TypeDefault] = field(default_factory=dict)


def desired(group: Group, workload: Workload, classes: Collection[str], settings: Settings) -> Document:
    """The PodGroup this gang asks for. `classes` are the priority classes there are."""
    pod = next((p for p in workload.pods if name_of(p) in group.members), {})
    queue = queue_of(workload.labels, labels_of(pod))
    metadata: Document = {
        "name": group.name,
        "namespace": namespace_of(pod),
        "ownerReferences": [owner_reference(group.owner, controller=False)],
        "labels": _labels(workload, pod),
        "annotations": {**_annotations(group, workload, pod), TOLD_QUEUE: queue},
    }
    spec: Document = {"minMember": group.min_member, "queue": queue}
    spec["priorityClassName"] = _priority_class(group, workload, pod, classes, settings)
    if preemptibility := _preemptibility(workload, pod, settings):
        spec["preemptibility"] = preemptibility
    if group.constraint:
        spec["topologyConstraint"] = constraint_document(group.constraint)
    if group.roles:
        spec["subGroups"] = [role.document() for role in group.roles]
    return {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": spec}


def merged(existing: Document, wanted: Document) -> Document | None:
    """The existing PodGroup brought up to date, or None where it says all this already."""
    old, new = existing.get("spec") or {}, dict(wanted["spec"])
    if annotations_of(existing).get(TOLD_QUEUE, new["queue"]) == new["queue"]:
        new["queue"] = old.get("queue") or new["queue"]
    new |= {name: old[name] for name in KEPT if name in old}
    worn = {**labels_of(existing), **_moved(existing, wanted)}
    said = {**annotations_of(existing), **annotations_of(wanted)}
    owners = wanted["metadata"]["ownerReferences"]
    if (new, worn, said, owners) == (
        old,
        labels_of(existing),
        annotations_of(existing),
        existing["metadata"].get("ownerReferences"),
    ):
        return None
    metadata = {**existing["metadata"], "labels": worn, "annotations": said, "ownerReferences": owners}
    return {**existing, "metadata": metadata, "spec": new}


def _moved(existing: Document, wanted: Document) -> dict[str, str]:
    """The labels to set; the node pool stays what it was."""
    return {key: value for key, value in labels_of(wanted).items() if key != labels.NODE_POOL or not existing}


def queue_of(*worn: Mapping[str, str]) -> str:
    """The queue the labels name: the owner's first, then the pod's; else the project's; else the default one."""
    if named := _first(worn, labels.QUEUE):
        return named
    project, pool = _first(worn, labels.PROJECT), worn[-1].get(labels.NODE_POOL, "")
    if project:
        return f"{project}-{pool}" if pool else project
    return DEFAULT_QUEUE


def scheduler_of(pod: Document) -> str:
    named = (pod.get("spec") or {}).get("schedulerName")
    return ORDINARY if named is None else str(named)


def has_own_group(pod: Document) -> bool:
    """Somebody else made this pod's group: another PodGroup kind, or a user who wrote the annotation by hand."""
    worn, said = labels_of(pod), annotations_of(pod)
    if labels.POD_GROUP_COSCHEDULING in worn or labels.POD_GROUP_SEED in worn or labels.POD_GROUP_VOLCANO in said:
        return True
    return labels.POD_GROUP in said and not owners_of(pod)


def stands_alone(pod: Document, job: Document | None) -> bool:
    """Whether an ordinary pod needs no PodGroup: a bare pod, or a Job's, about which nobody wishes anything.

    The grouper and the scheduler both ask, so a pod never waits for a group that nobody makes.
    """
    if scheduler_of(pod) != ORDINARY or (owners_of(pod) and job is None) or _is_part(job or {}):
        return False
    worn = labels_of(pod)
    spoken = [*worn, *annotations_of(pod), *labels_of(job or {}), *annotations_of(job or {})]
    return WISHES.isdisjoint(spoken) and labels.JOBSET_NAME not in worn and SPARK_SELECTOR not in worn


def _is_part(job: Document) -> bool:
    """Whether a Job belongs to something larger, as an MPIJob's launcher does; a CronJob's Jobs each stand alone."""
    return any(not refers_to(owner, CRON_JOB) for owner in owners_of(job))


def _first(sources: Iterable[Mapping[str, str]], key: str) -> str:
    return next((source[key] for source in sources if source.get(key)), "")


def _labels(workload: Workload, pod: Document) -> dict[str, str]:
    worn = dict(workload.labels)
    for key in (labels.USER, labels.NODE_POOL):
        if key not in worn and key in labels_of(pod):
            worn[key] = labels_of(pod)[key]
    return worn


def _annotations(group: Group, workload: Workload, pod: Document) -> dict[str, str]:
    said = {labels.USER: annotations_of(pod)[labels.USER]} if labels.USER in annotations_of(pod) else {}
    said[labels.TOP_OWNER] = _top_owner(group.owner)
    top = workload.chain[-1] if workload.chain else group.owner
    said[WORKLOAD] = "|".join((top["apiVersion"], top["kind"], name_of(top), uid_of(top)))
    deadlines = [seconds for owner in workload.chain if (seconds := dig(owner, "spec", "activeDeadlineSeconds"))]
    if deadlines:
        said[MAX_RUNTIME] = f"{min(deadlines)}s"
    return said | {key: value for key, value in workload.annotations.items() if key not in NOT_INHERITED}


def _top_owner(owner: Document) -> str:
    group, _, version = str(owner.get("apiVersion", "")).rpartition("/")
    facts = {"name": name_of(owner), "uid": uid_of(owner), "group": group, "version": version, "kind": owner["kind"]}
    return "".join([f'{key}: "{value}"\n' if not value else f"{key}: {value}\n" for key, value in facts.items()])


def _priority_class(
    group: Group, workload: Workload, pod: Document, classes: Collection[str], settings: Settings
) -> str:
    """The first class that is named and exists: owner's label, pod's label, pod's spec, the kind's default, ours."""
    named: list[str] = [
        group.named_class,
        workload.labels.get(labels.PRIORITY_CLASS, ""),
        *(labels_of(owner).get(labels.PRIORITY_CLASS, "") for owner in workload.chain),
        labels_of(pod).get(labels.PRIORITY_CLASS, ""),
        dig(pod, "spec", "priorityClassName", default=""),
        *(default.priority_class for default in _defaults(workload, settings)),
    ]
    for name in filter(None, named):
        for spelling in (name, SEED_CLASSES.get(name, name)):
            if spelling in classes:
                return spelling
    return group.priority_class


def _preemptibility(workload: Workload, pod: Document, settings: Settings) -> str:
    worn = (workload.labels, *map(labels_of, workload.chain), labels_of(pod))
    said = _first(worn, labels.PREEMPTIBILITY)
    return said or next((d.preemptibility for d in _defaults(workload, settings) if d.preemptibility), "")


def _defaults(workload: Workload, settings: Settings) -> list[TypeDefault]:
    found: list[TypeDefault] = []
    for owner in (workload.owner, *workload.chain) if settings.defaults else ():
        group, kind = family(owner)
        found += [settings.defaults[name] for name in (f"{kind}.{group}", kind) if name in settings.defaults]
    return found
