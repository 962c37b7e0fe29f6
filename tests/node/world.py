"""The outside world of the node tests: documents in memory with the client's contract, and short ways to say a pod.

Nothing here depends on how fast the machine is: pods wait for a `Gate` that the test opens, never for a time to pass,
and `PATIENCE` is only reached where something is wrong.
"""

import asyncio
import contextlib
import itertools
import os
import random
import re
import socket
import sys
import uuid
from datetime import timedelta
from pathlib import Path

from allaboard.api.documents import Key
from allaboard.api.errors import Conflict, NotFound
from allaboard.api.kinds import POD
from allaboard.api.meta import key_of, revision_of
from allaboard.api.selectors import parse_fields
from allaboard.kube.client import EVERYTHING, Change, Listing
from allaboard.kube.clock import SystemClock
from allaboard.node import compiled, levels
from allaboard.node.agent import Agent
from allaboard.node.config import Config
from allaboard.node.facts import Patience
from allaboard.node.profiles import Profile
from allaboard.node.provision import short_name

PATIENCE = 600  # seconds until waiting counts as failure, however busy the machine


class Api:
    """Documents by kind and key, a revision counter, and a feed of changes."""

    def __init__(self):
        self.documents, self.feeds, self.revision = {}, [], itertools.count(1)
        self.last, self.story, self.waiting = 0, [], {}

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
        for waiter in self.waiting.pop((kind, key_of(document)), ()):
            waiter.done() or waiter.set_result(None)
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

    async def until(self, kind, key, test, seconds=PATIENCE):
        """Wait until the document passes the test (None stands for gone)."""
        async with asyncio.timeout(seconds):
            while not test(self.documents.get((kind, key))):
                await asyncio.sleep(0.01)
        return self.documents.get((kind, key))

    async def phase(self, name, *phases, seconds=PATIENCE):
        test = lambda pod: pod is not None and (pod.get("status") or {}).get("phase") in phases
        here = (POD, Key("default", name))
        try:
            async with asyncio.timeout(seconds):
                while not test(self.documents.get(here)):
                    change = asyncio.get_running_loop().create_future()
                    self.waiting.setdefault(here, []).append(change)
                    await change
            return self.documents[here]
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
    return [*([best] if best in "AB" else []), *(["C"] if best in "ABC" else []), "D"]


LEVELS = _levels()
compiled.find("init")  # so that every agent of these tests has it from the start
ISOLATED = [level for level in LEVELS if level != "D"]
# Without the compiled init, and (as root) with users of every pod's own; `config` reads what is behind the dash.
WAYS = [*LEVELS, *(f"{level}-python" for level in ISOLATED)]
if levels.can_shift():
    WAYS += ["A-users", "A-python-users"]
USERS = (1_000_000, 4 * 65536)
QUICK = Patience(timedelta(milliseconds=50), timedelta(milliseconds=200), timedelta(seconds=5))


def config(state, **more):
    me = Profile("python", images=("*",), python=sys.executable)
    level, *ways = more.pop("level", "auto").split("-")
    more |= {"level": level, "helper": "python" not in ways} | ({"users": USERS} if "users" in ways else {})
    own = {"state": state, "nodes": ("n1",), "default_profile": me, "profiles": (me,), "patience": QUICK}
    return Config(**own | {"host_paths": (str(state.parent),)} | more)


@contextlib.asynccontextmanager
async def running(api, settings):
    """An agent at work; nothing of it stays."""
    agent = Agent(api, settings, SystemClock())
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not agent.register.port:
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
        yield agent
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await agent.stop()
        assert not processes_of(settings.state), "something stayed behind"


def processes_of(state):
    """Zygote, holder and what they forked say the state's path in their command lines, plain workloads in their
    environments."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            other = entry.name.isdigit() and entry.name != str(os.getpid())
            if other and os.fsencode(state) in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(entry.name)
    return found


def leftovers(state):
    """Everything the pods of an agent may leave on the host; what other agents do meanwhile does not count."""
    name = short_name(state)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line for line in lines if str(state) in line or name in line]
    groups = [place for place, _, _ in os.walk("/sys/fs/cgroup") if f"aboard-{name}" in place]
    memory = [entry for entry in os.listdir("/dev/shm") if name in entry] if Path("/dev/shm").exists() else []
    links = [link for _, link in socket.if_nameindex() if DEVICE.fullmatch(link)]  # theirs are not in our namespace
    return {"links": links, "mounts": mounts, "groups": groups, "memory": memory, "processes": processes_of(state)}


NOTHING = {"links": [], "mounts": [], "groups": [], "memory": [], "processes": []}
DEVICE = re.compile("ab[0-9a-f]{12}")


def free_port():
    """A port nobody has, for pods that share the machine's network with everybody.

    Not one of those that kernels give to whoever connects: such a one may be taken again before it is used.
    """
    while True:
        port = random.randrange(12_000, 20_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Gate:
    """A directory that the test and its pods both see, at every level: `$GATE` inside."""

    def __init__(self, place):
        self.place = place / "gate"
        self.place.mkdir()

    def open(self, name="go"):
        (self.place / name).touch()

    def close(self, name="go"):
        (self.place / name).unlink()

    def holds(self, name):
        return (self.place / name).exists()

    def to(self, document):
        """The pod, able to see the gate."""
        spec = document["spec"]
        spec["volumes"] = [*spec.get("volumes", []), {"name": "gate", "hostPath": {"path": str(self.place)}}]
        for container in spec["containers"]:
            container["env"] = [*container.get("env", []), {"name": "GATE", "value": "/gate"}]
            container["volumeMounts"] = [*container.get("volumeMounts", []), {"name": "gate", "mountPath": "/gate"}]
        return document


def opened(name="go"):
    """A shell line that ends when the gate holds this name."""
    return f"until [ -e $GATE/{name} ]; do sleep 0.02; done"


def pod(name, *command, container=None, **spec):
    """A bound pod of one container that runs a shell line (or the words given)."""
    words = list(command) if len(command) != 1 else ["sh", "-c", command[0]]
    one = {"name": "main", "image": "python", "command": words, **(container or {})}
    spec = {"nodeName": "n1", "restartPolicy": "Never", "containers": [one], "terminationGracePeriodSeconds": 60} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def log_of(agent, document, container="main", attempt=0):
    place = agent.config.state / "pods" / document["metadata"]["uid"] / f"{container}.{attempt}" / "log"
    return place.read_text()


def state_of(document, container="main", field="containerStatuses"):
    return next(status for status in document["status"][field] if status["name"] == container)
