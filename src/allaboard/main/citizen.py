"""The same controllers as citizens of a real cluster: over HTTP, one leader at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from dataclasses import dataclass, replace

import uvloop
from prometheus_client import generate_latest

from allaboard.api.documents import Key
from allaboard.api.kinds import KNOWN, Kind
from allaboard.cluster.asgi import Receive, Scope, Send
from allaboard.cluster.server import Address, serve
from allaboard.kube.clock import Clock, SystemClock
from allaboard.kube.controller import Loop
from allaboard.kube.informer import Informers
from allaboard.kube.leader import Candidate, lead
from allaboard.kube.remote import RemoteClient
from allaboard.main.controllers import CONTROLLERS
from allaboard.main.settings import GATES, Settings, chosen_names
from allaboard.main.tasks import end, first_of
from allaboard.sdk.connection import open_connection
from allaboard.sdk.home import Home
from allaboard.training.facts import Settings as TrainingSettings
from allaboard.training.framework import OURS

log = logging.getLogger("allaboard")

# What a cluster with Kubernetes' own Job controller and upstream's JobSet lacks.
USUAL = ("trainjob", "grouper", "scheduler", "podgroups", "queues", "binder")
# Ruling 22: on a cluster others may schedule, too.
SCHEDULERS = frozenset({"kai-scheduler", "aboard"})


class Citizen:
    """Controllers over HTTP; the cluster keeps the objects."""

    schedulers = SCHEDULERS
    framework = OURS
    authority = ""

    def __init__(self, settings: Settings, client: RemoteClient, clock: Clock) -> None:
        self.settings, self.client, self.clock = settings, client, clock
        self.informers = Informers(client, clock)
        self.ready = False
        made = [controller for name in settings.controllers for controller in CONTROLLERS[name](self)]
        self.loops = [Loop(controller, client, self.informers, clock) for controller in made]

    @property
    def training(self) -> TrainingSettings:
        return TrainingSettings()

    @property
    def gates(self) -> frozenset[str]:
        return frozenset(name for name, on in self.settings.gates.items() if on)

    def served(self) -> list[Kind]:
        return list(KNOWN)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            await self.informers.synced()
            self.ready = True
            for each in self.loops:
                group.create_task(each.run(), name=each.controller.name)


class Health:
    """An ASGI app: `/healthz` (the process lives), `/readyz` (its informers have listed), `/metrics`."""

    def __init__(self, citizen: Citizen) -> None:
        self.citizen = citizen

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        code, body = self._answer(str(scope.get("path", "")))
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, bytes]:
        match path:
            case "/healthz" | "/livez":
                return 200, b"ok"
            case "/readyz":
                return (
                    (200, b"ok")
                    if self.citizen.ready
                    else (503, b"the informers have not listed yet, or another leads")
                )
            case "/metrics":
                return 200, generate_latest()
        return 404, b"paths are: /healthz, /livez, /readyz, /metrics"


@dataclass(frozen=True, slots=True)
class Post:
    """Where controllers work: which cluster, which of them, whether one of several leads, and who may look in."""

    kubeconfig: str
    context: str
    names: str | None
    elect: bool
    health_port: int | None


def run_controllers(post: Post) -> None:
    """Run controllers against the cluster of a kubeconfig until told to stop."""
    logging.basicConfig(level=logging.WARNING, format="level=%(levelname)s %(message)s")
    chosen = USUAL if post.names is None else chosen_names(post.names, CONTROLLERS, "--controllers")
    settings = replace(Settings(Home.default()), controllers=chosen, gates=dict(GATES))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, post))


async def _work(settings: Settings, post: Post) -> None:
    connection, clock = open_connection(post.kubeconfig, post.context), SystemClock()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    citizen = Citizen(settings, connection.client, clock)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    candidate = Candidate(identity, Key(TrainingSettings().namespace, "aboard-controllers"))
    work = lead(connection.client, candidate, clock, citizen.run) if post.elect else citizen.run()
    working = asyncio.create_task(work)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(connection.close)
        stack.push_async_callback(end, working)
        if post.health_port is not None:
            serving = await stack.enter_async_context(serve(Health(citizen), Address(port=post.health_port)))
            log.warning('msg="Health is served" port=%s', serving.port)
        await first_of((working, asyncio.create_task(stopping.wait())))
