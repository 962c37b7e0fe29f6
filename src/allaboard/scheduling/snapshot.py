"""Events become state: every change the watches tell is noted, and brought into the columns before the next cycle.

What a cycle decided and no watch has shown yet is an *assumption*: a pod told its node, or told to go. It stands
until the document says so itself, or until it turns out that nobody carried it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import (
    BIND_REQUEST,
    CLAIM,
    JOB,
    NODE,
    POD,
    POD_GROUP,
    POD_GROUP_COSCHEDULING,
    POD_GROUP_VOLCANO,
    PRIORITY_CLASS,
    QUEUE,
    TOPOLOGY,
    VOLUME,
    Kind,
)
from allaboard.api.meta import (
    annotations_of,
    controller_of,
    is_leaving,
    key_of,
    labels_of,
    moment_of,
    name_of,
    namespace_of,
    refers_to,
    uid_of,
)
from allaboard.scheduling import readings
from allaboard.scheduling.demands import Demands
from allaboard.scheduling.facts import (
    DEFAULT_POD_SET,
    NON_PREEMPTIBLE_FROM,
    Gang,
    Node,
    Queue,
    Status,
    Task,
    Topology,
    World,
)
from allaboard.scheduling.podgroups import queue_of, scheduler_of, stands_alone
from allaboard.scheduling.state import State
from allaboard.scheduling.storage import Shelves

GROUP_KINDS = (POD_GROUP, POD_GROUP_COSCHEDULING, POD_GROUP_VOLCANO)
FOLLOWED = (POD, NODE, QUEUE, *GROUP_KINDS, BIND_REQUEST, TOPOLOGY, PRIORITY_CLASS, JOB, CLAIM, VOLUME)
DEFAULT_PRIORITY = 50
# An assumption nobody confirms is given up after this many seconds.
PATIENCE = 30.0
ALONE = ".pod"

_Fact = TypeVar("_Fact", Node, Queue, Topology)


def gang_name(kind: Kind, namespace: str, name: str) -> str:
    """A name no other gang has: PodGroups of other kinds wear their group."""
    return f"{namespace}/{name}" if kind == POD_GROUP else f"{namespace}/{name}.{kind.group}"


@dataclass(frozen=True, slots=True)
class Assumed:
    """What was decided about a pod: its node, or (without one) that it goes. `seen` is that a BindRequest was."""

    uid: str
    until: float
    node: str = ""
    gpu_groups: tuple[str, ...] = ()
    seen: bool = False


class Snapshot:
    """The facts of the cluster as they were told, and the state made of them."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self.schedulers = schedulers
        self.state = State()
        self.pods: dict[Key, Document] = {}
        self.groups: dict[str, tuple[Kind, Document]] = {}
        self.requests: dict[Key, Document] = {}
        self.members: dict[str, dict[Key, None]] = {}
        self._nodes: dict[str, Node] = {}
        self._queues: dict[str, Queue] = {}
        self._topologies: dict[str, Topology] = {}
        self._classes: dict[str, Document] = {}
        self._jobs: dict[Key, Document] = {}
        self._shelves = Shelves()
        self._gang_of: dict[Key, str] = {}
        self._named: dict[str, set[Key]] = {}
        self._told: dict[Key, Task] = {}
        self._strangers: dict[Key, Task] = {}
        self._assumed: dict[Key, Assumed] = {}
        self._demands = Demands()
        self._frame_moved = True
        self._moved_gangs: set[str] = set()
        self._moved_pods: set[Key] = set()
        self._hearers: dict[Kind, Callable[[Document | None, Document | None], None]] = {
            POD: self._hear_pod,
            NODE: self._hear_frame(self._nodes, readings.node),
            QUEUE: self._hear_frame(self._queues, readings.queue),
            TOPOLOGY: self._hear_frame(self._topologies, readings.topology),
            BIND_REQUEST: self._hear_request,
            PRIORITY_CLASS: self._hear_class,
            JOB: self._hear_job,
            CLAIM: self._hear_storage,
            VOLUME: self._hear_storage,
        }

    # --- hearing ---

    @property
    def moved(self) -> bool:
        """Whether something was told that the state does not hold yet."""
        return self._frame_moved or bool(self._moved_gangs) or bool(self._moved_pods)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        """One change of one document."""
        if kind in GROUP_KINDS:
            self._hear_group(kind, old, new)
        else:
            self._hearers[kind](old, new)

    def _hear_frame(
        self, facts: dict[str, _Fact], read: Callable[[Document], _Fact]
    ) -> Callable[[Document | None, Document | None], None]:
        """Nodes, queues and topologies: a heartbeat that changes no fact is not news."""

        def hear(old: Document | None, new: Document | None) -> None:
            if new is not None:
                fact = read(new)
                self._frame_moved |= facts.get(fact.name) != fact
                facts[fact.name] = fact
            elif old is not None:
                self._frame_moved |= facts.pop(name_of(old), None) is not None

        return hear

    def _hear_group(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        name = gang_name(kind, namespace_of(document), name_of(document))
        if new is not None:
            before = self.groups.get(name)
            self.groups[name] = (kind, new)
            if before is not None and not _says_other(before[1], new):
                return
        else:
            self.groups.pop(name, None)
        self._moved_gangs.add(name)
        self._moved_pods.update(self._named.get(name, ()))

    def _hear_request(self, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        key = Key(namespace_of(document), dig(document, "spec", "podName", default=name_of(document)))
        assumed = self._assumed.get(key)
        if new is not None:
            self.requests[key] = new
            if assumed is not None:
                self._assumed[key] = replace(assumed, seen=True)
        else:
            gone = self.requests.pop(key, None)
            if gone is not None and dig(gone, "status", "phase") == "Failed":
                self._assumed.pop(key, None)
        self._moved_pods.add(key)

    def _hear_class(self, old: Document | None, new: Document | None) -> None:
        """A class that changes may change every gang's priority; it happens once in a cluster's life."""
        if new is not None:
            self._classes[name_of(new)] = new
        elif old is not None:
            self._classes.pop(name_of(old), None)
        self._frame_moved = True

    def _hear_job(self, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        key = key_of(document)
        first = key not in self._jobs or new is None
        if new is not None:
            self._jobs[key] = new
        else:
            self._jobs.pop(key, None)
        if first and labels.JOBSET_NAME not in labels_of(document):
            waiting = (pod for pod, doc in self.pods.items() if pod.namespace == key.namespace and _job(doc) == key)
            self._moved_pods.update(waiting)

    def _hear_storage(self, old: Document | None, new: Document | None) -> None:
        for key in self._shelves.hear(old, new):
            if key in self.pods:
                self._moved_pods.add(key)

    def _hear_pod(self, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        key = key_of(document)
        self._name(key, old, new)
        if new is None:
            self._leave(key)
        else:
            self.pods[key] = new
            self._shelves.use(key, new)
            self._settle(key, new)
        self._moved_pods.add(key)

    def _name(self, key: Key, old: Document | None, new: Document | None) -> None:
        """Remember which pods say they belong to a group, whether it exists or not."""
        before, after = (_group_name(pod) if pod is not None else "" for pod in (old, new))
        if before and before != after and before in self._named:
            self._named[before].discard(key)
            if not self._named[before]:
                del self._named[before]
        if after:
            self._named.setdefault(after, set()).add(key)

    def _leave(self, key: Key) -> None:
        self.pods.pop(key, None)
        self._shelves.forget(key)
        self._assumed.pop(key, None)

    def _settle(self, key: Key, pod: Document) -> None:
        """Drop the assumption that the pod's own document confirms, or that was about a namesake."""
        assumed = self._assumed.get(key)
        if assumed is None:
            return
        confirmed = pod["spec"].get("nodeName") if assumed.node else is_leaving(pod)
        if confirmed or assumed.uid != uid_of(pod):
            del self._assumed[key]

    # --- bringing the state up to date ---

    def flush(self, now: float) -> bool:
        """Bring everything told into the state; whether it changed."""
        self._give_up(now)
        if self._frame_moved:
            self._rebuild()
            return True
        changed = False
        for key in sorted(self._moved_pods):
            changed |= self._place(key)
        for name in sorted(self._moved_gangs):
            self._put_gang(name)
            changed = True
        self._moved_pods.clear()
        self._moved_gangs.clear()
        return changed

    def _give_up(self, now: float) -> None:
        """Forget binds that no request was ever seen for (the plan failed), and whatever took too long."""
        for key, assumed in list(self._assumed.items()):
            lost = assumed.node and not assumed.seen and key not in self.requests
            if lost or now >= assumed.until:
                del self._assumed[key]
                self._moved_pods.add(key)

    def _rebuild(self) -> None:
        """The frame moved: lay out everything anew."""
        self.members.clear()
        self._gang_of.clear()
        self._told.clear()
        self._strangers.clear()
        for key, pod in self.pods.items():
            self._sort_in(key, pod)
        gangs = tuple(gang for name in sorted(self.members) if (gang := self._gang(name)) is not None)
        self.state = State.build(
            World(
                nodes=tuple(self._nodes.values()),
                queues=tuple(self._queues.values()),
                gangs=gangs,
                topologies=tuple(self._topologies.values()),
                strangers=tuple(self._strangers.values()),
            )
        )
        self._frame_moved = False
        self._moved_pods.clear()
        self._moved_gangs.clear()

    def _sort_in(self, key: Key, pod: Document) -> None:
        """Note whose the pod is: a gang's, or (on a node and nobody's) a stranger."""
        name = self._home(pod)
        if name:
            self.members.setdefault(name, {})[key] = None
            self._gang_of[key] = name
        elif (stranger := self._stranger(pod)) is not None:
            self._strangers[key] = stranger

    def _place(self, key: Key) -> bool:
        """Bring one pod into the state; whether anything about it changed."""
        pod, before = self.pods.get(key), self._gang_of.get(key, "")
        name = self._home(pod) if pod is not None else ""
        changed = self._place_stranger(key, pod if not name else None)
        if before and before != name:
            self._take_out(key, before)
            changed = True
        if not name or pod is None:
            return changed
        self.members.setdefault(name, {})[key] = None
        self._gang_of[key] = name
        if name not in self.state.gangs or name in self._moved_gangs:
            self._moved_gangs.add(name)
            return True
        return self._put_task(key, pod, name) or changed

    def _put_task(self, key: Key, pod: Document, name: str) -> bool:
        task = self._task(key, pod, name)
        if task == self._told.get(key):
            return False
        if task is None:
            self.state.drop_task(str(key))
            self._told.pop(key, None)
        else:
            self._told[key] = task
            self.state.put_task(name, task)
        return True

    def _take_out(self, key: Key, name: str) -> None:
        self.state.drop_task(str(key))
        self._told.pop(key, None)
        self._gang_of.pop(key, None)
        members = self.members.get(name, {})
        members.pop(key, None)
        if not members:
            self.members.pop(name, None)
            self.state.drop_gang(name)

    def _place_stranger(self, key: Key, pod: Document | None) -> bool:
        stranger = self._stranger(pod) if pod is not None else None
        if stranger == self._strangers.get(key):
            return False
        if stranger is None:
            del self._strangers[key]
            self.state.drop_stranger(str(key))
        else:
            self._strangers[key] = stranger
            self.state.put_stranger(stranger)
        return True

    def _put_gang(self, name: str) -> None:
        gang = self._gang(name)
        if gang is not None:
            self.state.put_gang(gang)
            return
        self.state.drop_gang(name)
        for key in list(self.members.get(name, ())):  # the group is gone: its pods on nodes still take room
            self._told.pop(key, None)
            self._place_stranger(key, self.pods.get(key))

    # --- reading ---

    def _home(self, pod: Document) -> str:
        """The gang a pod belongs to, known or not; "" for pods of others and those the grouper has yet to see."""
        if scheduler_of(pod) not in self.schedulers:
            return ""
        if name := _group_name(pod):
            return name if self._has_place(pod, name) else ""
        alone = stands_alone(pod, self._jobs.get(job) if (job := _job(pod)) else None)
        return f"{namespace_of(pod)}/{name_of(pod)}{ALONE}" if alone else ""

    def _has_place(self, pod: Document, name: str) -> bool:
        """A pod on a node whose group is gone, or has no such role, is counted as a stranger."""
        on_a_node = bool(pod["spec"].get("nodeName"))
        return not on_a_node or (name in self.groups and self._pod_set(pod, name) is not None)

    def _gang(self, name: str) -> Gang | None:
        keys = [key for key in self.members.get(name, ()) if key in self.pods]
        if not keys or not (name.endswith(ALONE) or name in self.groups):
            return None
        if name.endswith(ALONE):
            gang = self._lonely(name, self.pods[keys[0]])
        else:
            gang = self._grouped(name, *self.groups[name], [self.pods[key] for key in keys])
        tasks = []
        for key in keys:
            if (task := self._task(key, self.pods[key], name)) is not None:
                self._told[key] = task
                tasks.append(task)
        return replace(gang, tasks=tuple(tasks))

    def _lonely(self, name: str, pod: Document) -> Gang:
        priority = self._priority(dig(pod, "spec", "priorityClassName", default=""))
        preemptible = priority < NON_PREEMPTIBLE_FROM
        queue = queue_of(labels_of(pod))
        return Gang(name, queue, priority=priority, preemptible=preemptible, created=readings.created(pod))

    def _grouped(self, name: str, kind: Kind, group: Document, pods: list[Document]) -> Gang:
        spec, said = group.get("spec") or {}, annotations_of(group)
        priority = self._priority(spec.get("priorityClassName") or "")
        explicit = spec.get("preemptibility") or ""
        preemptible = explicit == "preemptible" if explicit else priority < NON_PREEMPTIBLE_FROM
        return Gang(
            name,
            self._queue(kind, group, pods),
            tree=readings.tree(group),
            priority=priority,
            preemptible=preemptible,
            created=readings.created(group),
            last_start=_moment(said.get(labels.LAST_START)),
            stale_since=_moment(said.get(labels.STALE_SINCE)),
        )

    def _queue(self, kind: Kind, group: Document, pods: list[Document]) -> str:
        """A group of another kind has no queue of ours unless it names one that exists."""
        named = dig(group, "spec", "queue", default="")
        if kind == POD_GROUP or named in self._queues:
            return str(named)
        return queue_of(labels_of(group), *(labels_of(pod) for pod in pods[:1]))

    def _priority(self, name: str) -> int:
        """The class's value; else the cluster's default class; else 50. Upstream: pod_group_info."""
        found = self._classes.get(name) or next((c for c in self._classes.values() if c.get("globalDefault")), None)
        return int(found.get("value") or 0) if found else DEFAULT_PRIORITY

    def _pod_set(self, pod: Document, name: str) -> str | None:
        """The role a pod plays in its gang; None where the gang has no such role."""
        if name.endswith(ALONE) or name not in self.groups:
            return DEFAULT_POD_SET
        roles = {r.get("name") for r in dig(self.groups[name][1], "spec", "subGroups", default=())}
        role = labels_of(pod).get(labels.SUB_GROUP) if roles else DEFAULT_POD_SET
        return role if role in roles or not roles else None

    def _task(self, key: Key, pod: Document, name: str) -> Task | None:
        """The pod as a task; None where it has no place or no claim to one."""
        role = self._pod_set(pod, name)
        if role is None or (is_leaving(pod) and not pod["spec"].get("nodeName")):
            return None
        request = self.requests.get(key)
        task = readings.task(pod, self._demands.of(pod, self._shelves.of(key, pod)), request, role)
        if request is not None and dig(request, "status", "phase") == "Failed":
            return replace(task, status=Status.GATED, node="")  # until the failed request is gone
        return self._as_assumed(key, task)

    def _as_assumed(self, key: Key, task: Task) -> Task:
        assumed = self._assumed.get(key)
        if assumed is None:
            return task
        if not assumed.node:
            return replace(task, status=Status.RELEASING) if task.node else task
        if task.status in (Status.PENDING, Status.GATED):
            return replace(task, status=Status.BINDING, node=assumed.node, gpu_groups=assumed.gpu_groups)
        return task

    def _stranger(self, pod: Document) -> Task | None:
        """A pod of others that takes room on a node."""
        if not pod["spec"].get("nodeName") or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
            return None
        return readings.task(pod, self._demands.of(pod), None, DEFAULT_POD_SET)

    # --- what cycles decided ---

    def assume_bound(self, key: Key, node: str, gpu_groups: tuple[str, ...], now: float) -> None:
        """A cycle gave the pod a node; the state holds that already."""
        self._assumed[key] = Assumed(uid_of(self.pods[key]), now + PATIENCE, node, gpu_groups)
        if (task := self._told.get(key)) is not None:
            self._told[key] = self._as_assumed(key, task)

    def assume_leaving(self, key: Key, now: float) -> None:
        """A cycle told the pod to go; the state holds that already."""
        self._assumed[key] = Assumed(uid_of(self.pods[key]), now + PATIENCE)
        if (task := self._told.get(key)) is not None:
            self._told[key] = self._as_assumed(key, task)

    def failed_requests(self) -> Iterator[tuple[Key, Document]]:
        """Requests that were tried in vain, or whose pod is gone: they make room for a new decision."""
        for key, request in self.requests.items():
            if dig(request, "status", "phase") == "Failed" or key not in self.pods:
                yield key, request


def _group_name(pod: Document) -> str:
    """The gang a pod says it belongs to."""
    named = readings.group_of(pod)
    return gang_name(named[0], namespace_of(pod), named[1]) if named else ""


def _job(pod: Document) -> Key | None:
    """The Job that manages a pod, if one does."""
    owner = controller_of(pod)
    return Key(namespace_of(pod), owner["name"]) if owner and refers_to(owner, JOB) else None


def _moment(text: str | None) -> float | None:
    return moment_of(text).timestamp() if text else None


def _says_other(old: Document, new: Document) -> bool:
    """Whether a PodGroup changed in what the scheduler reads: not its status."""
    before, after = old["metadata"], new["metadata"]
    same = all(before.get(name) == after.get(name) for name in ("uid", "labels", "annotations"))
    return not same or old.get("spec") != new.get("spec")
