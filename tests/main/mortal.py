"""The real cluster and the real controllers on bad days: a death, a lost answer, watches that stutter and break.

Time stands still but for what a story and resting ask for, so a day is the same every time it is lived.
"""

import asyncio
import contextlib
import json
import random

from allaboard.api import crds, kinds
from allaboard.api.errors import Conflict, Gone, TimedOut
from allaboard.api.meta import is_leaving, key_of, name_of, owners_of, stamp
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import keeping
from allaboard.cluster.memory import Store
from allaboard.cluster.plane import BUILTIN, Cluster
from allaboard.cluster.rules import from_crd
from allaboard.cluster.store import NoJournal
from allaboard.cluster.world import World
from allaboard.jobs import controller as jobs
from allaboard.jobs.admission import hooks as jobset_hooks
from allaboard.jobs.legacy import controller as legacy
from allaboard.kube.client import PatchType
from allaboard.kube.controller import Loop
from allaboard.kube.informer import Informers
from allaboard.testing.clock import FakeClock
from allaboard.training.admission import hooks as trainjob_hooks
from allaboard.training.controller import TrainJobController
from allaboard.training.runtimes import shipped_runtimes

# Our definitions as if they were built in: what a plane learns at its first start, at once.
RULES = [*BUILTIN, *(rules for crd in crds.documents() for rules in from_crd(crd))]
RUNTIMES = [runtime for runtime in shipped_runtimes() if name_of(runtime) in ("torch-distributed", "mpi-distributed")]
OURS = (kinds.TRAIN_JOB, kinds.JOB_SET, kinds.PYTORCH_JOB, kinds.MPI_JOB, kinds.CRON_JOB)
MADE = (*OURS, kinds.JOB, kinds.POD, kinds.SERVICE, kinds.SECRET, kinds.CONFIG_MAP)
QUIET = 80  # turns of the event loop without a write, longer than any stutter


class Death(BaseException):
    """The process of the controllers ends before this write."""


class Fate:
    """What happens at which write, and how watches behave today."""

    def __init__(self, at=(), luck=None):
        self.at, self.writes = dict(at), 0
        self.luck = random.Random(luck) if luck is not None else None

    async def meets(self, call, refusal=Conflict):
        fate = self.at.pop(self.writes, None)
        if fate is Death:
            call.close()
            raise Death
        self.writes += 1
        if fate is Conflict:
            call.close()
            raise refusal("not today")
        answer = await call
        if fate is TimedOut:
            raise TimedOut("the answer was lost")
        return answer


class Mortal(Inside):
    """The client of the controllers. It writes one by one, as over HTTP: between any two the process may die."""

    def __init__(self, cluster, fate):
        super().__init__(cluster)
        self.fate = fate

    async def many(self, writes, *, manager):
        return None

    async def apply_new(self, writes, *, manager):
        return None

    async def delete_many(self, kind, deletions):
        return None

    async def create(self, *place, **options):
        return await self.fate.meets(super().create(*place, **options))

    async def update(self, *place, **options):
        return await self.fate.meets(super().update(*place, **options))

    async def patch(self, *place, **options):
        return await self.fate.meets(super().patch(*place, **options))

    async def apply(self, *place, **options):
        return await self.fate.meets(super().apply(*place, **options))

    async def delete(self, *place, **options):
        # To a deletion 409 means that what was meant is gone; anything else is trouble.
        return await self.fate.meets(super().delete(*place, **options), TimedOut)

    async def watch(self, kind, since, select=None):
        """With bad luck: late, in pieces, some of it twice; and now and then the line or the history breaks."""
        luck, before = self.fate.luck, []
        async for changes in super().watch(kind, since):
            for change in changes if luck else ():
                for _ in range(luck.choice((0, 0, 1, 5, 25))):
                    await asyncio.sleep(0)
                yield [*before, change] if luck.random() < 0.3 else [change]
                before = [change]
                if luck.random() < 0.1:
                    raise luck.choice((Gone("too old"), OSError("the line broke")))
            if not luck:
                yield changes


class Day:
    """One cluster, its controllers, and the hands of a user and a kubelet."""

    def __init__(self, fate):
        self.clock, self.fate = FakeClock(), fate
        hooks = [*trainjob_hooks(self.clock.now), *jobset_hooks(frozenset())]
        self.cluster = Cluster(Store(NoJournal()), hooks, World(now=self.clock.now), RULES)
        self.hand = Inside(self.cluster)
        self.running = None

    async def begin(self):
        await self.hand.create(kinds.NAMESPACE, {"metadata": {"name": "ns"}}, manager="test")
        for runtime in RUNTIMES:
            await self.hand.create(kinds.CLUSTER_TRAINING_RUNTIME, runtime, manager="test")
        self.running = asyncio.create_task(self._work())

    async def end(self):
        self.running.cancel()
        with contextlib.suppress(BaseException):
            await self.running

    async def _work(self):
        """A process: whatever its controllers keep in memory goes with it."""
        client, clock = Mortal(self.cluster, self.fate), self.clock
        informers = Informers(client, clock)
        made = [
            TrainJobController(informers, clock, live=client),
            jobs.JobSetController(informers, clock, frozenset()),
            jobs.JobController(informers, clock),
            jobs.TrackingController(informers),
            jobs.JobTtlController(informers, clock),
            jobs.CronJobController(informers, clock),
            legacy.PyTorchJobController(informers, clock),
            legacy.MpiJobController(informers, clock),
        ]
        loops = [Loop(controller, client, informers, clock) for controller in made]
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            await informers.synced()
            for loop in loops:
                group.create_task(loop.run())

    async def rest(self):
        """Until nothing is written any more, although keys that failed had time to come back."""
        for _ in range(50):
            before = self.cluster.store.revision
            for _ in range(2):
                await self._quiet()
                self.clock.advance(2)
            await self._quiet()
            if self.cluster.store.revision == before:
                return
        raise AssertionError("the controllers do not come to rest")

    async def _quiet(self):
        turns, before = 0, self.cluster.store.revision
        while turns < QUIET:
            await asyncio.sleep(0)
            turns += 1
            if self.running.done():
                with contextlib.suppress(BaseException):
                    self.running.result()
                self.running, turns = asyncio.create_task(self._work()), 0
            if self.cluster.store.revision != before:
                turns, before = 0, self.cluster.store.revision

    # --- hands ---

    async def act(self, script):
        """`node:run launcher:exit/1 +600 reap suspend resume pin`, each followed by rest."""
        for word in script.split():
            if word.startswith("+"):
                self.clock.advance(float(word[1:]))
            elif word == "reap":
                await self._reap()
            elif word in WISHES:
                await self._wish(*WISHES[word])
            else:
                await self._play(word)
            await self.rest()

    async def _reap(self):
        """The kubelet ends every pod that was asked to leave."""
        for pod in await self.hand.list(kinds.POD):
            if is_leaving(pod):
                await self.hand.delete(kinds.POD, key_of(pod), grace=0)

    async def _wish(self, old, new):
        for kind in OURS:
            for job in await self.hand.list(kind):
                if not owners_of(job):
                    body = old if kind in (kinds.PYTORCH_JOB, kinds.MPI_JOB) else new
                    await self.hand.patch(kind, key_of(job), body, type=PatchType.MERGE, manager="user")

    async def _play(self, word):
        part, _, deed = word.partition(":")
        verb, _, code = deed.partition("/")
        for pod in await self.hand.list(kinds.POD):
            if part in name_of(pod) and not is_leaving(pod) and pod["status"]["phase"] in ("Pending", "Running"):
                await self._live(pod, verb, int(code or 0))

    async def _live(self, pod, verb, code):
        now, runs = stamp(self.clock.now()), verb == "run"
        if not pod["spec"].get("nodeName"):
            await self.hand.bind(key_of(pod), "", "n")
            pod = await self.hand.get(kinds.POD, key_of(pod))
        ended = {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now}}
        row = {
            "restartCount": 0,
            "state": {"running": {"startedAt": now}} if runs else ended,
            "image": "i",
            "imageID": "",
        }
        status = {
            **pod["status"],
            "phase": "Running" if runs else ("Failed" if code else "Succeeded"),
            "containerStatuses": [{"name": each["name"], "ready": runs, **row} for each in pod["spec"]["containers"]],
            "conditions": [{"type": "Ready", "status": str(runs), "lastTransitionTime": now}],
        }
        await self.hand.update(kinds.POD, {**pod, "status": status}, manager="kubelet", subresource="status")

    async def told(self):
        """Everything there is at the end, without what differs from one day to the next."""
        return {kind.kind: sorted(map(_told, await self.hand.list(kind))) for kind in MADE}


_POD = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}
_PIN = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": _POD}]}}}
# What a user wishes: of the old kinds, and of the others.
WISHES = {
    "suspend": ({"spec": {"runPolicy": {"suspend": True}}}, {"spec": {"suspend": True}}),
    "resume": ({"spec": {"runPolicy": {"suspend": False}}}, {"spec": {"suspend": False}}),
    "pin": ({}, {"spec": {"runtimePatches": [{"manager": "acme.io/x", "trainingRuntimeSpec": _PIN}]}}),
}


def _told(document):
    metadata, status, spec = document["metadata"], document.get("status") or {}, document.get("spec") or {}
    name = metadata.get("generateName") or metadata["name"]
    conditions = sorted((c["type"], c["status"], c.get("reason", "")) for c in status.get("conditions") or ())
    counted = ("phase", "replicatedJobsStatus", "jobsStatus", "replicaStatuses", "completedIndexes", "failedIndexes")
    counts = sorted((key, value) for key, value in status.items() if isinstance(value, int) or key in counted)
    held = (sorted(metadata.get("finalizers") or ()), is_leaving(document), sorted(document.get("data") or {}))
    return json.dumps((name, held, conditions, counts, spec.get("nodeSelector"), spec.get("suspend")), sort_keys=True)


async def live(story, fate):
    """How a story ends on such a day."""
    (document, script), today = story, Day(fate)
    async with keeping(today.cluster, garbage=True):
        await today.begin()
        kind = next(kind for kind in (*OURS, kinds.JOB) if kind.kind == document["kind"])
        await today.hand.create(kind, document, manager="user")
        await today.rest()
        await today.act(script)
        end = await today.told()
        await today.end()
        return end
