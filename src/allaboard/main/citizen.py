"""The same controllers as citizens of a real cluster: over HTTP, one leader at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
from dataclasses import replace

import uvloop

from allaboard.api.documents import Key
from allaboard.api.kinds import KNOWN, Kind
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
            for each in self.loops:
                group.create_task(each.run(), name=each.controller.name)


def run_controllers(kubeconfig: str, context: str, names: str | None, *, elect: bool) -> None:
    """Run controllers against the cluster of a kubeconfig until told to stop."""
    logging.basicConfig(level=logging.WARNING, format="level=%(levelname)s %(message)s")
    chosen = USUAL if names is None else chosen_names(names, CONTROLLERS, "--controllers")
    settings = replace(Settings(Home.default()), controllers=chosen, gates=dict(GATES))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, kubeconfig, context, elect=elect))


async def _work(settings: Settings, kubeconfig: str, context: str, *, elect: bool) -> None:
    connection, clock = open_connection(kubeconfig, context), SystemClock()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    citizen = Citizen(settings, connection.client, clock)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    candidate = Candidate(identity, Key(TrainingSettings().namespace, "aboard-controllers"))
    work = lead(connection.client, candidate, clock, citizen.run) if elect else citizen.run()
    working = asyncio.create_task(work)
    try:
        await first_of((working, asyncio.create_task(stopping.wait())))
    finally:
        await end(working)
        await connection.close()
