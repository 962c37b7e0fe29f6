"""The outside world of the node tests: documents in memory with the client's contract, and short ways to say a pod."""

import asyncio
import contextlib
import itertools
import os
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from allaboard.api.documents import Key
from allaboard.api.errors import Conflict, NotFound
from allaboard.api.kinds import POD
from allaboard.api.meta import key_of, revision_of
from allaboard.api.selectors import parse_fields
from allaboard.kube.client import EVERYTHING, Change, Listing
from allaboard.kube.clock import SystemClock
from allaboard.node import levels
from allaboard.node.agent import Agent
from allaboard.node.config import Config
from allaboard.node.facts import Patience
from allaboard.node.profiles import Profile


class Api:
    """Documents by kind and key, a revision counter, and a feed of changes."""

    def __init__(self):
        self.documents, self.feeds, self.revision = {}, [], itertools.count(1)
        self.last, self.story = 0, []

    def _put(self, kind, document, event):
        self.last = next(self.revision)
        metadata = {"uid": str(uuid.uuid4()), **document["metadata"], "resourceVersion": str(self.last)}
        typed = {"apiVersion": kind.api_version, "kind": kind.kind}
        document = typed | {**document, "metadata": metadata}
        self.documents[kind, key_of(document)] = document
        self._tell(kind, event, document)
        return document

    def _tell(self, kind, event, document):
        if kind is POD and event != "DELETED":
            self.story.append((document["metadata"]["name"], (document.get("status") or {}).get("phase")))
        for wanted, feed in self.feeds:
            if wanted is kind:
                feed.put_nowait([Change(event, document)])

    async def get(self, kind, key):
        return self.documents.get((kind, key))

    async def list(self, kind, select=EVERYTHING):
        found = [
            doc for (k, key), doc in self.documents.items() if k is kind and select.namespace in ("", key.namespace)
        ]
        return [doc for doc in found if not select.fields or parse_fields(select.fields).matches_document(doc)]

    async def listing(self, kind, select=EVERYTHING):
        return Listing(await self.list(kind, select), str(self.last))

    async def watch(self, kind, since, select=EVERYTHING):
        feed = asyncio.Queue()
        self.feeds.append((kind, feed))
        while True:
            yield await feed.get()

    async def create(self, kind, document, *, manager="test"):
        return self._put(kind, document, "ADDED")

    async def update(self, kind, document, *, manager="test", subresource=""):
        old = self.documents.get((kind, key_of(document)))
        if old is None:
            raise NotFound("gone")
        if revision_of(document) != revision_of(old):
            raise Conflict("changed")
        return self._put(kind, {**old, "status": document["status"]} if subresource else document, "MODIFIED")

    async def patch(self, kind, key, body, *, type, manager="test", subresource=""):
        old = self.documents.get((kind, key))
        if old is None:
            raise NotFound("gone")
        return self._put(kind, _merged(old, body), "MODIFIED")

    async def delete(self, kind, key, *, uid="", propagation="", grace=None):
        old = self.documents.get((kind, key))
        if old is None:
            raise NotFound("gone")
        if kind is POD and grace != 0 and not old["metadata"].get("deletionTimestamp"):
            seconds = old["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds}
            self._put(kind, {**old, "metadata": {**old["metadata"], **leaving}}, "MODIFIED")
            return
        del self.documents[kind, key]
        self.last = next(self.revision)
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.last)}}
        self._tell(kind, "DELETED", gone)

    async def until(self, kind, key, test, seconds=20):
        """Wait until the document passes the test (None stands for gone)."""
        async with asyncio.timeout(seconds):
            while not test(self.documents.get((kind, key))):
                await asyncio.sleep(0.01)
        return self.documents.get((kind, key))

    async def phase(self, name, *phases, seconds=20):
        test = lambda pod: pod is not None and (pod.get("status") or {}).get("phase") in phases
        try:
            return await self.until(POD, Key("default", name), test, seconds)
        except TimeoutError:
            pod = self.documents.get((POD, Key("default", name))) or {}
            events = [d["reason"] + ": " + d["message"] for (k, _), d in self.documents.items() if k.kind == "Event"]
            raise AssertionError(f"{name} never became {phases}: {pod.get('status')} {events}") from None

    def events(self, reason):
        return [d["message"] for (k, _), d in self.documents.items() if k.kind == "Event" and d["reason"] == reason]


def _merged(old, new):
    """A merge patch, without its nulls."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _levels():
    """What this machine can do: its best level, the one without a network of its own, and plain processes."""
    best = levels.probe().level
    without = [pytest.param("C", id="C")] if best in "ABC" else []
    return ([best] if best in "AB" else []) + without + ["D"]


LEVELS = _levels()
QUICK = Patience(timedelta(milliseconds=50), timedelta(milliseconds=200), timedelta(seconds=5))


def config(state, **more):
    me = Profile("python", images=("*",), python=sys.executable)
    return Config(
        **{"state": state, "nodes": ("n1",), "default_profile": me, "profiles": (me,), "patience": QUICK, **more}
    )


@contextlib.asynccontextmanager
async def running(api, settings):
    """An agent at work; nothing of it stays."""
    agent = Agent(api, settings, SystemClock())
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(20):
            while not agent.register.port and not task.done():
                await asyncio.sleep(0.01)
        yield agent
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await agent.stop()
        assert not processes_of(settings.state), "something stayed behind"


def processes_of(state):
    """Zygote, holder and what they forked carry the state's path in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            other = entry.name.isdigit() and entry.name != str(os.getpid())
            if other and str(state).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


def pod(name, *command, container=None, **spec):
    """A bound pod of one container that runs a shell line (or the words given)."""
    words = list(command) if len(command) != 1 else ["sh", "-c", command[0]]
    one = {"name": "main", "image": "python", "command": words, **(container or {})}
    spec = {"nodeName": "n1", "restartPolicy": "Never", "containers": [one], "terminationGracePeriodSeconds": 3} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def log_of(agent, document, container="main", attempt=0):
    place = agent.config.state / "pods" / document["metadata"]["uid"] / "containers" / container / str(attempt) / "log"
    return place.read_text()


def state_of(document, container="main", field="containerStatuses"):
    return next(status for status in document["status"][field] if status["name"] == container)
