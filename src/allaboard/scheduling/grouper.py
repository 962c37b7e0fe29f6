"""Pods become gangs: the pods of one owner are looked at together, once, and get their PodGroup."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from allaboard.api import labels
from allaboard.api.documents import Document, Key, same_fields
from allaboard.api.kinds import (
    CRON_JOB,
    JAX_JOB,
    JOB,
    JOB_SET,
    KNOWN,
    MPI_JOB,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    PYTORCH_JOB,
    TF_JOB,
    TRAIN_JOB,
    XGBOOST_JOB,
    Kind,
)
from allaboard.api.meta import (
    annotations_of,
    controller_of,
    is_leaving,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    refers_to,
    uid_of,
)
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.plan import NOTHING, Create, Event, Patch, Plan, Update
from allaboard.scheduling.groupers.families import SKIPPED, family, grouper_of, needs_of
from allaboard.scheduling.groupers.jobset import first_pods, is_startable
from allaboard.scheduling.groupers.kubeflow import JOB_NAME, JOB_ROLE
from allaboard.scheduling.groupers.workload import CannotGroup, Group, Workload
from allaboard.scheduling.podgroups import Settings, desired, has_own_group, merged, scheduler_of, stands_alone

# An owner the watch has not shown yet is looked for again after this; a deleted one takes its pods with it.
OWNER_WAIT = timedelta(seconds=1)
LONGEST_CHAIN = 8
OWNERS = (JOB_SET, TRAIN_JOB, JOB)
# What an embedded plane serves besides.
EMBEDDED_OWNERS = (*OWNERS, CRON_JOB, PYTORCH_JOB, MPI_JOB, TF_JOB, XGBOOST_JOB, JAX_JOB)


# What a grouper reads of a document's metadata; a generation stands for the spec, which pods keep as it is.
OWNER_FACE = ("generation", "labels", "annotations")
FACES = {
    POD.resource: ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp"),
    POD_GROUP.resource: ("generation", "labels"),
}


def workload_key(document: Document) -> Key:
    """Where the pods of one owner meet: the JobSet their label names, else their owner, else the pod itself.

    An MPIJob's launcher is the pod of a Job between them; its label names the MPIJob, where the workers are.
    """
    namespace, worn = namespace_of(document), labels_of(document)
    if labels.JOBSET_NAME in worn:
        return Key(namespace, f"JobSet.{JOB_SET.group}/{worn[labels.JOBSET_NAME]}")
    owner = _owner(document)
    if owner and refers_to(owner, JOB) and worn.get(JOB_ROLE) == "launcher" and JOB_NAME in worn:
        return Key(namespace, f"{MPI_JOB.kind}.{MPI_JOB.group}/{worn[JOB_NAME]}")
    return object_key(namespace, owner) if owner else Key(namespace, f"Pod./{name_of(document)}")


def object_key(namespace: str, reference: Document) -> Key:
    """The key of the workload an owner reference names."""
    group, kind = family(reference)
    return Key(namespace, f"{kind}.{group}/{reference['name']}")


def _owner(document: Document) -> Document | None:
    return controller_of(document) or next(iter(owners_of(document)), None)


def assemble(pods: Sequence[Document], chain: Sequence[Document]) -> Workload:
    """The workload of these pods, whose owners are `chain`, nearest first."""
    if not chain:
        only = {"apiVersion": "v1", "kind": "Pod", **pods[0]}
        return Workload(only, tuple(pods), (), labels_of(only), annotations_of(only))
    top = chain[-1]
    if family(top) not in SKIPPED:
        return Workload(top, tuple(pods), tuple(chain), labels_of(top), annotations_of(top))
    owner = chain[-2] if len(chain) > 1 else {"apiVersion": "v1", "kind": "Pod", **pods[0]}
    worn = {**labels_of(top), **labels_of(owner)}
    said = {**annotations_of(top), **annotations_of(owner)}
    return Workload(owner, tuple(pods), tuple(chain), worn, said)


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is already: PodGroups of the workload's namespace by name, and the names of priority classes."""

    groups: Mapping[str, Document]
    classes: frozenset[str]


def decide(workload: Workload, groups: Sequence[Group], facts: Facts, settings: Settings) -> Plan:
    """Create or change the workload's PodGroups, and tell its pods."""
    plan, job = NOTHING, next((owner for owner in workload.chain[:1] if refers_to(owner, JOB)), None)
    pods = {name_of(pod): pod for pod in workload.pods}
    for group in groups:
        if all(stands_alone(pods[name], job) for name in group.members):
            continue
        wanted = desired(group, workload, facts.classes, settings)
        plan += _one_group(group, wanted, facts.groups.get(group.name), pods)
    return plan


def complain(workload: Workload, error: CannotGroup) -> Plan:
    """Every pod of a workload that cannot be grouped says why."""
    return Plan(events=tuple(Event(pod, "PodGrouperWarning", str(error), "Warning") for pod in workload.pods))


def _one_group(group: Group, wanted: Document, existing: Document | None, pods: dict[str, Document]) -> Plan:
    patches = tuple(_tell(pods[name], group.name, role) for name, role in group.members.items())
    patch = tuple(change for change in patches if change)
    if existing is None:
        return Plan(create=(Create(POD_GROUP, wanted),), patch=patch)
    changed = merged(existing, wanted)
    return Plan(update=(Update(POD_GROUP, changed),) if changed else (), patch=patch)


def _tell(pod: Document, group: str, role: str) -> Patch | None:
    """The pod learns its group and role; a role is only ever added."""
    change: Document = {}
    if annotations_of(pod).get(labels.POD_GROUP) != group:
        change["annotations"] = {labels.POD_GROUP: group}
    if role and labels_of(pod).get(labels.SUB_GROUP) != role:
        change["labels"] = {labels.SUB_GROUP: role}
    if not change or is_leaving(pod):
        return None
    return Patch(POD, key_of(pod), {"metadata": change})


def plural(kind: str) -> str:
    """The plural most kinds have; what we know we look up instead."""
    word = kind.lower()
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


# The first of each name: a later one is another version of it.
_BY_NAME = {(kind.group, kind.kind): kind for kind in reversed(KNOWN)}


def kind_named(reference: Document) -> Kind:
    """The kind an owner reference names, known to us or guessed."""
    group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
    known = _BY_NAME.get((group, reference["kind"]))
    return known or Kind(group, version, reference["kind"], plural(reference["kind"]))


class Grouper:
    """One pass per workload. Pods are remembered by workload as they come, so a pass reads no list.

    `owners` are the kinds whose edits are followed (they must be served by the cluster); owners of other kinds
    are read through `live` when one of their pods appears.
    """

    name = "pod-grouper"

    def __init__(
        self, reader: Reader, clock: Clock, live: Reader, settings: Settings, owners: Sequence[Kind] = OWNERS
    ) -> None:
        self.reader, self.clock, self.live, self.settings = reader, clock, live, settings
        self.owners = frozenset(owners)
        self._pods: dict[Key, dict[str, Document]] = {}
        self._above: dict[str, set[Key]] = {}  # owner uid → workloads below it
        self._chains: dict[Key, list[str]] = {}  # workload → owner uids above it
        self._groups: set[Key] = set()
        self.watches = (
            Watch(POD, self._keys_of_pod),
            Watch(POD_GROUP, self._keys_of_group),
            Watch(PRIORITY_CLASS, nobody),
            *(Watch(kind, self._keys_of_jobset if kind == JOB_SET else self._keys_of_owner) for kind in owners),
        )

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """Remember pods by workload; a group that is new was made by us or found at the start: its pods ask for
        themselves."""
        is_news = old is None or new is None or not _same_face(kind, old, new)
        if kind is POD_GROUP:
            self._remember_group(old, new)
            return is_news and old is not None
        if kind is POD:
            self._remember_pod(old, new, is_news=is_news)
        elif old is not None and new is None:
            for key in list(self._above.get(uid_of(old), ())):
                if key not in self._pods:
                    self._forget(key, "")
        return is_news

    def _remember_group(self, old: Document | None, new: Document | None) -> None:
        if new is not None:
            self._groups.add(key_of(new))
        elif old is not None:
            self._groups.discard(key_of(old))

    def _remember_pod(self, old: Document | None, new: Document | None, *, is_news: bool) -> None:
        after = workload_key(new) if new is not None else None
        if new is not None and after is not None and not is_news:
            known, name = self._pods.get(after, {}), name_of(new)
            if name in known:
                known[name] = new
            return
        if old is not None and (before := workload_key(old)) != after:
            self._forget(before, name_of(old))
        if new is not None and after is not None and self._is_ours(new):
            self._pods.setdefault(after, {})[name_of(new)] = new

    async def reconcile(self, key: Key) -> Plan:
        pods = [pod for _, pod in sorted(self._pods.get(key, {}).items())]
        if not pods:
            return await self._before_pods(key)
        return await self._group(key, pods, await self._chain(pods[0]))

    async def _before_pods(self, key: Key) -> Plan:
        """A JobSet says beforehand what its gang will be: the group is there when the pods come."""
        jobset = await self.reader.get(JOB_SET, Key(key.namespace, key.name.partition("/")[2]))
        if not key.name.startswith("JobSet.") or jobset is None or not is_startable(jobset):
            return NOTHING
        pods = [pod for pod in first_pods(jobset) if self._is_ours(pod)]
        above = await self._chain(jobset)
        typed = {"apiVersion": JOB_SET.api_version, "kind": JOB_SET.kind, **jobset}
        plan = await self._group(key, pods, None if above is None else [typed, *above]) if pods else NOTHING
        return Plan(create=plan.create, update=plan.update, again=plan.again)

    async def _group(self, key: Key, pods: Sequence[Document], chain: Sequence[Document] | None) -> Plan:
        if chain is None:
            return Plan(again=self.clock.now() + OWNER_WAIT)
        self._remember_chain(key, chain)
        workload = await self._related(assemble(pods, chain))
        try:
            groups = grouper_of(workload.owner)(workload)
        except CannotGroup as error:
            return complain(workload, error)
        except (AttributeError, KeyError, TypeError) as error:  # kinds we do not serve are not checked by a schema
            return complain(workload, CannotGroup(f"the workload cannot be read: {error!r}"))
        return decide(workload, groups, await self._facts(key.namespace, groups), self.settings)

    async def _related(self, workload: Workload) -> Workload:
        """The workload with the further objects its family reads."""
        wanted = needs_of(workload)
        found = {key: await self.live.get(kind, key) for kind, key in wanted}
        return dataclasses.replace(workload, related={k: d for k, d in found.items() if d}) if wanted else workload

    async def _facts(self, namespace: str, groups: Sequence[Group]) -> Facts:
        found = {group.name: await self.reader.get(POD_GROUP, Key(namespace, group.name)) for group in groups}
        classes = frozenset(map(name_of, await self.reader.list(PRIORITY_CLASS)))
        return Facts({name: document for name, document in found.items() if document}, classes)

    async def _chain(self, pod: Document) -> list[Document] | None:
        """The owners of a pod, nearest first; None while one of them is not to be seen yet."""
        chain: list[Document] = []
        reference, namespace = _owner(pod), namespace_of(pod)
        while reference and len(chain) < LONGEST_CHAIN:
            kind = kind_named(reference)
            source = self.reader if kind in self.owners else self.live
            owner = await source.get(kind, Key(namespace, reference["name"]))
            if owner is None or uid_of(owner) != reference.get("uid"):
                if kind in self.owners:
                    return None
                owner = _stub(reference, namespace)
            chain.append({"apiVersion": reference["apiVersion"], "kind": reference["kind"], **owner})
            reference = _owner(owner)
        return chain

    def _is_ours(self, pod: Document) -> bool:
        return scheduler_of(pod) in self.settings.schedulers and not has_own_group(pod)

    def _remember_chain(self, key: Key, chain: Sequence[Document]) -> None:
        """A change of any owner above the pods is a change of their workload."""
        self._chains[key] = [uid_of(owner) for owner in chain]
        for uid in self._chains[key]:
            self._above.setdefault(uid, set()).add(key)

    def _forget(self, key: Key, name: str) -> None:
        pods = self._pods.get(key, {})
        pods.pop(name, None)
        if pods:
            return
        self._pods.pop(key, None)
        for uid in self._chains.pop(key, ()):
            self._above.get(uid, set()).discard(key)
            if not self._above.get(uid):
                self._above.pop(uid, None)

    def _keys_of_pod(self, pod: Document) -> Iterable[Key]:
        """A pod that has its group has nothing to ask."""
        said = annotations_of(pod).get(labels.POD_GROUP)
        settled = said is not None and Key(namespace_of(pod), said) in self._groups
        bare = not owners_of(pod) and stands_alone(pod, None)
        return () if settled or bare or not self._is_ours(pod) else (workload_key(pod),)

    def _keys_of_group(self, group: Document) -> Iterable[Key]:
        """A PodGroup that was changed or deleted wakes the workloads below its owner."""
        return sorted(key for owner in owners_of(group) for key in self._above.get(owner.get("uid", ""), ()))

    def _keys_of_jobset(self, jobset: Document) -> Iterable[Key]:
        own = Key(namespace_of(jobset), f"JobSet.{JOB_SET.group}/{name_of(jobset)}")
        return {own, *self._above.get(uid_of(jobset), ())}

    def _keys_of_owner(self, owner: Document) -> Iterable[Key]:
        return sorted(self._above.get(uid_of(owner), ()))


def _stub(reference: Document, namespace: str) -> Document:
    """As much of an owner that cannot be read as its reference tells."""
    return {"metadata": {"name": reference["name"], "namespace": namespace, "uid": reference["uid"]}}


def _same_face(kind: Kind, old: Document, new: Document) -> bool:
    """Whether a change left alone all that a grouper reads: spec, labels, and what an owner's annotations say."""
    return same_fields(old["metadata"], new["metadata"], FACES.get(kind.resource, OWNER_FACE))
