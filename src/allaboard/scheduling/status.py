"""Status of PodGroups and Queues: how many pods of a gang are where, and what a queue and those below it hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig, same_fields
from allaboard.api.kinds import POD, POD_GROUP, POD_GROUP_COSCHEDULING, PRIORITY_CLASS, QUEUE, Kind
from allaboard.api.meta import annotations_of, is_leaving, key_of, name_of, namespace_of
from allaboard.api.quantity import BadQuantity, Quantity, Resources, parse, resource_list, resources, times, total
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.pauses import Pauses
from allaboard.kube.plan import NOTHING, Patch, Plan, Status
from allaboard.scheduling import metrics
from allaboard.scheduling.facts import NON_PREEMPTIBLE_FROM
from allaboard.scheduling.groups import group_of

WORN = ("labels", "annotations")  # where a pod names its gang
# A gang starts and ends pod by pod; one write after a moment says it all.
GROUP_PAUSE, QUEUE_PAUSE = timedelta(seconds=1), timedelta(seconds=1)
COUNTERS = ("allocated", "pending", "running", "succeeded", "failed")
GPU = "nvidia.com/gpu"


# --- PodGroups ---


def place_of(pod: Document) -> str:
    """Which counter a pod is in."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Running", "Succeeded", "Failed"):
        return str(phase).lower()
    return "allocated" if pod["spec"].get("nodeName") else "pending"


def phase_of(counts: Mapping[str, int], minimum: int) -> str:
    """The gang's own phase: it runs when its minimum runs, and has ended when nothing of it is left to run."""
    active = counts["pending"] + counts["allocated"]
    if counts["running"] >= minimum and counts["running"]:
        return "Running"
    if active or counts["running"] or not (counts["failed"] or counts["succeeded"]):
        return "Pending"
    return "Failed" if counts["failed"] else "Succeeded"


def holdings(pods: Sequence[Document]) -> tuple[Resources, Resources]:
    """What pods that are not over ask for, and what those on nodes hold."""
    active = [pod for pod in pods if place_of(pod) in ("pending", "allocated", "running") and not is_leaving(pod)]
    amounts = [_requests(pod) for pod in active]
    placed = [asked for pod, asked in zip(active, amounts) if pod["spec"].get("nodeName")]
    asked = total(amounts)
    return asked, asked if len(placed) == len(active) else total(placed)


def _requests(pod: Document) -> Resources:
    try:
        said = [(c.get("resources") or {}).get("requests") for c in pod["spec"].get("containers") or ()]
        return total((*map(resources, said), _share(annotations_of(pod))))
    except BadQuantity:
        return {}


def _share(said: Mapping[str, str]) -> Resources:
    """Devices of a pod that shares them: the part of each, as many times as there are devices."""
    fraction, memory = said.get(labels.GPU_FRACTION), said.get(labels.GPU_MEMORY)
    devices = int(said.get(labels.GPU_FRACTION_DEVICES) or 1)
    if fraction:
        return times({GPU: parse(fraction)}, devices)
    return times({"run.ai/gpu.memory": parse(memory)}, devices) if memory else {}


def pod_group_status(group: Document, pods: Sequence[Document], *, preemptible: bool) -> Document:
    """The status fields that follow from the pods. `allocated` counts every pod on a node that is not over."""
    counts = dict.fromkeys(COUNTERS, 0)
    for pod in pods:
        counts[place_of(pod)] += 1
    phase = phase_of(counts, dig(group, "spec", "minMember", default=1))
    counts["allocated"] += counts["running"]
    asked, held = holdings(pods)
    fixed: Resources = {} if preemptible else held
    lists = {"requested": asked, "allocated": held, "allocatedNonPreemptible": fixed}
    return {"phase": phase, **counts, "resourcesStatus": {name: resource_list(r) for name, r in lists.items()}}


def other_status(kind: Kind, group: Document, pods: Sequence[Document]) -> Document:
    """What PodGroups of other kinds say: phases and counters of their own schedulers."""
    ours = pod_group_status(group, pods, preemptible=True)
    ended = "Finished" if kind == POD_GROUP_COSCHEDULING else "Completed"
    phase = {"Succeeded": ended, "Failed": "Failed" if kind == POD_GROUP_COSCHEDULING else "Unknown"}
    counts = {name: ours[name] for name in ("running", "succeeded", "failed")}
    return {"phase": phase.get(ours["phase"], ours["phase"]), **counts}


def changes(old: Document, new: Document) -> Document:
    """What a merge patch must say to turn old into new, for the fields new speaks of."""
    found: Document = {}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict):
            inner = changes(before or {}, {**dict.fromkeys(before or {}), **value})
            if inner or before is None:
                found[name] = inner
        elif before != value:
            found[name] = value
    return found


class PodGroupStatus:
    """Counts the pods of every gang; a key is a PodGroup, with its kind's group before the name."""

    name = "pod-group-controller"

    def __init__(self, reader: Reader, clock: Clock, kinds: Sequence[Kind] = (POD_GROUP,)) -> None:
        self.reader, self.clock = reader, clock
        self.watches = (
            *(Watch(kind, self._keys_of(kind)) for kind in kinds),
            Watch(POD, lambda _pod: self._due),
            Watch(PRIORITY_CLASS, nobody),
        )
        self._kinds = {kind.group: kind for kind in kinds}
        self._pods: dict[Key, dict[Key, Document]] = {}
        self._gangs: dict[Key, Key] = {}  # pod → the gang it is counted in
        self._pauses = Pauses(GROUP_PAUSE)
        self._due: tuple[Key, ...] = ()  # the gangs that the pod being told moved between

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        if kind is not POD:
            return old is None or new is None or old.get("spec") != new.get("spec")
        self._due = tuple([key for key in self._hear_pod(old, new) if not self._pauses.waits(key)])
        return bool(self._due)

    def _hear_pod(self, old: Document | None, new: Document | None) -> list[Key]:
        """Remember a pod with its gang; the gangs whose counters that changes."""
        pod, due = key_of(new or old or {}), []
        before = self._gangs.get(pod)
        if old is not None and new is not None and same_fields(old["metadata"], new["metadata"], WORN):
            after = before
        else:
            after = group_key(new) if new is not None else None
        if before is not None and before != after:
            self._forget(pod, before)
            due.append(before)
        if after is not None and new is not None:
            self._gangs[pod] = after
            self._pods.setdefault(after, {})[pod] = new
            if before != after or old is None or not _counts_alike(old, new):
                due.append(after)
        return due

    def _forget(self, pod: Key, gang: Key) -> None:
        del self._gangs[pod], self._pods[gang][pod]
        if not self._pods[gang]:
            del self._pods[gang]

    def _keys_of(self, kind: Kind) -> Callable[[Document], Iterable[Key]]:
        def keys(group: Document) -> Iterable[Key]:
            key = Key(namespace_of(group), f"{kind.group}/{name_of(group)}")
            uncounted = key not in self._pods and "status" not in group  # made before its pods: nothing to count yet
            return () if uncounted or self._pauses.waits(key) else (key,)

        return keys

    async def reconcile(self, key: Key) -> Plan:
        now = self.clock.now()
        if (due := self._pauses.until(key, now)) is not None:
            return Plan(again=due)
        group_name, _, name = key.name.partition("/")
        kind = self._kinds.get(group_name)
        group = await self.reader.get(kind, Key(key.namespace, name)) if kind else None
        if group is None or kind is None:
            return NOTHING
        pods = list(self._pods.get(key, {}).values())
        new = (
            pod_group_status(group, pods, preemptible=await self._is_preemptible(group))
            if kind == POD_GROUP
            else other_status(kind, group, pods)
        )
        change = changes(group.get("status") or {}, new)
        return (
            Plan(patch=(Patch(kind, key_of(group), {"status": change}, subresource="status"),)) if change else NOTHING
        )

    async def _is_preemptible(self, group: Document) -> bool:
        spec = group.get("spec") or {}
        if spec.get("preemptibility"):
            return bool(spec["preemptibility"] == "preemptible")
        found = await self.reader.get(PRIORITY_CLASS, Key("", spec.get("priorityClassName") or ""))
        return int((found or {}).get("value") or 0) < NON_PREEMPTIBLE_FROM


def group_key(pod: Document) -> Key | None:
    named = group_of(pod)
    return Key(namespace_of(pod), f"{named[0].group}/{named[1]}") if named else None


def _counts_alike(old: Document, new: Document) -> bool:
    """Whether a change of a pod leaves every counter of its gang alone."""
    return place_of(old) == place_of(new) and is_leaving(old) == is_leaving(new)


# --- Queues ---

HELD = ("allocated", "allocatedNonPreemptible", "requested")
Sums = dict[str, Resources]


def sums_of(group: Document) -> Sums:
    """What one PodGroup adds to its queue."""
    return {name: resources(dig(group, "status", "resourcesStatus", name)) for name in HELD}


def _holds_the_same(old: Document, new: Document) -> bool:
    held = dig(old, "status", "resourcesStatus") == dig(new, "status", "resourcesStatus")
    return held and bool(dig(old, "spec", "queue") == dig(new, "spec", "queue"))


def added(left: Sums, right: Sums, sign: int = 1) -> Sums:
    """Sums with more (or less) in them; what comes to nothing is left out."""
    found = {}
    for name in HELD:
        both = total((left.get(name, {}), times(right.get(name, {}), sign)))
        found[name] = {resource: amount for resource, amount in both.items() if amount.nanos}
    return found


def queue_status(children: Sequence[str], sums: Sums) -> Document:
    lists = {name: resource_list(_tidy(sums.get(name, {}))) for name in HELD}
    held = {name: amounts for name, amounts in lists.items() if amounts}
    return ({"childQueues": sorted(children)} if children else {}) | held


def _tidy(amounts: Mapping[str, Quantity]) -> Resources:
    return dict(sorted(amounts.items()))


class QueueStatus:
    """Sums up queues; what PodGroups hold is added and taken away as they change, so a pass only walks the tree."""

    name = "queue-controller"

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock
        self.watches = (Watch(QUEUE, self._keys_of_queue), Watch(POD_GROUP, self._keys_of_group))
        self._own: dict[str, Sums] = {}
        self._parents: dict[str, str] = {}
        self._pauses = Pauses(QUEUE_PAUSE)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        if kind is POD_GROUP:
            return self._hear_group(old, new)
        if new is not None:
            self._parents[name_of(new)] = dig(new, "spec", "parentQueue", default="")
        elif old is not None:
            self._parents.pop(name_of(old), None)
            metrics.forget_queue(name_of(old))
        return True

    def _hear_group(self, old: Document | None, new: Document | None) -> bool:
        """Whether a PodGroup holds something else than it did."""
        if old is not None and new is not None and _holds_the_same(old, new):
            return False
        told = [(group, sign) for group, sign in ((old, -1), (new, 1)) if group is not None and "status" in group]
        for group, sign in told:
            queue = dig(group, "spec", "queue", default="")
            self._own[queue] = added(self._own.get(queue, {}), sums_of(group), sign)
        return bool(told)

    def _upwards(self, name: str) -> Iterator[str]:
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            yield name
            name = self._parents.get(name, "")

    def _keys_of_queue(self, queue: Document) -> Iterable[Key]:
        parent = dig(queue, "spec", "parentQueue", default="")
        return (key_of(queue), *(Key("", name) for name in self._upwards(parent)))

    def _keys_of_group(self, group: Document) -> Iterable[Key]:
        keys = [Key("", name) for name in self._upwards(dig(group, "spec", "queue", default=""))]
        return [key for key in keys if not self._pauses.waits(key)]

    async def reconcile(self, key: Key) -> Plan:
        now = self.clock.now()
        if (due := self._pauses.until(key, now)) is not None:
            return Plan(again=due)
        if (queue := await self.reader.get(QUEUE, key)) is None:
            return NOTHING
        children = [child for child, parent in self._parents.items() if parent == key.name]
        wanted = queue_status(children, self._below(key.name, set()))
        old = queue.get("status") or {}
        new = {**{name: value for name, value in old.items() if name not in (*HELD, "childQueues")}, **wanted}
        metrics.tell_queue(queue, new)
        return NOTHING if new == old else Plan(status=(Status(QUEUE, {**queue, "status": new}),))

    def _below(self, name: str, seen: set[str]) -> Sums:
        """What a queue and all below it hold; a circle of parents is walked once."""
        seen.add(name)
        sums = self._own.get(name, {})
        for child, parent in self._parents.items():
            if parent == name and child not in seen:
                sums = added(sums, self._below(child, seen))
        return sums
