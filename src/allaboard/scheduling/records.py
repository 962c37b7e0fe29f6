"""The documents scheduling goes by, as last told, and how they read: whose a pod is, and what task it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig, same_fields
from allaboard.api.kinds import JOB, QUEUE, Kind
from allaboard.api.meta import controller_of, is_leaving, labels_of, name_of, namespace_of, refers_to
from allaboard.scheduling import groups, readings
from allaboard.scheduling.assumptions import Assumptions
from allaboard.scheduling.demands import Demands
from allaboard.scheduling.facts import DEFAULT_POD_SET, Gang, Status, SubGroup, Task
from allaboard.scheduling.frame import Frame
from allaboard.scheduling.podgroups import scheduler_of, stands_alone
from allaboard.scheduling.storage import Shelves


def pod_key(task: str) -> Key:
    """A task is named after its pod."""
    namespace, _, name = task.partition("/")
    return Key(namespace, name)


class Records:
    """Everything told, and what was assumed about it. It reads; `Snapshot` hears and brings into the state."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self.schedulers = schedulers
        self.frame = Frame()
        self.pods: dict[Key, Document] = {}
        self.groups: dict[str, tuple[Kind, Document]] = {}
        self.requests: dict[Key, Document] = {}
        self.classes: dict[str, Document] = {}
        self.jobs: dict[Key, Document] = {}
        self.jobless: dict[Key, set[Key]] = {}  # pods whose Job is not seen yet
        self.named: dict[str, set[Key]] = {}  # gang → pods that say they belong to it
        self._names: dict[Key, str] = {}  # pod → gang it says it belongs to
        self.leaving: set[str] = set()  # namespaces on their way out
        self.shelves = Shelves()
        self.assumed = Assumptions()
        self._shapes: dict[str, SubGroup | str] = {}  # gang → its tree, or why its PodGroup cannot be read
        self._roles: dict[str, frozenset[str]] = {}
        self._backed_off: set[str] = set()
        self._demands = Demands()

    def note_group(self, kind: Kind, name: str, group: Document | None) -> bool:
        """Keep a PodGroup, or forget it; whether that says something new."""
        before = self.groups.get(name)
        self._backed_off.discard(name)
        if group is None:
            self.groups.pop(name, None)
            self._roles.pop(name, None)
            self._shapes.pop(name, None)
            return True
        self.groups[name] = (kind, group)
        if groups.is_backed_off(group):
            self._backed_off.add(name)
        if before is not None and not groups.says_other(before[1], group):
            return False
        shape = self._shapes[name] = groups.shape_of(group)
        self._roles[name] = frozenset() if isinstance(shape, str) else groups.roles_of(group, shape)
        return True

    def note_pod(self, key: Key, old: Document | None, new: Document | None) -> None:
        """Keep a pod, or forget it, with the group it names and the claims it mounts."""
        if old is None or new is None or not _wears_the_same(old, new):
            self._note_name(key, groups.named_gang(new) if new is not None else "")
        if new is None:
            self.pods.pop(key, None)
            self.shelves.forget(key)
            self.assumed.forget(key)
        else:
            self.pods[key] = new
            if old is None:
                self.shelves.use(key, new)
            self.assumed.settle(key, new)

    def _note_name(self, key: Key, name: str) -> None:
        before = self._names.pop(key, "")
        if before and before != name:
            self.named[before].discard(key)
            if not self.named[before]:
                del self.named[before]
        if name:
            self._names[key] = name
            self.named.setdefault(name, set()).add(key)

    # --- reading ---

    def home(self, key: Key, pod: Document) -> str:
        """The gang a pod belongs to, known or not; "" for pods of others and those the grouper has yet to see."""
        if scheduler_of(pod) not in self.schedulers:
            return ""
        if name := self._names.get(key):
            return name if self._has_place(pod, name) else ""
        job = _job(pod)
        if job is not None and job not in self.jobs:
            self.jobless.setdefault(job, set()).add(key)
        alone = stands_alone(pod, self.jobs.get(job) if job else None)
        return f"{namespace_of(pod)}/{name_of(pod)}{groups.ALONE}" if alone else ""

    def _has_place(self, pod: Document, name: str) -> bool:
        """A pod on a node whose group is gone, or has no such role, is counted as a stranger."""
        on_a_node = bool(pod["spec"].get("nodeName"))
        return not on_a_node or (name in self.groups and self._pod_set(pod, name) is not None)

    def gang(self, name: str, keys: Iterable[Key]) -> Gang | None:
        """The gang of these pods with its tasks; None without pods, or while its PodGroup is not there."""
        there = {key: self.pods[key] for key in keys if key in self.pods}
        if not there or not (name.endswith(groups.ALONE) or name in self.groups):
            return None
        tasks = tuple([task for key, pod in there.items() if (task := self.task(key, pod, name)) is not None])
        pods = list(there.values())
        empty = self._empty(name, pods)
        limit = empty.max_runtime or _deadline(pods)
        return replace(empty, tasks=tasks, held=self._held(name), max_runtime=limit)

    def _held(self, name: str) -> str:
        """Why a gang is not tried for a while: the server refused what was decided about it."""
        until = self.assumed.held_until(name)
        if until is None:
            return ""
        return f"the server refused its requests to bind; it is tried again at {datetime.fromtimestamp(until, UTC):%X}"

    def _empty(self, name: str, pods: list[Document]) -> Gang:
        if name.endswith(groups.ALONE):
            return groups.lonely(name, pods[0], self.classes)
        kind, group = self.groups[name]
        queue = groups.queue_for(kind, group, pods, self.frame.facts[QUEUE])
        shape = self._shapes[name]
        if isinstance(shape, str):
            return groups.unreadable(name, group, queue)
        return groups.grouped(name, group, queue, self.classes, shape)

    def _pod_set(self, pod: Document, name: str) -> str | None:
        """The role a pod plays in its gang; None where the gang has no such role."""
        roles = self._roles.get(name)
        if not roles or name.endswith(groups.ALONE):  # or a group without sub-groups, or one that is not there
            return DEFAULT_POD_SET
        role = labels_of(pod).get(labels.SUB_GROUP)
        return role if role in roles else None

    def task(self, key: Key, pod: Document, name: str) -> Task | None:
        """The pod as a task of its gang; None where it has no place or no claim to one."""
        role = self._pod_set(pod, name)
        if role is None or (is_leaving(pod) and not pod["spec"].get("nodeName")):
            return None
        request = self.requests.get(key)
        task = readings.task(pod, self._demands.of(pod, self.shelves.of(key, pod)), request, role)
        pending = task.status == Status.PENDING
        barred = pending and (key.namespace in self.leaving or name in self._backed_off)
        if barred or (request is not None and _has_failed(request)):
            return replace(task, status=Status.UNKNOWN, node="")  # until what stands in the way is gone
        if pending and isinstance(defect := self._shapes.get(name), str):
            task = replace(task, demand=replace(task.demand, obstacle=defect))
        return self.assumed.about(key, task)

    def stranger(self, pod: Document) -> Task | None:
        """A pod of others that takes room on a node."""
        if not pod["spec"].get("nodeName") or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
            return None
        return readings.task(pod, self._demands.of(pod), None, DEFAULT_POD_SET)

    def standing_on(self, nodes: set[str]) -> list[Key]:
        """The pods that are on these nodes, or about to be."""
        wanted = {key: dig(request, "spec", "selectedNode") for key, request in self.requests.items()}
        return [key for key, pod in self.pods.items() if (pod["spec"].get("nodeName") or wanted.get(key)) in nodes]

    def failed_requests(self) -> Iterator[tuple[Key, Document]]:
        """Requests that were tried in vain, or whose pod is gone: they make room for a new decision."""
        for key, request in self.requests.items():
            if key not in self.pods or _has_failed(request):
                yield key, request


def _has_failed(request: Document) -> bool:
    return "status" in request and dig(request, "status", "phase") == "Failed"


def _deadline(pods: Iterable[Document]) -> float | None:
    """After how many seconds the last of these pods is stopped; None when one of them may run for ever."""
    limits = [pod["spec"].get("activeDeadlineSeconds") for pod in pods]
    return float(max(limits)) if limits and all(limits) else None


def _wears_the_same(old: Document, new: Document) -> bool:
    """Whether a pod kept its labels and annotations, which name its gang."""
    return same_fields(old["metadata"], new["metadata"], ("uid", "labels", "annotations"))


def _job(pod: Document) -> Key | None:
    """The Job that manages a pod, if one does."""
    owner = controller_of(pod)
    return Key(namespace_of(pod), owner["name"]) if owner and refers_to(owner, JOB) else None
