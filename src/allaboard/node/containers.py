"""The containers of this machine: each started, looked after while it runs, seen out, and its end learned."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from allaboard.api.documents import Document, dig
from allaboard.kube.clock import Clock
from allaboard.node import pods, volumes
from allaboard.node.devices import NoDevice
from allaboard.node.environment import MissingSource
from allaboard.node.environments import BuildFailed
from allaboard.node.facts import Health, Trouble
from allaboard.node.launch import NoCommand, Refused
from allaboard.node.logs import Logs
from allaboard.node.mounts import Unmountable
from allaboard.node.neighbours import Neighbours
from allaboard.node.probes import KINDS, probe_of
from allaboard.node.probing import Actions
from allaboard.node.processes import Attempt, Processes, keep_end, learn_end, started_at
from allaboard.node.profiles import Profile
from allaboard.node.provision import Provision
from allaboard.node.tenants import Ending, Tenant, container_of

log = logging.getLogger(__name__)

START_ERROR = "StartError"  # the command never ran
MESSAGE_BYTES, FALLBACK_BYTES, FALLBACK_LINES = 4096, 2048, 80
HOOK_SECONDS = 3600.0
REBUILD = timedelta(seconds=30)

# How the agent hears: a pod is due, and words about a pod (reason, message, whether a warning).
Due = Callable[[str], None]
Say = Callable[[Tenant, str, str, bool], None]
House = Callable[[Tenant], Document]


@dataclass(slots=True)
class Build:
    """An environment being built (or that could not be, until when nobody tries again) and who waits for it."""

    until: datetime
    words: str = ""
    waiting: dict[str, Tenant] = field(default_factory=dict)


class Containers:
    """Carries out what the life table decides about single containers."""

    def __init__(self, processes: Processes, provision: Provision, neighbours: Neighbours, logs: Logs) -> None:
        self.processes, self.provision, self.neighbours, self.logs = processes, provision, neighbours, logs
        self.clock: Clock
        self.actions: Actions
        self.due: Due
        self.say: Say
        self.house: House
        self.tasks: set[asyncio.Task[None]] = set()
        self.builds: dict[str, Build] = {}

    def connect(self, clock: Clock, actions: Actions, due: Due, say: Say, house: House) -> None:
        """Who tells the time, who performs hooks and probes, whom to tell, who knows a pod's namespaces."""
        self.clock, self.actions, self.due, self.say, self.house = clock, actions, due, say, house

    def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()

    async def start(self, tenant: Tenant, act: pods.Start) -> Trouble | None:
        """One attempt of one container, from its launch document to a running process; or why not."""
        container = container_of(tenant.document, act.name)
        if trouble := self._image(tenant, container):
            return trouble
        try:
            sources = await self.provision.sources(tenant)
            await self.provision.volumes(tenant, sources)
            if not self.neighbours.hosts_of(tenant).exists():  # memory was emptied: the machine was restarted
                self.neighbours.write_hosts(tenant)
            names = self.neighbours.names(tenant.document)
            spec = self.provision.container(tenant, container, sources, names)
        except (MissingSource, Refused, Unmountable) as problem:
            return Trouble("CreateContainerConfigError", str(problem))
        except (NoCommand, NoDevice, ValueError) as problem:
            return Trouble("CreateContainerError", str(problem))
        self._say_image(tenant, container)
        place = tenant.attempt_place(act.name, act.attempt)
        if place.exists():
            volumes.take_away(place)
        attempt = Attempt(place, act.name, act.attempt, act.streak, secrets.token_hex(32), self.clock.now())
        await self.processes.start(attempt, self.house(tenant), spec, lambda: self._began(tenant, attempt))
        tenant.attempts.setdefault(act.name, []).append(attempt)
        tenant.health[act.name] = first_health(container)
        self._forget_old(tenant, act.name)
        self._follow(tenant, attempt)
        return None

    def adopt(self, tenant: Tenant, attempt: Attempt) -> None:
        """An attempt that an earlier agent started and that still runs."""
        self._follow(tenant, attempt)
        tenant.health[attempt.container] = first_health(container_of(tenant.document, attempt.container))
        if attempt.started is not None:
            self._watch_health(tenant, attempt)
        else:
            self._background(self._await_start(tenant, attempt))

    async def _await_start(self, tenant: Tenant, attempt: Attempt) -> None:
        """An attempt adopted in the middle of its start has nobody else to tell us that it began."""
        while attempt.ended is None and started_at(attempt.place) is None:
            await asyncio.sleep(0.05)
        if attempt.ended is None:
            self._began(tenant, attempt)

    def _image(self, tenant: Tenant, container: Document) -> Trouble | None:
        """An environment that must be built first is built in the background; all who need it wait for it."""
        profile, image = self.provision.choice(container).profile, container.get("image", "")
        if self.provision.environments.is_ready(profile):
            return None
        build = self.builds.get(profile.name)
        if build is not None and build.words and self.clock.now() < build.until:
            return Trouble("ErrImagePull", f'environment "{profile.name}" for image "{image}": {build.words}')
        if build is None or build.words:
            words = f'Building environment "{profile.name}" for image "{image}": {", ".join(profile.requirements)}'
            self.say(tenant, "Pulling", words, False)  # noqa: FBT003
            build = self.builds[profile.name] = Build(self.clock.now())
            self._background(self._build(profile, build))
        build.waiting[tenant.uid] = tenant
        return Trouble("ContainerCreating", "")

    async def _build(self, profile: Profile, build: Build) -> None:
        try:
            await self.provision.environments.build(profile, log.info)
        except (BuildFailed, OSError) as problem:
            build.words, build.until = str(problem), self.clock.now() + REBUILD
        for tenant in build.waiting.values():
            if not build.words:
                self.say(tenant, "Pulled", f'Environment "{profile.name}" is ready', False)  # noqa: FBT003
            self.due(tenant.uid)

    def _say_image(self, tenant: Tenant, container: Document) -> None:
        image, choice = container.get("image", ""), self.provision.choice(container)
        if not choice.known and image not in tenant.said:
            tenant.said.add(image)
            words = f'no profile for image "{image}"; the default "{choice.profile.name}" is used (see: aboard images)'
            self.say(tenant, "UnknownImage", words, True)  # noqa: FBT003

    def _forget_old(self, tenant: Tenant, name: str) -> None:
        for old in tenant.attempts[name][:-2]:
            volumes.take_away(old.place)
        del tenant.attempts[name][:-2]

    def _follow(self, tenant: Tenant, attempt: Attempt) -> None:
        self.logs.keep_up(attempt.log)
        self.processes.follow(attempt, lambda: self._ended(tenant, attempt))

    def _began(self, tenant: Tenant, attempt: Attempt) -> None:
        """The command runs, or never will; only after its postStart hook does the container count as running."""
        started = started_at(attempt.place)
        if started is None:
            return
        hook = dig(container_of(tenant.document, attempt.container), "lifecycle", "postStart")
        if hook:
            self._background(self._post_start(tenant, attempt, hook))
            return
        attempt.started = started
        self._started(tenant, attempt)

    async def _post_start(self, tenant: Tenant, attempt: Attempt, hook: Document) -> None:
        words = await self.actions.perform(tenant, attempt, hook, HOOK_SECONDS)
        if words:
            self.say(tenant, "FailedPostStartHook", f"PostStartHook failed: {words}", True)  # noqa: FBT003
            self.processes.kill(attempt)
            return
        attempt.started = started_at(attempt.place)
        self._started(tenant, attempt)

    def _started(self, tenant: Tenant, attempt: Attempt) -> None:
        self.say(tenant, "Started", f"Started container {attempt.container}", False)  # noqa: FBT003
        self._watch_health(tenant, attempt)
        self.due(tenant.uid)

    def _watch_health(self, tenant: Tenant, attempt: Attempt) -> None:
        container = container_of(tenant.document, attempt.container)
        if not any(probe_of(container, kind) for kind in KINDS):
            return

        def told(kind: str, holds: bool | None, words: str) -> None:
            if words:
                self.say(tenant, "Unhealthy", f"{kind.capitalize()} probe failed: {words}", True)  # noqa: FBT003
            old = tenant.health.get(attempt.container, Health())
            new = health_after(old, kind, holds=holds)
            if new != old:
                tenant.health[attempt.container] = new
                self.due(tenant.uid)

        tenant.probes[attempt.container] = self._background(self.actions.watch(tenant, attempt, told))

    def stop(self, tenant: Tenant, act: pods.Stop) -> None:
        attempt = tenant.last(act.name)
        if attempt is None or attempt.ended is not None:
            return
        before = tenant.endings.get(act.name)
        if before is not None:
            before.task.cancel()
        self.say(tenant, "Killing", act.why or f"Stopping container {act.name}", False)  # noqa: FBT003
        deadline = self.clock.now() + act.grace
        tenant.endings[act.name] = Ending(deadline, self._background(self._see_out(tenant, attempt, act.grace)))

    async def _see_out(self, tenant: Tenant, attempt: Attempt, grace: timedelta) -> None:
        """Ask politely (hook, then signal), wait, insist."""
        deadline = self.clock.now() + grace
        container = container_of(tenant.document, attempt.container)
        hook = dig(container, "lifecycle", "preStop")
        # Upstream: no hook where the pod must go at once.
        if hook and dig(tenant.document, "metadata", "deletionGracePeriodSeconds") != 0:
            words = await self.actions.perform(tenant, attempt, hook, grace.total_seconds())
            if words:
                self.say(tenant, "FailedPreStopHook", f"PreStopHook failed: {words}", True)  # noqa: FBT003
        name = dig(container, "lifecycle", "stopSignal", default="SIGTERM")
        self.processes.signal(attempt, getattr(signal, name, signal.SIGTERM))
        await self.clock.sleep_until(deadline)
        self.processes.kill(attempt)

    def _ended(self, tenant: Tenant, attempt: Attempt) -> None:
        self.settle(tenant, attempt)
        if attempt.reason == START_ERROR:
            self.say(tenant, "Failed", f"Error: {attempt.message}", True)  # noqa: FBT003
        self.logs.finish(attempt.log)
        ending = tenant.endings.pop(attempt.container, None)
        probing = tenant.probes.pop(attempt.container, None)
        for task in (ending.task if ending else None, probing):
            if task is not None:
                task.cancel()
        self.due(tenant.uid)

    def settle(self, tenant: Tenant, attempt: Attempt) -> None:
        """How an attempt ended: its own record, and what only an agent can find out, kept for the next one."""
        if self.provision.groups.was_starved(tenant.uid, attempt.container):
            attempt.reason = "OOMKilled"
        known = learn_end(attempt, self.clock.now())
        self._read_message(tenant, attempt)
        if attempt.reason or attempt.message or not known:
            keep_end(attempt)

    def _read_message(self, tenant: Tenant, attempt: Attempt) -> None:
        """The container's last words: from its file, or (where asked for, and it failed) from the end of its log."""
        container = container_of(tenant.document, attempt.container)
        text = b""
        path = self.provision.message_file(tenant, attempt.container)
        with contextlib.suppress(OSError), open(path, "rb") as file:
            text = file.read(MESSAGE_BYTES)
        if not text and attempt.code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            with contextlib.suppress(OSError):
                data = attempt.log.read_bytes()[-FALLBACK_BYTES:]
                text = b"".join(data.splitlines(keepends=True)[-FALLBACK_LINES:])
        attempt.message = text.decode(errors="replace") or attempt.message

    def _background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def first_health(container: Document) -> Health:
    """Before the first answer: not ready where somebody asks, not started where somebody asks."""
    return Health(started=not container.get("startupProbe"), ready=not container.get("readinessProbe"))


def health_after(old: Health, kind: str, *, holds: bool | None) -> Health:
    """What a probe's conclusion changes."""
    if holds is None:
        return old
    if kind == "readiness":
        return replace(old, ready=holds)
    if kind == "startup" and holds:
        return replace(old, started=True)
    return old if holds else replace(old, sick=f"{kind} probe")
