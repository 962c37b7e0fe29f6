"""The node agent: bound pods in, processes out, status back.

It registers its nodes and keeps their leases, follows the pods bound to them, lets the life table decide, and
carries the acts out through the zygote. What it must remember is in its state directory: killed at any moment and
started again, it finds its pods as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import AboardError, ApiError, Conflict, NotFound
from allaboard.api.kinds import POD, SERVICE, VOLUME
from allaboard.api.labels import LAST_LINES
from allaboard.api.meta import annotations_of, is_leaving, key_of, revision_of, uid_of
from allaboard.kube.client import Client, PatchType, Select
from allaboard.kube.clock import Clock
from allaboard.kube.events import Recorder
from allaboard.kube.hands import Hands
from allaboard.kube.informer import Informer
from allaboard.kube.plan import Delete, Event, Plan
from allaboard.kube.queue import Queue
from allaboard.node import (
    cgroups,
    compiled,
    devices,
    dns,
    hosts,
    levels,
    machine,
    mounts,
    pods,
    post,
    records,
    routes,
    tenants,
    users,
    volumes,
)
from allaboard.node.config import Config
from allaboard.node.containers import Containers
from allaboard.node.environment import MissingSource
from allaboard.node.facts import Doom, Facts, Patience
from allaboard.node.gateway import Gateway
from allaboard.node.kubelet import Kubelet
from allaboard.node.logs import Logs, last_lines
from allaboard.node.mounts import Forbidden, Unmountable
from allaboard.node.neighbours import Neighbours
from allaboard.node.porter import Porter
from allaboard.node.probing import Actions
from allaboard.node.processes import Attempt, Processes, forget_earlier_boot
from allaboard.node.provision import Provision, short_name
from allaboard.node.register import Register
from allaboard.node.server import App, Serving
from allaboard.node.status import SHUTDOWN
from allaboard.node.switchboard import Switchboard
from allaboard.node.tenants import Tenant
from allaboard.node.watchdog import Watchdog
from allaboard.node.zygote import Homeless

log = logging.getLogger(__name__)

NAME = "kubelet"  # upstream's name for who speaks in a pod's events
RETRY = timedelta(seconds=2)
GOODBYE = timedelta(seconds=2)
KILLED = timedelta(seconds=60)  # who was killed is gone before that, however busy the machine


class Agent:
    """One machine's pods."""

    def __init__(self, client: Client, config: Config, clock: Clock) -> None:
        self.client, self.config, self.clock = client, config, clock
        self.level = config.level
        self.tenants: dict[str, Tenant] = {}
        self.documents: dict[str, Document] = {}  # by uid, the newest seen
        self.neighbours = Neighbours(config.state, self.documents, self.tenants)
        self.queue = Queue(clock)
        fields = f"spec.nodeName={config.nodes[0]}" if len(config.nodes) == 1 else "spec.nodeName!="
        self.informer = Informer(client, POD, clock, Select(fields=fields))
        self.services = Informer(client, SERVICE, clock)
        self.directories = Informer(client, VOLUME, clock)
        self.hands = Hands(client, clock, Recorder(NAME, lambda: secrets.token_hex(8)))
        self.register = Register(client, config, clock)
        self.logs = Logs(config.log_bytes)
        self.token = config.token or secrets.token_urlsafe(32)
        self.processes: Processes
        self.provision: Provision
        self.serving: Serving
        self.kubelet: Kubelet | None = None
        self.gateway: Gateway
        self.switchboard: Switchboard
        self.containers: Containers
        self.users: users.Range | None = None
        self.leaving_now: dict[str, asyncio.Task[None]] = {}  # pods that are over and being put away
        self.assembled = self.started = self.leaving = False
        self._starting: asyncio.Future[None] | None = None
        self._finding = asyncio.Lock()
        self._post = -1
        self._words: asyncio.Queue[Event] = asyncio.Queue()

    async def run(self) -> None:
        """Start, and work until cancelled. A start is never left half-way: what it opened could not be closed."""
        self._starting = asyncio.ensure_future(self.start())
        await asyncio.shield(self._starting)
        async with asyncio.TaskGroup() as group:
            chores = (
                self.informer.run,
                self.queue.run,
                self.register.run,
                self._speak,
                self._make_helper,
            )
            doors = [self.serving.run, *([self.kubelet.run] if self.kubelet else [])]
            for work in (*chores, *doors, self.logs.run, self.services.run, self.neighbours.run):
                group.create_task(work())
            await self.informer.synced.wait()
            await self._find_tenants()
            group.create_task(self._refresh())
            self.informer.subscribe(self._changed)
            if self.config.volumes is not None:
                group.create_task(self.directories.run())
                self.directories.subscribe(lambda old, new: self._reclaim(group, old, new))
            if self.level in "AB":
                self.services.subscribe(self.switchboard.notice)
                group.create_task(self.switchboard.run())
            watchdog = Watchdog(self.tenants, self.processes, self.provision.groups)
            group.create_task(watchdog.run(self.clock, self._due))
            for _ in range(self.config.workers):
                group.create_task(self._work())

    async def start(self) -> None:
        """Find out what this machine can do, and open what that needs."""
        state = self.config.state
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._post = post.take(state)
        machine.allow_files()
        if forget_earlier_boot(state, machine.boot_id(), self.clock.now()):
            log.warning("this machine was restarted; what ran on it is lost")
        if self.level == "auto":
            self.level = (await asyncio.to_thread(levels.probe)).level
        network = self.config.network if self.level in "AB" else machine.loopback(self.config.loopback)
        self._assemble(hosts.gateway_of(network))
        self.neighbours.open(network, self.provision.volatile)
        self.provision.whole = self.level == "A" and await asyncio.to_thread(levels.can, "whole")
        self.provision.open()
        await asyncio.gather(self.processes.open(), asyncio.to_thread(self.provision.look_around))
        self.provision.many_users = self.processes.users > 1
        await self._find_users()
        if self._wants_helper and (helper := compiled.kept("init")):
            await self.processes.use(helper)
        if self.level in "BC" and not self.provision.many_users:
            self.provision.preload = await asyncio.to_thread(compiled.find, "groups")
        self._find_devices()
        self.logs.open()
        if self.level in "AB":
            await self.gateway.open()
        self.register.open(self.level, machine.look(state), self.provision.groups)
        self.register.devices = self.provision.devices
        listen = self.config.listen
        self.register.port = listen.port if listen else self.serving.port
        self.register.address = self.config.host
        self.register.known = listen is None or machine.can_look_up(listen.node, listen.address)
        self.provision.allocatable = dict(self.register.resources)
        self.started = True

    def _assemble(self, gateway: str) -> None:
        """Who works together, once the level is known."""
        self.processes = Processes(self.config.state, self.level, gateway)
        self.provision = Provision(self.client, self.config, self.level, gateway)
        self.provision.services = self.services.documents.values
        self.provision.hosts_of, self.provision.give_memory = self.neighbours.hosts_of, self.processes.give_memory
        if self.level != "D":
            self.provision.groups = cgroups.find(short_name(self.config.state))
        porter = Porter(self.tenants, self.processes, self.logs, self.clock)
        self.containers = Containers(self.processes, self.provision, self.neighbours, self.logs)
        self.containers.connect(self.clock, Actions(porter), self._due, self._say, self._house)
        app = App(porter, self.token)
        self.serving = Serving(app)
        if self.config.listen is not None:
            self.kubelet = Kubelet(app, self.serving.port, self.config.listen)
        self.gateway = Gateway(self.processes, self.config.api, self._resolve)
        self.switchboard = Switchboard(self.processes, self._behind)
        self.assembled = True

    @property
    def _wants_helper(self) -> bool:
        return self.config.helper and self.level != "D" and self.processes.helper is None

    async def _make_helper(self) -> None:
        """The first time it is compiled while pods already run without it."""
        if self._wants_helper and (helper := await asyncio.to_thread(compiled.find, "init")):
            await self.processes.use(helper)

    async def _find_users(self) -> None:
        """Sub-users for pods, where this machine's root has some and the kernel can show files as theirs."""
        asked = self.config.users
        own = users.range_of(asked, asked) if asked else await asyncio.to_thread(levels.own_users)
        if self.level == "A" and own is not None and await asyncio.to_thread(levels.can_shift):
            self.users = own

    def _find_devices(self) -> None:
        names = self.config.nodes
        fake = devices.fake_devices(names, self.config.gpus)
        self.provision.devices = fake or devices.shared_out(machine.gpus(), names)
        self.provision.taken = lambda: {
            id_
            for tenant in self.tenants.values()
            if not tenant.released
            for ids in tenant.devices.values()
            for id_ in ids
        }

    async def stop(self, *, kill: bool = True) -> None:
        """End every pod of this machine and leave nothing behind; or leave them to the next agent."""
        self.leaving = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self.assembled:
            await self._take_down(kill=kill)
        if self._post >= 0:
            os.close(self._post)
            self._post = -1

    async def _take_down(self, *, kill: bool) -> None:
        if kill and self.started:
            await self._find_tenants()  # of an earlier agent, where we did not come so far
            self.containers.close()
            await self._say_goodbye()
        self.containers.close()
        self.neighbours.close()
        if self.leaving_now:
            await asyncio.wait(self.leaving_now.values())
        await self.processes.close(kill=kill)
        self.logs.close()
        self.gateway.close()
        if kill:
            self.provision.groups.close()
            volumes.unmount_below(self.provision.volatile)  # elsewhere than at level A they went with their namespace
            volumes.take_away(self.provision.volatile)

    async def _say_goodbye(self) -> None:
        """A short grace for all at once; what became of them is written down for the next agent."""
        for tenant in self.tenants.values():
            if tenant.living() and not tenant.comes_back():  # not to be held against it, nor taken for a success
                tenant.doom = tenant.doom or SHUTDOWN
                tenant.remember()
        living = [attempt for tenant in self.tenants.values() for attempt in tenant.living()]
        for attempt in living:
            self.processes.signal(attempt, signal.SIGTERM)
        await self._see_off(living, GOODBYE)
        for attempt in living:
            if attempt.ended is None:
                self.processes.kill(attempt)
        await self._see_off(living, KILLED)  # those of an earlier zygote are known to nobody but us

    async def _see_off(self, living: list[Attempt], patience: timedelta) -> None:
        deadline = self.clock.now() + patience
        while self.clock.now() < deadline and any(attempt.ended is None for attempt in living):
            await asyncio.sleep(0.02)

    # What happened: pods change, attempts begin and end.

    def _changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None and dig(new, "spec", "nodeName") in self.config.nodes:
            known = self.documents.get(uid_of(new))
            self._take(new)
            if known is None or revision_of(known) != revision_of(new):  # else the echo of our own word
                self._due(uid_of(new))
        elif old is not None:
            self.documents.pop(uid_of(old), None)
            self._due(uid_of(old))

    def _take(self, document: Document) -> None:
        """The newer of two views of a pod counts; a status we just wrote may arrive before the watch tells it."""
        document = {"apiVersion": "v1", "kind": "Pod", **document}
        known = self.documents.get(uid_of(document))
        if known is None:
            self.neighbours.notice(document)
        if known is None or int(revision_of(document) or 0) >= int(revision_of(known) or 0):
            self.documents[uid_of(document)] = document

    def _due(self, uid: str) -> None:
        self.queue.add(Key("", uid))

    async def _find_tenants(self) -> None:
        """After a restart: pods' directories become tenants again, each with what became of it meanwhile."""
        known = {uid_of(pod): pod for pod in self.informer.documents.values()}
        async with self._finding:  # whoever stops us may do the same
            for place in sorted((self.config.state / "pods").iterdir()):
                if place.name not in self.tenants:
                    await self._find(place, known.get(place.name, _nameless(place)))
        self.provision.groups.tidy(set(self.tenants))

    async def _find(self, place: Path, document: Document) -> None:
        tenant = tenants.find(place, document, self.processes.children, self.clock.now())
        self.tenants[tenant.uid] = tenant
        self.neighbours.moved_in(tenant)
        living = tenant.living()
        if living and not tenant.released:
            await self.processes.ask({"do": "pod", **self._house(tenant)})
        for attempt in living:
            self.containers.adopt(tenant, attempt)
        for attempts in tenant.attempts.values():
            if attempts[-1].ended is not None:
                self.containers.settle(tenant, attempts[-1])
        self._due(tenant.uid)

    def _house(self, tenant: Tenant) -> Document:
        """What a pod's namespaces are: those its containers live in, or (where none lives) new ones like this."""
        hostname = hosts.hostname_of(tenant.document)
        new = {"pod": tenant.uid, "hostname": hostname, "address": tenant.address, "users": list(tenant.users)}
        return {**new, "witnesses": [attempt.pid for attempt in tenant.living()]}

    # One pass over one pod.

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._pass(key.name)
                self.queue.done(key)
            except asyncio.CancelledError:
                raise
            except (ApiError, OSError, TimeoutError) as problem:
                log.warning("pod %s: %s", key.name, problem)
                self.queue.failed(key)
            except Exception:
                # A pod that breaks our own code must not take the others down.
                log.exception("pod %s", key.name)
                self.queue.failed(key)

    async def _pass(self, uid: str) -> None:
        document, tenant = self.documents.get(uid), self.tenants.get(uid)
        if self.leaving:
            return
        if document is None:
            if tenant is not None:
                await self._clear(tenant)
            return
        if tenant is None:
            if _is_finished(document) and not is_leaving(document):
                return
            tenant = self.tenants[uid] = Tenant(uid, self.config.state / "pods" / uid, document)
        tenant.document = document
        seen = self._look(tenant)
        while acts := [act for act in pods.acts_of(*seen) if not isinstance(act, pods.Remove)]:
            done = await self._perform_all(tenant, acts)
            seen = self._look(tenant)
            if not done:
                break
        verdict = pods.decide(*seen)
        await self._tell(tenant, verdict)
        if pods.Remove() in verdict.acts:
            await self._remove(tenant)

    def _look(self, tenant: Tenant) -> tuple[Document, Facts, datetime, Patience]:
        return tenant.document, tenant.facts(self.config.host), self.clock.now(), self.config.patience

    async def _perform_all(self, tenant: Tenant, acts: Sequence[pods.Act]) -> bool:
        """Side by side; False where none could be carried out."""
        if len(acts) == 1:
            return await self._perform(tenant, acts[0])
        return any(await asyncio.gather(*(self._perform(tenant, act) for act in acts)))

    async def _perform(self, tenant: Tenant, act: pods.Act) -> bool:
        """Carry one act out; False where it could not be and must be tried later."""
        match act:
            case pods.Prepare():
                return await self._prepare(tenant)
            case pods.Start():
                return await self._start(tenant, act)
            case pods.Stop():
                self.containers.stop(tenant, act)
            case pods.Release():
                self._release(tenant)
        return True

    async def _tell(self, tenant: Tenant, verdict: pods.Verdict) -> None:
        """Write the status if it says anything new."""
        for event in verdict.events:
            self._words.put_nowait(event)
        if verdict.again:
            self.queue.add_at(Key("", tenant.uid), verdict.again)
        old = tenant.document.get("status") or {}
        if all(old.get(key) == value for key, value in verdict.status.items()):
            return
        if verdict.status["phase"] == "Failed" and old.get("phase") != "Failed":
            await self._keep_last_lines(tenant)
        document = {**tenant.document, "status": {**old, **verdict.status}}
        try:
            written = await self.client.update(POD, document, manager=NAME, subresource="status")
        except NotFound:
            return
        except Conflict:
            fresh = await self.client.get(POD, key_of(document))
            if fresh is not None and uid_of(fresh) == tenant.uid:
                self._take(fresh)
                self._due(tenant.uid)
            return
        self._take(written)
        tenant.document = written

    async def _keep_last_lines(self, tenant: Tenant) -> None:
        """The end of the log of the container that failed first, on the pod: it outlives the log."""
        failed = [attempts[-1] for attempts in tenant.attempts.values() if attempts[-1].code]
        if not failed or LAST_LINES in annotations_of(tenant.document):
            return
        first = min(failed, key=lambda attempt: (attempt.ended or self.clock.now(), attempt.container))
        text = last_lines(first.log)
        if not text:
            return
        body = {"metadata": {"annotations": {LAST_LINES: text}, "uid": tenant.uid}}
        with contextlib.suppress(ApiError):
            key = key_of(tenant.document)
            tenant.document = await self.client.patch(POD, key, body, type=PatchType.MERGE, manager=NAME)
            self._take(tenant.document)

    async def _remove(self, tenant: Tenant) -> None:
        await self.hands.carry_out(Plan(delete=(Delete(POD, key_of(tenant.document), tenant.uid, grace=0),)))

    # The acts.

    async def _prepare(self, tenant: Tenant) -> bool:
        """Address, names, volumes; its namespaces are made with the first container."""
        address = self.neighbours.settle(tenant.document)
        if not address:
            return self._troubled(tenant, "FailedCreatePodSandBox", "every address of the pod network is taken")
        tenant.place.mkdir(parents=True, exist_ok=True, mode=0o700)
        before, tenant.address = tenant.address, address
        if self.users is not None and not tenant.users:
            tenant.users = users.allot(self.users, {other.users for other in self.tenants.values()})
        try:
            self.neighbours.write_hosts(tenant)
            sources = await self.provision.sources(tenant)
            await self.provision.volumes(tenant, sources)
        except Forbidden as problem:
            tenant.address, tenant.doom = before, Doom("HostPathForbidden", str(problem))
            self._say(tenant, tenant.doom.reason, tenant.doom.message, True)  # noqa: FBT003
        except (MissingSource, Unmountable) as problem:
            tenant.address = before
            return self._troubled(tenant, "FailedMount", f"MountVolume.SetUp failed: {problem}")
        except OSError as problem:
            tenant.address = before
            return self._troubled(tenant, "FailedCreatePodSandBox", f"failed to create pod sandbox: {problem}")
        tenant.remember()
        return True

    def _troubled(self, tenant: Tenant, reason: str, message: str) -> bool:
        self._say(tenant, reason, message, True)  # noqa: FBT003
        self.queue.add_at(Key("", tenant.uid), self.clock.now() + RETRY)
        return False

    async def _start(self, tenant: Tenant, act: pods.Start) -> bool:
        try:
            trouble = await self.containers.start(tenant, act)
        except Homeless as problem:
            if not tenant.living():
                tenant.address = ""  # it is prepared again
            words = f"failed to create pod sandbox: {problem.strerror}"
            return self._troubled(tenant, "FailedCreatePodSandBox", words)
        if trouble is None:
            tenant.troubles.pop(act.name, None)
            return True
        tenant.troubles[act.name] = trouble
        if not trouble.message:  # it waits for something that will tell us
            return False
        return self._troubled(tenant, "Failed", f"Error: {trouble.message}")

    def _release(self, tenant: Tenant) -> None:
        """Nothing of the pod runs: what it had is free for others, and is put away while its end is already told."""
        address = tenant.address
        tenant.address, tenant.released, tenant.users = "", True, ()
        tenant.devices.clear()
        self.leaving_now[tenant.uid] = asyncio.create_task(self._put_away(tenant, address))

    async def _put_away(self, tenant: Tenant, address: str) -> None:
        """Its namespaces, groups, secrets and volumes; its logs stay as long as the pod is known. Noted at the end: who
        is killed before does it again."""
        memory = self.provision.in_memory(tenant.uid)
        try:
            await self.processes.ask({"do": "release", "pod": tenant.uid, "memory": memory})
            await asyncio.to_thread(self.provision.forget, tenant)  # the kernel takes its time over groups
            await self.processes.remove(tenant.place / "volumes")
            tenant.remember()
        except (OSError, AboardError) as problem:
            log.warning("pod %s: %s", tenant.uid, problem)
            tenant.address, tenant.released = address, False
            self.queue.add_at(Key("", tenant.uid), self.clock.now() + RETRY)
        finally:
            del self.leaving_now[tenant.uid]

    async def _clear(self, tenant: Tenant) -> None:
        """The pod's object is gone: so is everything of it."""
        for attempt in tenant.living():
            self.processes.kill(attempt)
        if tenant.living():
            return
        if not tenant.released:
            self._release(tenant)
        if tenant.uid in self.leaving_now:
            await asyncio.wait([self.leaving_now[tenant.uid]])  # whoever stops us does not stop that
        if not tenant.released:
            return
        self.neighbours.leave(tenant.document)
        await self.processes.remove(tenant.place)
        self.tenants.pop(tenant.uid, None)

    def _behind(self, service: Document, door: routes.Door) -> list[tuple[str, int]]:
        """Who answers calls to a service."""
        known = [(tenant.document, tenant.address) for tenant in self.tenants.values()]
        return routes.backends(service, door, known)

    def _resolve(self, name: str) -> list[str] | None:
        """What the pods' name server answers."""
        known = [(tenant.document, tenant.address) for tenant in self.tenants.values()]
        return dns.lookup(name, known, self.services.documents.values(), self.processes.gateway)

    def _reclaim(self, group: asyncio.TaskGroup, old: Document | None, new: Document | None) -> None:
        """A volume that was made for a claim and is gone takes its directory along."""
        path = mounts.reclaimed(old, str(self.config.volumes)) if new is None and old is not None else ""
        if path:
            group.create_task(self.processes.remove(Path(path)))

    # Words and chores.

    def _say(self, tenant: Tenant, reason: str, message: str, warning: bool) -> None:
        kind = "Warning" if warning else "Normal"
        self._words.put_nowait(Event(tenant.document, reason, message, type=kind))

    async def _speak(self) -> None:
        while True:
            event = await self._words.get()
            with contextlib.suppress(ApiError, OSError):
                await self.hands.carry_out(Plan(events=(event,)))

    async def _refresh(self) -> None:
        """Bring rendered volumes of running pods up to date, now and then; those of an earlier agent at once."""
        while True:
            for tenant in list(self.tenants.values()):
                if tenant.living() and dig(tenant.document, "spec", "volumes"):
                    with contextlib.suppress(MissingSource, Unmountable, ApiError, OSError):
                        await self.provision.volumes(tenant, await self.provision.sources(tenant))
            await self.clock.sleep_until(self.clock.now() + self.config.refresh)


def _is_finished(pod: Document) -> bool:
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def _nameless(place: Path) -> Document:
    """A pod that is known by its directory alone."""
    record = records.read(place / tenants.POD).get("pod") or {}
    names = {"name": record.get("name", ""), "namespace": record.get("namespace", ""), "uid": place.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": names, "spec": {"containers": []}}
