"""PodGroups of all three kinds, and pods without one, as gangs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from allaboard.api import labels
from allaboard.api.documents import Document, dig, same_fields
from allaboard.api.kinds import POD_GROUP, POD_GROUP_COSCHEDULING, POD_GROUP_VOLCANO, Kind
from allaboard.api.meta import annotations_of, labels_of, namespace_of
from allaboard.scheduling.durations import seconds, seconds_or_none
from allaboard.scheduling.facts import NON_PREEMPTIBLE_FROM, Gang, SubGroup
from allaboard.scheduling.podgroups import MAX_RUNTIME, queue_of
from allaboard.scheduling.readings import created, leaves, moment, tree

KINDS = (POD_GROUP, POD_GROUP_COSCHEDULING, POD_GROUP_VOLCANO)
DEFAULT_PRIORITY = 50
OURS = frozenset({labels.LAST_START, labels.STALE_SINCE})
UNREADABLE_GROUP = "its PodGroup cannot be read"
# A pod that needs no PodGroup is a gang of one, named after it.
ALONE = ".pod"


def gang_name(kind: Kind, namespace: str, name: str) -> str:
    """A name no other gang has: PodGroups of other kinds wear their group."""
    return f"{namespace}/{name}" if kind is POD_GROUP else f"{namespace}/{name}.{kind.group}"


def group_of(pod: Document) -> tuple[Kind, str] | None:
    """Which PodGroup, of which kind, a pod says it belongs to (ruling 8)."""
    worn, said = labels_of(pod), annotations_of(pod)
    if name := said.get(labels.POD_GROUP) or worn.get(labels.POD_GROUP):
        return POD_GROUP, name
    if name := worn.get(labels.POD_GROUP_COSCHEDULING) or worn.get(labels.POD_GROUP_SEED):
        return POD_GROUP_COSCHEDULING, name
    if name := said.get(labels.POD_GROUP_VOLCANO):
        return POD_GROUP_VOLCANO, name
    return None


def named_gang(pod: Document) -> str:
    """The gang a pod says it belongs to, known or not; "" where it names none."""
    named = group_of(pod)
    return gang_name(named[0], namespace_of(pod), named[1]) if named else ""


def roles_of(group: Document, shape: SubGroup) -> frozenset[str]:
    """The roles its pods may play; none where the group has no sub-groups."""
    return frozenset(leaves(shape)) if dig(group, "spec", "subGroups") else frozenset()


def says_other(old: Document, new: Document) -> bool:
    """Whether a PodGroup changed in what the scheduler reads."""
    same = same_fields(old["metadata"], new["metadata"], ("uid", "labels"))
    if not same or old.get("spec") != new.get("spec") or is_backed_off(old) != is_backed_off(new):
        return True
    return _said(old) != _said(new)


def _said(group: Document) -> dict[str, str]:
    """Annotations without the times that cycles write: the state knows those already."""
    return {key: value for key, value in annotations_of(group).items() if key not in OURS}


def is_backed_off(group: Document) -> bool:
    """A group that asked to be tried once only, and was refused: it waits until its condition is cleared."""
    if dig(group, "spec", "schedulingBackoff") != 1:
        return False
    conditions = dig(group, "status", "schedulingConditions", default=[])
    return any(c.get("status") == "True" for c in conditions[-1:])


def priority(name: str, classes: Mapping[str, Document]) -> int:
    """The class's value; else the cluster's default class; else 50. Upstream: pod_group_info."""
    found = classes.get(name) or next((c for c in classes.values() if c.get("globalDefault")), None)
    return int(found.get("value") or 0) if found else DEFAULT_PRIORITY


def lonely(name: str, pod: Document, classes: Mapping[str, Document]) -> Gang:
    """A pod on its own, as a gang without its task."""
    rank = priority(dig(pod, "spec", "priorityClassName", default=""), classes)
    preemptible = rank < NON_PREEMPTIBLE_FROM
    return Gang(name, queue_of(labels_of(pod)), priority=rank, preemptible=preemptible, created=created(pod))


def grouped(
    name: str, group: Document, queue: str, classes: Mapping[str, Document], shape: SubGroup | None = None
) -> Gang:
    """A PodGroup as a gang without its tasks; `shape` is its tree, where that was read before."""
    spec, said = group.get("spec") or {}, annotations_of(group)
    rank = priority(spec.get("priorityClassName") or "", classes)
    explicit, grace = spec.get("preemptibility") or "", spec.get("stalenessGracePeriod")
    return Gang(
        name,
        queue,
        tree=shape or tree(group),
        priority=rank,
        preemptible=explicit == "preemptible" if explicit else rank < NON_PREEMPTIBLE_FROM,
        created=created(group),
        last_start=moment(said.get(labels.LAST_START)),
        stale_since=moment(said.get(labels.STALE_SINCE)),
        stale_grace=(-1.0 if grace.startswith("-") else seconds(grace)) if grace else None,
        max_runtime=seconds_or_none(said.get(MAX_RUNTIME)) or None,
    )


def shape_of(group: Document) -> SubGroup | str:
    """The tree of a PodGroup, or why the group cannot be read."""
    try:
        return grouped("", group, "", {}).tree
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{UNREADABLE_GROUP}: {error}"


def defect(group: Document) -> str:
    """Why a PodGroup cannot be read; "" where it can."""
    shape = shape_of(group)
    return shape if isinstance(shape, str) else ""


def unreadable(name: str, group: Document, queue: str) -> Gang:
    """A PodGroup that cannot be read: its pods are known, and wait."""
    return Gang(name, queue, created=created(group))


def queue_for(kind: Kind, group: Document, pods: Collection[Document], queues: Collection[str]) -> str:
    """A group of another kind has no queue of ours unless it names one that exists."""
    named = str(dig(group, "spec", "queue", default=""))
    if kind == POD_GROUP or named in queues:
        return named
    return queue_of(labels_of(group), *(labels_of(pod) for pod in list(pods)[:1]))
