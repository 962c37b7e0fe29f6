"""The controller of TrainJobs: loads what a pass needs to know and hands it to `decide`."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.api.labels import JOBSET_NAME
from allaboard.api.meta import key_of, labels_of, name_of, namespace_of
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, controller_key
from allaboard.kube.hands import Written
from allaboard.kube.plan import NOTHING, Create, Event, Plan
from allaboard.training import lifecycle, metrics
from allaboard.training.facts import Facts, Settings
from allaboard.training.framework import OURS, PLUGINS, Framework
from allaboard.training.job import SNAPSHOT_SUFFIX, TrainJob
from allaboard.training.plugins import coscheduling, flux, mpi, progress, volcano
from allaboard.training.runtime import SNAPSHOT_KEY
from allaboard.training.status import failures, first_failure

MANAGER = "trainer"


def of_failed_pod(pod: Document) -> tuple[Key, ...]:
    """A pod that ended badly wakes its TrainJob, which has the JobSet's name."""
    status = pod.get("status") or {}
    if not status.get("containerStatuses") and not status.get("initContainerStatuses"):
        return ()  # it has not even begun
    name = labels_of(pod).get(JOBSET_NAME)
    return (Key(namespace_of(pod), name),) if name and any(failures(pod)) else ()


OWNED = (
    kinds.JOB_SET,
    kinds.SECRET,
    kinds.POD_GROUP_COSCHEDULING,
    kinds.POD_GROUP_VOLCANO,
)


_owner_of = controller_key(kinds.TRAIN_JOB)


def of_config_map(document: Document) -> Iterable[Key]:
    """A ConfigMap wakes its owner, and one in the place of a snapshot wakes whose snapshot it should be."""
    keys = set(_owner_of(document))
    namespace, name = key_of(document)
    if name.endswith(SNAPSHOT_SUFFIX):
        keys.add(Key(namespace, name.removesuffix(SNAPSHOT_SUFFIX)))
    return sorted(keys)


def _is_just_made(kind: Kind, document: Document) -> bool:
    """What a pass has just made tells its TrainJob nothing; what somebody else put there does."""
    if kind is kinds.CONFIG_MAP:
        namespace, name = key_of(document)
        own = Key(namespace, name.removesuffix(SNAPSHOT_SUFFIX))
        return not name.endswith(SNAPSHOT_SUFFIX) or [*_owner_of(document)] == [own]
    return kind is kinds.JOB_SET and not document.get("status")


def _has_gang(snapshot: Document | None, live: Document | None) -> bool:
    """Whether a PodGroup is to be counted; the frozen runtime is asked without reading it."""
    frozen = str(((snapshot or {}).get("data") or {}).get(SNAPSHOT_KEY) or "")
    return "podGroupPolicy" in frozen or bool(((live or {}).get("spec") or {}).get("podGroupPolicy"))


class TrainJobController:
    """Load the facts and decide. It has no way to write."""

    name = MANAGER

    def __init__(
        self,
        reader: Reader,
        clock: Clock,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        framework: Framework = OURS,
        entropy: Callable[[int], bytes] = os.urandom,
        live: Reader | None = None,
    ) -> None:
        self.reader, self.clock, self.settings = reader, clock, settings
        # Reads past the informers: that a runtime is missing is final, so a watch that lags must not say it.
        self.live = live or reader
        self.framework, self.entropy = framework, entropy
        # Pods go away with a restart, so what ended badly is remembered until it stands in the status.
        self._failures: dict[Key, Document] = {}
        self._suspended: set[Key] = set()
        self._runtimes: dict[Key, str] = {}
        # Of jobs that have all they need: from what. Most passes only follow a status.
        self._whole: dict[Key, tuple[object, ...]] = {}
        self._building: dict[Key, lifecycle.World] = {}
        self.watches = (
            Watch(kinds.TRAIN_JOB),
            *(Watch(kind, _owner_of) for kind in OWNED),
            Watch(kinds.CONFIG_MAP, of_config_map),
            Watch(kinds.POD, of_failed_pod),
            Watch(kinds.LIMIT_RANGE, self._waiting),
            Watch(kinds.RUNTIME_CLASS, self._waiting),
        )

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """Counts that a pass of ours wrote, and what it has just made, tell a TrainJob nothing."""
        if kind is kinds.TRAIN_JOB:
            metrics.count(old, new)
            self._note_suspension(old, new)
            return old is None or new is None or not lifecycle.only_counts(old, new)
        if kind is kinds.POD:
            return new is not None and self._note_failure(new)
        return old is not None or new is None or not _is_just_made(kind, new)

    def _note_failure(self, pod: Document) -> bool:
        """Whether the pod ended badly."""
        keys = of_failed_pod(pod)
        for key in keys:
            if first := first_failure(self._failures.get(key), *failures(pod)):
                self._failures[key] = first
        return bool(keys)

    def _note_suspension(self, old: Document | None, new: Document | None) -> None:
        if old is not None:
            self._suspended.discard(key_of(old))
        if new is not None and TrainJob(new).suspended:
            self._suspended.add(key_of(new))

    def _waiting(self, document: Document) -> Iterable[Key]:
        """Suspended jobs are built anew when what is added to their pods' requests changes (defect 13)."""
        namespace = namespace_of(document)
        return [key for key in sorted(self._suspended) if namespace in ("", key.namespace)]

    async def reconcile(self, key: Key) -> Plan:
        document = await self.reader.get(kinds.TRAIN_JOB, key)
        if document is None:
            self._failures.pop(key, None)
            self._runtimes.pop(key, None)
            self._whole.pop(key, None)
            self._building.pop(key, None)
            return NOTHING
        self._runtimes[key] = TrainJob(document).runtime.name
        world = await self._load(TrainJob(document))
        essence = lifecycle.essence(world)
        # Plugins from outside may look at more than ours do.
        stands = self.framework.plugins == PLUGINS and self._whole.get(key) == essence
        plan = lifecycle.decide(replace(world, stands=stands), self.framework, self.clock.now())
        if plan.apply or plan.create:
            self._building[key] = world
        elif lifecycle.is_whole(world, plan):
            self._whole[key] = essence
        for event in plan.events:
            metrics.ERRORS.labels(event.reason).inc()
        return plan

    def wrote(self, key: Key, plan: Plan, written: Written) -> None:
        """What was built is there as the server answered: the next pass need not build it again to see that."""
        before = self._building.pop(key, None)
        if before is not None and lifecycle.is_whole(world := lifecycle.with_written(before, written), plan):
            self._whole[key] = lifecycle.essence(world)

    async def _load(self, job: TrainJob) -> lifecycle.World:
        snapshot = await self.reader.get(kinds.CONFIG_MAP, Key(job.namespace, job.snapshot_name))
        live = None if snapshot or job.finished else await self._runtime(job)
        existing = await self._existing(job)
        job_set = existing.get((kinds.JOB_SET, job.name))
        classes = await self._priority_classes(live) if live else {}
        facts = Facts(existing, self.settings, await self._authority(), self.entropy)
        if _has_gang(snapshot, live):
            facts = replace(facts, overheads=await self._overheads(), limit_ranges=await self._limit_ranges(job))
        failure = self._failure_of(job)
        return lifecycle.World(job, job_set, snapshot, live, failure, facts, lambda _kind, key: classes.get(key.name))

    def _failure_of(self, job: TrainJob) -> Document | None:
        """What ended badly, unless it was a pod of an earlier job of that name."""
        found = self._failures.get(job.key)
        born = job.document["metadata"].get("creationTimestamp") or ""
        return found if found and (not found.get("time") or found["time"] >= born) else None

    async def _overheads(self) -> dict[str, Document]:
        classes = await self.reader.list(kinds.RUNTIME_CLASS)
        return {name_of(found): (found.get("overhead") or {}).get("podFixed") or {} for found in classes}

    async def _limit_ranges(self, job: TrainJob) -> list[Document]:
        return await self.reader.list(kinds.LIMIT_RANGE, Select(job.namespace))

    async def _runtime(self, job: TrainJob) -> Document | None:
        if not job.runtime.is_supported:
            return None
        if job.runtime.kind == kinds.TRAINING_RUNTIME.kind:
            return await self.live.get(kinds.TRAINING_RUNTIME, Key(job.namespace, job.runtime.name))
        return await self.live.get(kinds.CLUSTER_TRAINING_RUNTIME, Key("", job.runtime.name))

    async def _existing(self, job: TrainJob) -> dict[tuple[Kind, str], Document]:
        """Which of the objects a job may need are there already."""
        wanted = (
            (kinds.JOB_SET, job.name),
            (kinds.SECRET, job.name + mpi.SECRET_SUFFIX),
            (kinds.SECRET, job.name + flux.CURVE_SUFFIX),
            (kinds.CONFIG_MAP, job.name + mpi.HOSTFILE_SUFFIX),
            (kinds.CONFIG_MAP, job.name + flux.SCRIPTS_SUFFIX),
            (kinds.CONFIG_MAP, job.name + progress.CONFIG_SUFFIX),
            (coscheduling.KIND, job.name),
            (volcano.KIND, job.name),
        )
        found = {}
        for kind, name in wanted:
            if document := await self.reader.get(kind, Key(job.namespace, name)):
                found[kind, name] = document
        return found

    async def _authority(self) -> str | None:
        """The certificate pods trust when they report."""
        if progress.GATE not in self.settings.gates:
            return None
        secret = await self.reader.get(kinds.SECRET, Key(self.settings.namespace, self.settings.secret))
        text = ((secret or {}).get("data") or {}).get("ca.crt")
        return base64.b64decode(text).decode() if text else None

    async def _priority_classes(self, runtime: Document) -> dict[str, Document]:
        found = {}
        for name in lifecycle.runtime_priorities(runtime):
            if document := await self.live.get(kinds.PRIORITY_CLASS, Key("", name)):
                found[name] = document
        return found

    def remarks(self, key: Key, plan: Plan) -> Iterable[str]:
        """What the seed's log says about a pass that builds."""
        if any(write.kind is kinds.JOB_SET for write in plan.apply):
            yield f'msg="Building objects" runtime={self._runtimes.get(key, "")}'

    def refused(self, write: Create, error: ApiError) -> Iterable[Event]:
        """What to say when the server does not take what we made."""
        owner = next(iter(write.document["metadata"].get("ownerReferences") or []), None)
        if owner is None:
            return ()
        metadata = {"name": owner["name"], "namespace": namespace_of(write.document), "uid": owner["uid"]}
        job = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": metadata}
        return (lifecycle.complaint(job, error.message),)
