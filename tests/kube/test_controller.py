"""The loop, over both backends: plans are carried out, refused creations are told, failures come back."""

import asyncio
import secrets
from contextlib import asynccontextmanager

import pytest
from tests.patience import eventually

from allaboard.api.documents import Key, dig
from allaboard.api.errors import Conflict
from allaboard.api.kinds import CONFIG_MAP, EVENT, JOB, POD, SECRET
from allaboard.api.meta import key_of, name_of, owner_reference
from allaboard.kube.clock import SystemClock
from allaboard.kube.controller import RESYNC, Loop, Watch, controller_key, nobody
from allaboard.kube.events import Recorder
from allaboard.kube.hands import Hands
from allaboard.kube.informer import Informers
from allaboard.kube.plan import NOTHING, Create, Delete, Event, Patch, Plan, Status
from allaboard.testing.backends import BACKENDS, client_of
from allaboard.testing.clock import FakeClock

COPIES = 3
both = pytest.mark.parametrize("backend", BACKENDS)


class Copier:
    """Makes copies of every config map that asks for some; names are generated, so a second look must see the first."""

    name = "copier"
    watches = (Watch(CONFIG_MAP), Watch(CONFIG_MAP, controller_key(CONFIG_MAP)))

    def __init__(self, reader):
        self.reader, self.passes = reader, 0

    async def reconcile(self, key):
        self.passes += 1
        document = await self.reader.get(CONFIG_MAP, key)
        if document is None or "copies" not in document.get("data", {}):
            return NOTHING
        there = await self.reader.owned(CONFIG_MAP, document)
        missing = int(document["data"]["copies"]) - len(there)
        events = (Event(document, "Copied", f"{missing} copies"),) if missing > 0 else ()
        extra = tuple(Delete(CONFIG_MAP, key_of(copy)) for copy in there[missing:]) if missing < 0 else ()
        copies = tuple(Create(CONFIG_MAP, copy_of(document)) for _ in range(missing))
        return Plan(create=copies, delete=extra, events=events)


def copy_of(document):
    metadata = {"generateName": "copy-", "namespace": "default", "ownerReferences": [owner_reference(document)]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def original(name, copies):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"copies": str(copies)}}


@asynccontextmanager
async def working(client, make, clock=None):
    clock = clock or SystemClock()
    informers = Informers(client, clock)
    controller = make(informers)
    loop = Loop(controller, client, informers, clock)
    tasks = [asyncio.create_task(informers.run())]
    await informers.synced()
    tasks.append(asyncio.create_task(loop.run()))
    try:
        yield loop
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@both
def test_a_pass_sees_its_own_writes_so_nothing_is_made_twice(backend):
    async def story():
        async with client_of(backend) as client, working(client, Copier) as loop:
            for number in range(10):
                await client.create(CONFIG_MAP, original(f"o{number}", COPIES), manager="me")

            async def copies():
                found = [d for d in await client.list(CONFIG_MAP) if name_of(d).startswith("copy-")]
                return found if len(found) >= 10 * COPIES and loop.queue.idle else None

            found = await eventually(copies)
            events = await eventually(lambda: client.list(EVENT))
            return len(found), {dig(event, "reason") for event in events}

    assert asyncio.run(story()) == (10 * COPIES, {"Copied"})


class Refused:
    """Wants something the server refuses."""

    name = "refused"
    watches = (Watch(CONFIG_MAP),)

    def __init__(self, reader):
        self.reader = reader

    async def reconcile(self, key):
        document = await self.reader.get(CONFIG_MAP, key)
        if document is None or name_of(document) != "o":
            return NOTHING
        metadata = {"name": "Not A Name", "namespace": "default"}
        return Plan(create=(Create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),))

    def refused(self, write, error):
        return (Event({**original("o", 0)}, "Refused", error.message, "Warning"),)


@both
def test_a_refused_creation_becomes_words_and_comes_back(backend):
    async def story():
        async with client_of(backend) as client, working(client, Refused) as loop:
            await client.create(CONFIG_MAP, original("o", 0), manager="me")
            events = await eventually(lambda: client.list(EVENT))
            await eventually(lambda: _true(loop.queue.count.retries > 0))
            return events[0]["reason"], "Not A Name" in events[0]["message"]

    assert asyncio.run(story()) == ("Refused", True)


async def _true(value):
    return value


@both
def test_what_is_gone_or_there_already_is_no_error(backend):
    class Late:
        name = "late"
        watches = (Watch(CONFIG_MAP), Watch(POD, lambda _: ()))

        def __init__(self, _reader):
            self.passes = 0

        async def reconcile(self, key):
            if key.name != "o":
                return NOTHING
            self.passes += 1
            gone = Key("default", "gone")
            return Plan(
                create=(Create(CONFIG_MAP, original("o", 0)),),
                patch=(Patch(POD, gone, {"metadata": {"labels": {"a": "b"}}}),),
                delete=(Delete(POD, gone),),
            )

    async def story():
        async with client_of(backend) as client, working(client, Late) as loop:
            await client.create(CONFIG_MAP, original("o", 0), manager="me")
            await eventually(lambda: _true(loop.controller.passes and loop.queue.idle))
            return loop.queue.count.retries

    assert asyncio.run(story()) == 0


class Reading(Copier):
    """Reads secrets, and says what it hears."""

    watches = (Watch(CONFIG_MAP), Watch(SECRET, nobody))

    def __init__(self, reader):
        super().__init__(reader)
        self.heard = set()

    def observe(self, kind, _old, _new):
        self.heard.add(kind)
        return True


@both
def test_a_kind_that_is_only_read_is_known_and_not_told_of(backend):
    async def story():
        async with client_of(backend) as client, working(client, Reading) as loop:
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
            await client.create(SECRET, secret, manager="t")
            await client.create(CONFIG_MAP, original("a", 0), manager="t")
            await eventually(lambda: loop.informers.get(SECRET, Key("default", "s")))
            await eventually(lambda: loop.informers.get(CONFIG_MAP, Key("default", "a")))
            assert loop.controller.heard == {CONFIG_MAP}

    asyncio.run(story())


class Choosy:
    """Says of every change but the first sight of something that it is none to bother with; keeps what came to it."""

    name = "choosy"
    watches = (Watch(CONFIG_MAP),)

    def __init__(self, _reader):
        self.story = []

    def observe(self, _kind, old, new):
        self.story.append(("told", name_of(new)))
        return old is None

    async def reconcile(self, key):
        self.story.append(("asked", key.name))
        return NOTHING

    async def has(self, *story):
        return [what for what, name in self.story if name == "a"] == [*story]


@both
def test_what_is_no_news_wakes_nobody_and_is_looked_at_with_the_resync_all_the_same(backend):
    async def story():
        clock = FakeClock()
        async with client_of(backend) as client, working(client, Choosy, clock) as loop:
            made = await client.create(CONFIG_MAP, original("a", 0), manager="t")
            await eventually(lambda: loop.controller.has("told", "asked"))
            await client.update(CONFIG_MAP, {**made, "data": {}}, manager="t")
            await eventually(lambda: loop.controller.has("told", "asked", "told"))
            assert loop.queue.idle
            clock.advance(RESYNC)
            await eventually(lambda: loop.controller.has("told", "asked", "told", "asked"))

    asyncio.run(story())


@both
def test_what_was_done_is_told_also_where_the_status_comes_too_late(backend):
    async def story():
        async with client_of(backend) as client:
            job = await client.create(JOB, job_document("j"), manager="me")
            stale = {**job, "metadata": {**job["metadata"], "resourceVersion": "1"}, "status": {"active": 1}}
            done, meant = Event(job, "Made", "a copy", is_fact=True), Event(job, "Counted", "it")
            hands = Hands(client, SystemClock(), Recorder("copier", lambda: secrets.token_hex(4)))
            plan = Plan(create=(Create(CONFIG_MAP, copy_of(job)),), status=(Status(JOB, stale),), events=(done, meant))
            with pytest.raises(Conflict):
                await hands.carry_out(plan)
            return [event["reason"] for event in await client.list(EVENT)]

    assert asyncio.run(story()) == ["Made"]


def job_document(name):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
