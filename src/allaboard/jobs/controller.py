"""The loops' side of this room: load what a decision needs, and hand it over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from allaboard.api import kinds, labels
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.api.meta import controller_of, is_controlled_by, key_of, labels_of, name_of, namespace_of, stamp, uid_of
from allaboard.jobs import (
    adoption,
    backoff,
    children,
    cronjob,
    inplace,
    job,
    jobset,
    members,
    names,
    placement,
    podgarbage,
    success,
    tracking,
    ttl,
    witness,
)
from allaboard.jobs.draft import ACTION, only_counts
from allaboard.jobs.refusals import Refusals
from allaboard.jobs.story import IN_PLACE, Facts
from allaboard.jobs.tally import has_failed, read_order
from allaboard.jobs.verdict import is_finished
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, controller_key, nobody, own_key
from allaboard.kube.hands import Written
from allaboard.kube.plan import NOTHING, Create, Event, Plan

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_CRON_JOB_OF, _JOB_OF = controller_key(kinds.CRON_JOB), controller_key(kinds.JOB)
_GATHERING = timedelta(seconds=1)  # as long as upstream waits for more news before it looks at a Job's pods
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")


def random_suffix() -> str:
    """Five characters, as the API server appends them to `generateName`."""
    return "".join(random.choices(_LETTERS, k=5))


class JobSetController:
    """JobSet → headless service, volume claims, Jobs; Jobs → JobSet status."""

    name = "jobset-controller"

    def __init__(self, reader: Reader, clock: Clock, gates: Iterable[str] = ()) -> None:
        self.reader, self.clock, self.gates = reader, clock, frozenset(gates)
        self._waits: dict[Key, Key] = {}  # a Job that holds a name → the JobSet that wants it
        self._owner = controller_key(kinds.JOB_SET)
        children = (kinds.JOB, kinds.SERVICE, kinds.CLAIM)
        self.watches = (Watch(kinds.JOB_SET), *(Watch(kind, self._jobsets_of) for kind in children))
        if IN_PLACE in self.gates:
            self.watches += (Watch(kinds.POD, self._jobset_of_pod),)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """A child just made, a service still there, or the counts that a pass of ours wrote tell a JobSet nothing.

        Nor does a claim that somebody deleted: the next pass for another reason makes it again, as upstream does.
        """
        if kind is kinds.POD:
            return True
        if old is None or new is None:
            made = kind is kinds.JOB and new is not None and not new.get("status") and not new["spec"].get("suspend")
            gone = new is None and kind is not kinds.CLAIM
            return gone or kind is kinds.JOB_SET or (kind is kinds.JOB and not made)
        return kind is kinds.JOB or (kind is kinds.JOB_SET and not only_counts(old, new))

    def _jobsets_of(self, one: Document) -> Iterable[Key]:
        """The JobSet that made a child, or the one that waits for a Job's name."""
        waiting = self._waits.get(key_of(one)) if self._waits else None
        return (waiting,) if waiting else self._owner(one)

    def _jobset_of_pod(self, pod: Document) -> Iterable[Key]:
        name = labels_of(pod).get(labels.JOBSET_NAME)
        return (Key(namespace_of(pod), name),) if name else ()

    async def reconcile(self, key: Key) -> Plan:
        document = await self.reader.get(kinds.JOB_SET, key)
        if document is None:
            return NOTHING
        return jobset.decide(document, await self._facts(document), self.clock.now())

    async def _facts(self, document: Document) -> Facts:
        jobs = await self.reader.owned(kinds.JOB, document)
        if success.is_finished(document):  # nothing will be made any more
            return Facts(jobs, gates=self.gates)
        namespace = namespace_of(document)
        service = await self.reader.get(kinds.SERVICE, Key(namespace, names.subdomain(document)))
        claims = [
            names.claim_name(template["metadata"]["name"], name_of(document))
            for _, template in children.claim_templates(document)
        ]
        there = [claim for claim in claims if await self.reader.get(kinds.CLAIM, Key(namespace, claim))]
        taken = await self._taken(document, {name_of(one) for one in jobs})
        pods = await self._pods(document) if inplace.is_asked(document, self.gates) else []
        return Facts(jobs, service is not None, frozenset(there), taken, self.gates, pods)

    async def _pods(self, document: Document) -> list[Document]:
        """The pods of a set that restarts in place: their annotations and restarts are its facts."""
        pods = await self.reader.list(kinds.POD, Select(namespace=namespace_of(document)))
        return [pod for pod in pods if labels_of(pod).get(labels.JOBSET_NAME) == name_of(document)]

    async def _taken(self, document: Document, own: set[str]) -> frozenset[str]:
        """Names this JobSet needs and somebody else holds."""
        found: set[str] = set()
        key = key_of(document)
        self._waits = {name: jobset for name, jobset in self._waits.items() if jobset != key} if self._waits else {}
        for entry in children.replicated_jobs(document):
            for index in range(children.replicas_of(entry)):
                wanted = names.job_name(name_of(document), entry["name"], index)
                if wanted in own:
                    continue
                other = await self.reader.get(kinds.JOB, Key(namespace_of(document), wanted))
                if other is not None and not is_controlled_by(other, document):
                    found.add(wanted)
                    self._waits[key_of(other)] = key
        return frozenset(found)

    def refused(self, create: Create, error: ApiError) -> Iterable[Event]:
        """A child the server would not have is told on the JobSet."""
        owner, name = controller_of(create.document), name_of(create.document)
        if owner is None:
            return ()
        what, reason = {
            kinds.JOB: (f'job "{name}"', "JobCreationFailed"),
            kinds.SERVICE: (f'headless service "{name}"', "HeadlessServiceCreationFailed"),
            kinds.CLAIM: (f'pvc "{name}"', "PVCCreationFailed"),
        }[create.kind]
        about = {"name": owner["name"], "namespace": namespace_of(create.document), "uid": owner["uid"]}
        regarding = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": about}
        return (Event(regarding, reason, f"{what} creation failed with error: {error.message}", "Warning", ACTION),)


class JobController:
    """Job → Pods; Pods → Job status."""

    name = "job-controller"

    def __init__(self, reader: Reader, clock: Clock, suffix: Callable[[], str] = random_suffix) -> None:
        self.reader, self.clock, self.suffix = reader, clock, suffix
        self.watches = (Watch(kinds.JOB), Watch(kinds.POD, self._jobs_of))
        self._records: dict[str, backoff.Record] = {}
        self._refusals = Refusals()
        self._manual: dict[Key, adoption.Picks] = {}  # Jobs whose selector may pick pods of any origin
        self._uids: dict[Key, str] = {}
        self._asked_for: dict[str, frozenset[Key]] = {}  # pods that a pass under way makes for a Job
        self._heard: dict[Key, datetime] = {}  # when the first pod ended that no pass has dealt with

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """A pod we made, its being bound or starting, and the counts we wrote do not wake their Job."""
        if old is None or new is None:
            return kind is kinds.JOB or new is None or not self._is_expected(new)
        if kind is kinds.JOB:
            return not job.only_counts(old, new)
        owner = (controller_of(new) or {}).get("uid", "")
        same = members.essence(old) == members.essence(new)
        if not same and members.has_ended(new):
            for key in _JOB_OF(new):
                self._heard.setdefault(key, self.clock.now())
        return not same or self._refusals.is_open(owner)

    def _is_expected(self, pod: Document) -> bool:
        """Whether a pod is new here because a pass of ours makes it."""
        return key_of(pod) in self._asked_for.get((controller_of(pod) or {}).get("uid", ""), ())

    def wrote(self, key: Key, plan: Plan, _written: Written) -> None:
        """What was asked for is there, and nothing was refused."""
        if plan.create:
            uid = self._uids.get(key, "")
            self._asked_for.pop(uid, None)
            self._refusals.forget(uid)

    def _jobs_of(self, pod: Document) -> Iterable[Key]:
        """The Job that owns a pod, or the Jobs that might adopt an orphan."""
        owner = controller_of(pod)
        if owner is not None:
            return (Key(namespace_of(pod), owner["name"]),) if owner.get("kind") == "Job" else ()
        marks, namespace = labels_of(pod), namespace_of(pod)
        named = [Key(namespace, marks[label]) for label in _JOB_NAMES if label in marks]
        return named + [key for key, fits in self._manual.items() if key.namespace == namespace and fits(marks)]

    async def reconcile(self, key: Key) -> Plan:
        document = await self.reader.get(kinds.JOB, key)
        known, last = self._uids.get(key, ""), NOTHING
        if known and known != uid_of(document or {}):
            self._forget(key)
            last = await self._bereaved(key.namespace, known)
        if document is None or not job.is_ours(document) or is_finished(document):
            self._forget(key)
            return last
        self._uids[key] = uid_of(document)
        if document["spec"].get("manualSelector"):
            self._manual[key] = adoption.picks(document)
        owned = await self.reader.owned(kinds.POD, document)
        nobodys = {"metadata": {"namespace": key.namespace, "uid": ""}}
        if claim := adoption.claim(document, owned, await self.reader.owned(kinds.POD, nobodys)):
            return last + claim
        return last + self._decide(document, members.read_all(owned))

    async def _bereaved(self, namespace: str, uid: str) -> Plan:
        """The Job is gone; its pods may have been looked at while it still seemed to be there."""
        pods = await self.reader.owned(kinds.POD, {"metadata": {"namespace": namespace, "uid": uid}})
        return tracking.release(pods)

    def _decide(self, document: Document, pods: list[members.Member]) -> Plan:
        if testimony := witness.testify(document, pods):  # alone: it changes the revision that the status needs
            return testimony
        uid, key = uid_of(document), key_of(document)
        hold, heard = self._refusals.hold(uid, pods), self._heard.get(key)
        gathering = heard + _GATHERING if heard else None
        chance = job.Chance(self.clock.now(), self._record(document, pods), self.suffix, hold, gathering)
        plan = job.decide(document, pods, chance)
        if gathering is None or plan.again != gathering:
            self._heard.pop(key, None)
        if unsaid := self._refusals.unsaid(uid, pods):
            plan = Plan(events=unsaid) + plan
        if plan.create:
            self._refusals.attempted(uid, pods, plan)
            if all(pod.phase in ("Pending", "Running") for pod in pods):  # one that ended may wait for its successor
                self._asked_for[uid] = frozenset(key_of(create.document) for create in plan.create)
        return plan

    def _record(self, document: Document, pods: list[members.Member]) -> backoff.Record:
        """Failures are remembered after their pods are gone; what is still there is read again after a restart."""
        uid, order = uid_of(document), read_order(document)
        is_new = uid not in self._records
        known = self._records.setdefault(uid, backoff.FRESH)
        done = [pod for pod in pods if pod.phase == "Succeeded"]
        # An untracked pod is news only to a controller that has just begun: else somebody took it out of the count.
        lost = [pod for pod in pods if has_failed(order, pod) and (pod.tracked or (is_new and not pod.leaving))]
        lost = [pod for pod in lost if not members.is_evicted(pod.document)]  # no reason to wait before trying again
        if not done and not lost:
            return known
        self._records[uid] = record = backoff.noted(known, done, lost)
        return record

    def _forget(self, key: Key) -> None:
        self._manual.pop(key, None)
        self._heard.pop(key, None)
        uid = self._uids.pop(key, "")
        self._records.pop(uid, None)
        self._asked_for.pop(uid, None)
        self._refusals.forget(uid)

    def refused(self, create: Create, error: ApiError) -> Iterable[Event]:
        return self._refusals.refused(create.document, error.message, self.clock.now())


class JobTtlController:
    """Finished Jobs are removed when their time has passed."""

    name = "ttl-after-finished-controller"
    watches = (Watch(kinds.JOB, lambda one: (key_of(one),) if ttl.is_mortal(one) and is_finished(one) else ()),)

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        document = await self.reader.get(kinds.JOB, key)
        if document is None:
            return NOTHING
        return ttl.expire(kinds.JOB, document, ttl.finish_time(document, "Complete", "Failed"), self.clock.now())


class TrackingController:
    """Pods that lost their Job lose its finalizer too."""

    name = "job-orphan-controller"
    watches = (Watch(kinds.POD, tracking.suspects), Watch(kinds.JOB, nobody))

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    async def reconcile(self, key: Key) -> Plan:
        pod = await self.reader.get(kinds.POD, key)
        if pod is None:
            return NOTHING
        owner, marks = controller_of(pod), labels_of(pod)
        name = owner["name"] if owner else next((marks[label] for label in _JOB_NAMES if label in marks), "")
        return tracking.decide(pod, await self.reader.get(kinds.JOB, Key(key.namespace, name)))


class PlacementController:
    """Followers of an exclusively placed Job stay with their leader."""

    name = "exclusive-placement-controller"
    watches = (Watch(kinds.POD, placement.scheduled_leaders), Watch(kinds.NODE, nobody))

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        leader = await self.reader.get(kinds.POD, key)
        owner = controller_of(leader) if leader else None
        if leader is None or owner is None:
            return NOTHING
        node = await self.reader.get(kinds.NODE, Key("", leader["spec"].get("nodeName", "")))
        siblings = {"metadata": {"namespace": key.namespace, "uid": owner["uid"]}}
        pods = await self.reader.owned(kinds.POD, siblings)
        return placement.evict_strays(leader, pods, node, stamp(self.clock.now()))


class CronJobController:
    """CronJob → Jobs."""

    name = "cronjob-controller"
    watches = (Watch(kinds.CRON_JOB), Watch(kinds.JOB, _CRON_JOB_OF))

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock
        self._rescheduled: dict[Key, Document] = {}  # due only because their schedule changed; as they were

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """Another schedule is followed from its next moment on; whatever else happens is looked at now."""
        if kind is kinds.CRON_JOB and old is not None and new is not None and cronjob.is_rescheduled(old, new):
            self._rescheduled.setdefault(key_of(new), old)
            return True
        keys = own_key if kind is kinds.CRON_JOB else _CRON_JOB_OF
        for document in filter(None, (old, new)):
            for key in keys(document):
                self._rescheduled.pop(key, None)
        return True

    async def reconcile(self, key: Key) -> Plan:
        document, before = await self.reader.get(kinds.CRON_JOB, key), self._rescheduled.pop(key, None)
        now = self.clock.now()
        if document is None:
            return NOTHING
        if before is not None:
            return cronjob.later(document, now) + cronjob.later(before, now)
        jobs = await self.reader.owned(kinds.JOB, document)
        beside = await self.reader.list(kinds.JOB, Select(namespace=key.namespace))
        others = {name_of(job) for job in beside} - {name_of(job) for job in jobs}
        return cronjob.decide(document, jobs, now, others)

    def refused(self, create: Create, error: ApiError) -> Iterable[Event]:
        """A Job the server would not have is told on its CronJob."""
        owner = controller_of(create.document)
        if owner is None:
            return ()
        about = {"name": owner["name"], "namespace": namespace_of(create.document), "uid": owner["uid"]}
        cron = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": about}
        return (Event(cron, "FailedCreate", f"Error creating job: {error.message}", "Warning"),)


class PodGarbageController:
    """Every twenty seconds: pods of vanished nodes are failed and removed."""

    name = "pod-garbage-collector"
    _everything = Key("", "pods")

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock
        self.watches = (Watch(kinds.NODE, lambda _node: (self._everything,)), Watch(kinds.POD, nobody))
        self._missing: dict[str, datetime] = {}

    async def reconcile(self, _key: Key) -> Plan:
        now = self.clock.now()
        pods = await self.reader.list(kinds.POD)
        missing = podgarbage.missing_nodes(pods, map(name_of, await self.reader.list(kinds.NODE)))
        self._missing = {name: self._missing.get(name, now) for name in missing}
        return podgarbage.sweep(pods, self._missing, now) + Plan(again=now + podgarbage.PERIOD)
