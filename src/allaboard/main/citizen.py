"""The same controllers as citizens of a real cluster: over HTTP, one leader at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import uvloop
from prometheus_client import generate_latest

from allaboard.api.kinds import KNOWN, Kind
from allaboard.cluster.asgi import Receive, Scope, Send
from allaboard.cluster.server import Address, serve
from allaboard.kube.admission import Hook
from allaboard.kube.clock import Clock, SystemClock
from allaboard.kube.controller import Loop
from allaboard.kube.http import Transport
from allaboard.kube.informer import Informers
from allaboard.kube.leader import lead
from allaboard.kube.pacing import Pace, PacedTransport
from allaboard.kube.remote import RemoteClient
from allaboard.main.configuration import Post
from allaboard.main.controllers import ADMISSION, CONTROLLERS
from allaboard.main.install import install_kinds, install_objects, make_namespace
from allaboard.main.reception import Desk, receiving
from allaboard.main.settings import Settings, chosen_names
from allaboard.main.tasks import end, first_of, log_lines
from allaboard.sdk.connection import open_connection
from allaboard.sdk.home import Home
from allaboard.training.extensions import framework_with
from allaboard.training.facts import Settings as TrainingSettings

log = logging.getLogger("allaboard")

# What a cluster with Kubernetes' own Job controller and upstream's JobSet lacks.
USUAL = ("trainjob", "grouper", "scheduler", "podgroups", "queues", "binder")
# Ruling 22: on a cluster others may schedule, too.
SCHEDULERS = frozenset({"kai-scheduler", "aboard"})


class Citizen:
    """Controllers over HTTP; the cluster keeps the objects."""

    schedulers = SCHEDULERS
    authority = ""

    def __init__(self, settings: Settings, client: RemoteClient, clock: Clock, post: Post) -> None:
        self.settings, self.client, self.clock, self.post = settings, client, clock, post
        self.informers = Informers(client, clock)
        self.framework = framework_with(settings.plugins)
        self.ready = False
        made = [controller for name in settings.controllers for controller in CONTROLLERS[name](self)]
        self.loops = [
            Loop(controller, client, self.informers, clock, post.workers_of(controller.watches[0].kind))
            for controller in made
        ]

    @property
    def training(self) -> TrainingSettings:
        """Pods report progress where the hooks are served; without that door they are not asked to."""
        if (reception := self.post.reception) is None:
            return TrainingSettings()
        gates = self.gates & {"TrainJobStatus"}
        return TrainingSettings(secret=reception.secret, status_url=reception.address, gates=gates)

    @property
    def gates(self) -> frozenset[str]:
        return frozenset(name for name, on in self.settings.gates.items() if on)

    def hooks(self) -> list[Hook]:
        return [cast(Hook, hook) for name in self.settings.admission for hook in ADMISSION[name](self)]

    def served(self) -> list[Kind]:
        return list(KNOWN)

    async def watch(self) -> None:
        """Know the cluster, whoever leads; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            await self.informers.synced()
            self.ready = True

    async def run(self) -> None:
        """Work until cancelled, once the cluster is known."""
        await self.informers.synced()
        async with asyncio.TaskGroup() as group:
            for each in self.loops:
                group.create_task(each.run(), name=each.controller.name)


class Health:
    """An ASGI app: whether the process lives, whether its informers have listed, and `/metrics`."""

    def __init__(self, citizen: Citizen) -> None:
        self.citizen = citizen
        lives, ready = citizen.post.probes
        self.alive, self.ready = {f"/{lives}", "/livez"}, {f"/{ready}"}

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        code, body = self._answer(str(scope.get("path", "")))
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path in self.alive:
            return 200, b"ok"
        if path in self.ready:
            return (200, b"ok") if self.citizen.ready else (503, b"the informers have not listed yet")
        if path == "/metrics":
            return 200, generate_latest()
        paths = ", ".join(sorted(self.alive | self.ready | {"/metrics"}))
        return 404, f"paths are: {paths}".encode()


def run_controllers(post: Post) -> None:
    """Run controllers against the cluster of a kubeconfig until told to stop."""
    log_lines(verbose=post.verbose)
    chosen = USUAL if post.names is None else chosen_names(post.names, CONTROLLERS, "--controllers")
    wishes = {"controllers": chosen, "admission": _admission(post, chosen), "plugins": post.plugins}
    settings = replace(Settings(Home.default()), gates=post.gates, **wishes)  # type: ignore[arg-type]
    for words in post.reception.tls.warnings if post.reception else ():
        log.warning('msg="Configuration" %s', words)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, post))


def _admission(post: Post, controllers: Sequence[str]) -> tuple[str, ...]:
    """The hooks of what runs here, unless others are named."""
    if post.admission is not None:
        return chosen_names(post.admission, ADMISSION, "--admission")
    wanted = {"trainjob": "trainjob", "jobset": "jobset", "scheduler": "scheduling"}
    return tuple(hooks for name, hooks in wanted.items() if name in controllers)


async def _work(settings: Settings, post: Post) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    connection, clock = open_connection(post.kubeconfig, post.context), SystemClock()
    client = connection.client
    reporter = RemoteClient(_paced(client.transport, post.reception.pace if post.reception else None, clock))
    client.transport = _paced(client.transport, post.pace, clock)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(connection.close)
        if post.install:
            await install_kinds(client)
        await make_namespace(client)
        citizen = Citizen(settings, client, clock, post)
        secured = await _receive(citizen, reporter, stack)
        if post.install:
            await install_objects(client, "aboard" if "scheduler" in settings.controllers else "")
        working = [asyncio.create_task(work) for work in (citizen.watch(), _lead(citizen))]
        for task in working:
            stack.push_async_callback(end, task)
        await _show_health(citizen, secured, stack)
        await first_of((*working, asyncio.create_task(stopping.wait())))


def _paced(transport: Transport, pace: Pace | None, clock: Clock) -> Transport:
    return PacedTransport(transport, pace, clock) if pace else transport


async def _receive(citizen: Citizen, reporter: RemoteClient, stack: contextlib.AsyncExitStack) -> Address | None:
    if (reception := citizen.post.reception) is None:
        return None
    desk = Desk(citizen.hooks(), citizen.client, reporter, citizen.clock)
    return await stack.enter_async_context(receiving(reception, desk))


async def _show_health(citizen: Citizen, secured: Address | None, stack: contextlib.AsyncExitStack) -> None:
    """Probes and metrics, each where it is wanted; metrics by https with the certificate of the hooks."""
    post = citizen.post
    for name, wanted in (("Health", post.health), ("Metrics", post.metrics)):
        if wanted is None or wanted.port is None:
            continue
        plain = Address(wanted.host, wanted.port)
        address = replace(secured, host=wanted.host, port=wanted.port) if secured and wanted.secure else plain
        serving = await stack.enter_async_context(serve(Health(citizen), address))
        log.warning('msg="%s is served" port=%s', name, serving.port)


async def _lead(citizen: Citizen) -> None:
    if not citizen.post.elect:
        await citizen.run()
        return
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    candidate = replace(citizen.post.lease, identity=identity)
    await lead(citizen.client, candidate, citizen.clock, citizen.run)
