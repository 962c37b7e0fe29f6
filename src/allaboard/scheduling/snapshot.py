"""Events become state: every change the watches tell is noted, and brought into the columns before the next cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import (
    BIND_REQUEST,
    CLAIM,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SCHEDULING_SHARD,
    STORAGE_CLASS,
    TOPOLOGY,
    VOLUME,
    Kind,
)
from allaboard.api.meta import (
    is_leaving,
    key_of,
    name_of,
    namespace_of,
)
from allaboard.scheduling import groups
from allaboard.scheduling.facts import (
    Gang,
    Status,
    Task,
)
from allaboard.scheduling.frame import READ
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.policy import DEFAULT, Policy
from allaboard.scheduling.records import Records, pod_key
from allaboard.scheduling.selfcheck import compare
from allaboard.scheduling.shard import Shard
from allaboard.scheduling.state import State
from allaboard.scheduling.surroundings import drop_stranger, put_stranger

STORAGE = (CLAIM, VOLUME, STORAGE_CLASS)
FOLLOWED = (
    POD, NODE, QUEUE, *groups.KINDS, BIND_REQUEST, TOPOLOGY, PRIORITY_CLASS, JOB, *STORAGE, NAMESPACE, SCHEDULING_SHARD,
)  # fmt: skip

Hearer = Callable[[Document | None, Document | None], None]


class Snapshot:
    """Hears the changes, keeps them as records, and brings what moved into the state before each cycle."""

    def __init__(self, schedulers: frozenset[str], policy: Policy = DEFAULT) -> None:
        self.records, self.shard = Records(schedulers), Shard(policy)
        self.frame = self.records.frame
        self.pods, self.groups, self.requests = self.records.pods, self.records.groups, self.records.requests
        self.state = State()
        self.members: dict[str, dict[Key, None]] = {}
        self._gang_of: dict[Key, str] = {}
        self._told: dict[Key, Task] = {}
        self._strangers: dict[Key, Task] = {}
        self._assumed, shelves = self.records.assumed, self.records.shelves
        self._is_fresh = True  # nothing was laid out yet, or what was is out of date
        self._moved_gangs: set[str] = set()
        self._moved_pods: set[Key] = set()
        hearers: dict[Kind, Hearer] = {
            **{kind: partial(self.frame.hear, kind) for kind in READ},
            **{kind: partial(self._hear_group, kind) for kind in groups.KINDS},
            POD: self._hear_pod,
            BIND_REQUEST: self._hear_request,
            PRIORITY_CLASS: self._hear_class,
            JOB: self._hear_job,
            CLAIM: self._hear_storage(shelves.hear_claim),
            VOLUME: self._hear_storage(shelves.hear_volume),
            STORAGE_CLASS: self._hear_storage(shelves.hear_class),
            NAMESPACE: self._hear_namespace,
            SCHEDULING_SHARD: self.shard.hear,
        }
        self._hearers = {kind.resource: hear for kind, hear in hearers.items()}

    # --- hearing ---

    @property
    def moved(self) -> bool:
        """Whether something was told that the state does not hold yet."""
        told = self._moved_pods or self._moved_gangs or self._is_fresh
        return bool(told) or self.frame.moved or self.shard.news

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        """One change of one document."""
        self._hearers[kind.resource](old, new)

    def _hear_group(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        name = groups.gang_name(kind, namespace_of(document), name_of(document))
        if self.records.note_group(kind, name, new):
            self._moved_gangs.add(name)
            self._moved_pods.update(self.records.named.get(name, ()))

    def _hear_request(self, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        key = key_of(document)
        pod = (document.get("spec") or {}).get("podName")
        key = key if pod is None else Key(key.namespace, pod)
        if new is not None:
            self.requests[key] = new
            self._assumed.request_seen(key)
        else:
            gone = self.requests.pop(key, None)
            if gone is not None and dig(gone, "status", "phase") == "Failed":
                self._assumed.forget(key)
        if not self._is_known(key, new):
            self._moved_pods.add(key)

    def _is_known(self, key: Key, request: Document | None) -> bool:
        """Whether the state holds already what a request says: our own decision, or a pod that has its node."""
        task = self._told.get(key)
        if task is None:
            return False
        if request is None:
            return bool(self.pods.get(key, {"spec": {}})["spec"].get("nodeName"))
        if task.status != Status.BINDING or task.node != (request.get("spec") or {}).get("selectedNode"):
            return False
        return "status" not in request or not dig(request, "status", "phase")

    def _hear_class(self, old: Document | None, new: Document | None) -> None:
        """A class that changes may change every gang's priority; it happens once in a cluster's life."""
        if new is not None:
            self.records.classes[name_of(new)] = new
        elif old is not None:
            self.records.classes.pop(name_of(old), None)
        self._is_fresh = True

    def _hear_job(self, old: Document | None, new: Document | None) -> None:
        document = new or old or {}
        key = key_of(document)
        if new is not None:
            self.records.jobs[key] = new
            self._moved_pods.update(self.records.jobless.pop(key, ()))
        else:
            self.records.jobs.pop(key, None)

    def _hear_storage(self, hear: Callable[[Document | None, Document | None], Iterable[Key]]) -> Hearer:
        """Pods wait for their claims, whatever else they wait for."""

        def heard(old: Document | None, new: Document | None) -> None:
            self._moved_pods.update(key for key in hear(old, new) if key in self.pods)

        return heard

    def _hear_namespace(self, old: Document | None, new: Document | None) -> None:
        """Nothing new is made in a namespace on its way out, so its pods wait for their end."""
        name = name_of(new or old or {})
        leaving = new is not None and is_leaving(new)
        if leaving == (name in self.records.leaving):
            return
        self.records.leaving ^= {name}
        self._moved_pods.update(key for key in self.pods if key.namespace == name)

    def _hear_pod(self, old: Document | None, new: Document | None) -> None:
        key = key_of(new or old or {})
        self.records.note_pod(key, old, new)
        self._moved_pods.add(key)

    # --- bringing the state up to date ---

    def flush(self, now: float) -> bool:
        """Bring everything told into the state; whether it changed."""
        self._give_up(now)
        ruled = self.shard.settle()
        if self._is_fresh or self.frame.is_new(self.state):
            self._rebuild()
            return True
        if ruled:  # another policy may have room for those the last one refused
            self.state.memory.frame_changed()
        changed = self._reframe() or ruled
        for key in sorted(self._moved_pods):
            changed |= self._place(key)
        for name in sorted(self._moved_gangs):
            self._put_gang(name)
            changed = True
        self._moved_pods.clear()
        self._moved_gangs.clear()
        return changed

    def _give_up(self, now: float) -> None:
        """What was decided in vain is open again."""
        self._moved_pods.update(self._assumed.outdated(self.requests, now))
        for gang in self._assumed.released(now):
            self._moved_gangs.add(gang)

    def _reframe(self) -> bool:
        """Bring nodes, queues and topologies up to date; pods on nodes that came or went are told anew."""
        if not self.frame.moved:
            return False
        if self.frame.moved_of(QUEUE):  # a group of another kind takes a queue that exists
            self._moved_gangs.update(name for name, (kind, _) in self.groups.items() if kind != POD_GROUP)
        nodes = self.frame.bring_into(self.state)
        for key in self.records.standing_on(nodes) if nodes else ():
            self._told.pop(key, None)
            if self._strangers.pop(key, None) is not None:
                drop_stranger(self.state, str(key))
            self._moved_pods.add(key)
        return True

    def drift(self) -> list[str]:
        """Rebuild and compare: what a state laid out anew from the documents holds otherwise than the one kept."""
        gangs = (self.records.gang(name, keys) for name, keys in sorted(self.members.items()))
        facts = self.frame.world(tuple(gang for gang in gangs if gang is not None), tuple(self._strangers.values()))
        return compare(self.state, State.build(facts))

    def _rebuild(self) -> None:
        """Lay out everything anew."""
        self.members.clear()
        self._gang_of.clear()
        self._told.clear()
        self._strangers.clear()
        for key, pod in self.pods.items():
            self._sort_in(key, pod)
        # What was promised, and what queues used before, is no document's to tell.
        known, used = self.state.gangs, self.state.memory.ledger
        found = (gang for name in sorted(self.members) if (gang := self._gang(name)) is not None)
        gangs = tuple(_with_promises(gang, known.get(gang.name)) for gang in found)
        self.state = State.build(self.frame.world(gangs, tuple(self._strangers.values())))
        self.state.memory.ledger = used
        self._is_fresh = False
        self.frame.settle()
        self._moved_pods.clear()
        self._moved_gangs.clear()

    def _sort_in(self, key: Key, pod: Document) -> None:
        """Note whose the pod is: a gang's, or (on a node and nobody's) a stranger."""
        name = self.records.home(key, pod)
        if name:
            self.members.setdefault(name, {})[key] = None
            self._gang_of[key] = name
        elif (stranger := self.records.stranger(pod)) is not None:
            self._strangers[key] = stranger

    def _place(self, key: Key) -> bool:
        """Bring one pod into the state; whether anything about it changed."""
        pod, before = self.pods.get(key), self._gang_of.get(key, "")
        name = self.records.home(key, pod) if pod is not None else ""
        changed = (not name or key in self._strangers) and self._place_stranger(key, pod if not name else None)
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
        task = self.records.task(key, pod, name)
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
            # Somebody who was moved has no pods until his owner makes new ones, and then wants what he was promised.
            known = self.state.gangs.get(name)
            if name not in self.groups or known is None or not known.promised:
                self.state.drop_gang(name)

    def _place_stranger(self, key: Key, pod: Document | None) -> bool:
        stranger = self.records.stranger(pod) if pod is not None else None
        if stranger == self._strangers.get(key):
            return False
        if stranger is None:
            del self._strangers[key]
            drop_stranger(self.state, str(key))
        else:
            self._strangers[key] = stranger
            put_stranger(self.state, stranger)
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

    def _gang(self, name: str) -> Gang | None:
        """The gang as it reads now; its tasks are told with it."""
        gang = self.records.gang(name, self.members.get(name, ()))
        for task in gang.tasks if gang is not None else ():
            self._told[pod_key(task.name)] = task
        return gang

    # --- what cycles decided ---

    def assume_bound(self, key: Key, node: str, gpu_groups: tuple[str, ...], now: float) -> None:
        """A cycle gave the pod a node; the state holds that already."""
        self._assumed.bound(key, self.pods[key], node, gpu_groups, now)
        if (task := self._told.get(key)) is not None:
            self._told[key] = self._assumed.about(key, task)

    def assume_leaving(self, key: Key, now: float) -> None:
        """A cycle told the pod to go; the state holds that already."""
        self._assumed.leaving(key, self.pods[key], now)
        if (task := self._told.get(key)) is not None:
            self._told[key] = self._assumed.about(key, task)

    def hold(self, gang: str, until: float) -> None:
        """The server refused what was decided about a gang: it is not tried again before this moment."""
        self._assumed.hold(gang, until)
        self._moved_gangs.add(gang)

    @property
    def next_release(self) -> float | None:
        return self._assumed.next_release

    def doubt(self) -> None:
        """A cycle broke off: the state is made anew from the documents before the next one."""
        self._is_fresh = True


def _with_promises(gang: Gang, known: GangRow | None) -> Gang:
    return replace(gang, promised=known.promised) if known is not None and known.promised else gang
