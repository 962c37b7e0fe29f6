"""The same stories through either client, and over a wire that breaks: what stands in the end is the same.

A calm telling, in process, says what should be; the others must arrive there.
"""

import asyncio
import contextlib
import random
import re
from datetime import timedelta

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Conflict, Gone
from allaboard.cluster.access import User
from allaboard.cluster.server import Address, App, Doors, serve
from allaboard.jobs.controller import JobController, JobSetController, TrackingController
from allaboard.kube.clock import SystemClock
from allaboard.kube.controller import Loop
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.informer import Informers
from allaboard.kube.remote import RemoteClient
from allaboard.testing.plane import plane, until
from tests.patience import PATIENCE

from .world import indexed, job, jobset

pytestmark = pytest.mark.slow
KINDS = (kinds.JOB_SET, kinds.JOB, kinds.POD, kinds.SERVICE)
POLICY = {"maxRestarts": 1}
STORIES = {
    "a job succeeds": (indexed(3, parallelism=2), "run exit exit exit"),
    "a job of any pods succeeds": (job(completions=3, parallelism=2), "exit exit exit"),
    "a job fails": (indexed(3, backoffLimit=0), "run fail reap"),
    "a job sleeps and wakes": (indexed(2), "run suspend reap resume run exit exit"),
    "a set succeeds": (jobset("a:2x2 b:1<a"), "run run exit exit exit exit exit"),
    "a set starts again and fails": (jobset("a:2 b:1", failurePolicy=POLICY), "run fail reap run fail reap"),
    "a set starts in order": (jobset("a:1 b:1", startupPolicy={"startupPolicyOrder": "InOrder"}), "run run exit exit"),
    "a set sleeps and wakes": (jobset("a:2"), "run suspend reap resume run exit exit"),
    "a set is deleted": (jobset("a:2x2"), "run delete reap reap"),
}


class Unlucky:
    """A client whose watches break, repeat and jumble, and whose writes are sometimes refused for being late."""

    def __init__(self, client, seed):
        self.client, self.chance = client, random.Random(seed)

    def __getattr__(self, name):
        if name in ("many", "apply_new", "bind_many", "delete_many"):  # one by one, so that each can meet its own luck
            raise AttributeError(name)
        return getattr(self.client, name)

    async def update(self, *words, **options):
        if self.chance.random() < 0.2:
            raise Conflict("the object has been modified; please apply your changes to the latest version")
        return await self.client.update(*words, **options)

    async def patch(self, *words, **options):
        answer = await self.client.patch(*words, **options)
        if self.chance.random() < 0.1:
            raise OSError("the answer was lost")
        return answer

    async def create(self, *words, **options):
        answer = await self.client.create(*words, **options)
        if self.chance.random() < 0.1:
            raise OSError("the answer was lost")
        return answer

    async def watch(self, *words):
        before = []
        async for changes in self.client.watch(*words):
            luck = self.chance.random()
            if luck < 0.1:
                raise OSError("the connection broke")
            if luck < 0.15:
                raise Gone("too old resource version")
            yield self._jumbled(changes) if luck < 0.4 else changes
            if luck > 0.8:
                yield [*before, *changes]
            before = list(changes)

    def _jumbled(self, changes):
        """Other objects' news may overtake; an object's own stay in order."""
        order = sorted({change.document["metadata"]["name"] for change in changes}, key=lambda _: self.chance.random())
        return sorted(changes, key=lambda change: order.index(change.document["metadata"]["name"]))


@contextlib.asynccontextmanager
async def remote(heart):
    """The same server, behind its own door."""

    async def token():
        return "key"

    async with serve(App(heart.cluster, Doors({"key": User("controllers")}, "allow")), Address()) as door:
        client = RemoteClient(Transport(Target("127.0.0.1", door.port), token))
        yield client
        await client.transport.close()


@contextlib.asynccontextmanager
async def working(client):
    """The controllers of this room over a client."""
    clock, informers = SystemClock(), Informers(client, SystemClock())
    made = [JobSetController(informers, clock), JobController(informers, clock), TrackingController(informers)]
    loops = [Loop(controller, client, informers, clock) for controller in made]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informers.run())]
        await informers.synced()
        tasks += [group.create_task(loop.run()) for loop in loops]
        yield lambda: all(loop.queue.idle and not is_due_soon(loop.queue, clock) for loop in loops)
        for task in tasks:
            task.cancel()


def is_due_soon(queue, clock):
    """Whether a key waits for pods that end together; a back-off takes longer."""
    return any(moment - clock.now() < timedelta(seconds=1.5) for moment in queue._at.values())


class Hands:
    """User, scheduler and kubelet of a story, always by the calm way."""

    def __init__(self, client, document):
        self.client, self.kind = client, kinds.JOB_SET if "replicatedJobs" in document["spec"] else kinds.JOB
        metadata = {"name": document["metadata"]["name"], "namespace": "default"}
        self.key, self.document = Key("default", metadata["name"]), {**document, "metadata": metadata}
        self.document |= {"apiVersion": self.kind.api_version, "kind": self.kind.kind}

    async def do(self, deed):
        await getattr(self, deed)()

    async def create(self):
        await self.client.create(self.kind, self.document, manager="user")

    async def delete(self):
        await self.client.delete(self.kind, self.key, propagation="Foreground")

    async def suspend(self, *, asleep=True):
        await self._change(self.kind, self.key, lambda d: d["spec"].update(suspend=asleep))

    async def resume(self):
        await self.suspend(asleep=False)

    async def run(self):
        ready = [{"type": "Ready", "status": "True"}]
        for pod in await self._pods(("Pending",)):
            await self._status(pod, phase="Running", conditions=ready)

    async def exit(self):
        await self._end((await self._pods(("Pending", "Running")))[0], "Succeeded")

    async def fail(self):
        await self._end((await self._pods(("Pending", "Running")))[0], "Failed")

    async def reap(self):
        for pod in await self.client.list(kinds.POD):
            if pod["metadata"].get("deletionTimestamp"):
                if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                    await self._end(pod, "Failed")
                with contextlib.suppress(Exception):
                    await self.client.delete(kinds.POD, Key("default", pod["metadata"]["name"]), grace=0)

    async def _pods(self, phases):
        pods = [p for p in await self.client.list(kinds.POD) if not p["metadata"].get("deletionTimestamp")]
        return sorted((p for p in pods if p["status"]["phase"] in phases), key=lambda p: p["metadata"]["generateName"])

    async def _end(self, pod, phase):
        await self._status(pod, phase=phase, conditions=[])

    async def _status(self, pod, **status):
        key = Key("default", pod["metadata"]["name"])
        await self._change(kinds.POD, key, lambda d: d["status"].update(status), "status")

    async def _change(self, kind, key, change, subresource=""):
        while True:
            document = await self.client.get(kind, key)
            document = {**document, "spec": {**document["spec"]}, "status": {**document.get("status", {})}}
            change(document)
            try:
                return await self.client.update(kind, document, manager="user", subresource=subresource)
            except Conflict:
                continue


async def picture(client):
    """Everything there is, without what differs from telling to telling: times, revisions, random names."""
    found = []
    for kind in KINDS:
        for document in await client.list(kind):
            metadata = document["metadata"]
            if metadata.get("namespace") != "default" or metadata["name"] == "kubernetes":
                continue
            name = metadata.get("generateName") or metadata["name"]
            spec = document["spec"].get("suspend") if kind is not kinds.POD else document["spec"].get("hostname")
            marks = {key: value for key, value in metadata.get("labels", {}).items() if "uid" not in key}
            leaving = bool(metadata.get("deletionTimestamp"))
            found.append(
                (kind.kind, name, leaving, metadata.get("finalizers"), marks, spec, _timeless(document.get("status")))
            )
    return sorted(map(repr, found))


def _timeless(value):
    if isinstance(value, dict):
        return {key: _timeless(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_timeless(entry) for entry in value]
    return "~" if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT|[0-9a-f]{8}-", value) else value


async def tell(document, script, client_of, expected=None):
    """Tell a story; the pictures at rest after each deed. With expectations each deed waits until they are met."""
    pictures = []
    async with plane(controllers=("garbage", "namespaces", "accounts"), admission=("jobset",)) as heart:
        hands = Hands(heart.client, document)
        await until(heart, kinds.SERVICE_ACCOUNT, Key("default", "default"), bool)
        async with client_of(heart) as client, working(client) as is_idle:
            for number, deed in enumerate(["create", *script.split()]):
                await hands.do(deed)
                pictures.append(await rest(heart.client, is_idle, expected[number] if expected else None))
    return pictures


async def rest(client, is_idle, expected):
    """The picture once it is the expected one; with no expectations, once nobody has anything to do any more."""
    seen, since = await picture(client), 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while seen != expected if expected is not None else since < 12:
                await asyncio.sleep(0.025)
                now = await picture(client)
                seen, since = now, since + 1 if now == seen and is_idle() else 0
    return seen


@contextlib.asynccontextmanager
async def inside(heart):
    yield heart.client


def unlucky(seed):
    @contextlib.asynccontextmanager
    async def client_of(heart):
        yield Unlucky(heart.client, seed)

    return client_of


@pytest.mark.parametrize(("document", "script"), STORIES.values(), ids=STORIES)
def test_the_end_is_the_same_over_any_wire(document, script):
    calm = asyncio.run(tell(document, script, inside))
    assert asyncio.run(tell(document, script, remote, calm)) == calm, "over HTTP"
    for seed in range(3):
        assert asyncio.run(tell(document, script, unlucky(seed), calm)) == calm, f"with bad luck {seed}"
