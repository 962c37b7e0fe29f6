"""The loop: a key is due, its controller decides, the plan is carried out, and again."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError, Conflict, Forbidden
from allaboard.api.kinds import Kind
from allaboard.api.meta import controller_of, is_true, key_of, namespace_of, refers_to, revision_of
from allaboard.kube.client import Client
from allaboard.kube.clock import Clock
from allaboard.kube.events import Recorder
from allaboard.kube.hands import Hands, Written, nothing_to_say
from allaboard.kube.informer import Handler, Informers
from allaboard.kube.metrics import meter_of
from allaboard.kube.plan import Plan
from allaboard.kube.queue import Queue

log = logging.getLogger("allaboard")

RESYNC = timedelta(hours=10)  # seed 003: whatever was missed is looked at again
WORKERS = 8
QUOTA = "exceeded quota: "  # how the API server begins to say that there is not enough


def own_key(document: Document) -> Iterable[Key]:
    """The document's own key: for the kind a controller is about."""
    return (key_of(document),)


def controller_key(kind: Kind) -> Callable[[Document], Iterable[Key]]:
    """The key of the owner of this kind that manages a document: for what a controller makes."""

    def keys(document: Document) -> Iterable[Key]:
        owner = controller_of(document)
        return (Key(namespace_of(document), owner["name"]),) if owner and refers_to(owner, kind) else ()

    return keys


def nobody(_document: Document) -> Iterable[Key]:
    """For a kind that is read, and whose changes are no news: its watch is not heard at all."""
    return ()


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind to follow, and which keys are due when a document of it changes (`nobody`: none, it is only read).

    `keys` is asked about the old and the new document, so an object that moves wakes both owners.
    """

    kind: Kind
    keys: Callable[[Document], Iterable[Key]] = own_key


class Controller(Protocol):
    """Load the facts and decide. It is handed a `Reader` and has no way to write.

    Optional: `manager` names another field manager and event source than `name`; `observe(kind, old, new)` hears every
    change of what is not only read, for a controller that keeps a state of its own, and says whether it is news: keys
    are due only then;
    `refused(write, error)` gives the events to write when the server refuses an Apply or a Create; `wrote(key, plan,
    written)` hears what the server answered to a plan that was carried out.
    """

    @property
    def name(self) -> str: ...  # field manager, event source, metrics label
    @property
    def watches(self) -> tuple[Watch, ...]: ...

    async def reconcile(self, key: Key) -> Plan: ...


def _unheard(_key: Key, _plan: Plan, _written: Written) -> None:
    """For a controller that does not ask what became of its plans."""


def _no_remarks(_key: Key, _plan: Plan) -> Iterable[str]:
    """For a controller that has nothing to add to the log (`remarks` is optional, too)."""
    return ()


class Loop:
    """One controller at work: its queue, its workers and its hands."""

    def __init__(
        self, controller: Controller, client: Client, informers: Informers, clock: Clock, workers: int = WORKERS
    ) -> None:
        self.controller, self.client, self.informers, self.clock = controller, client, informers, clock
        self.workers = workers
        self._meter = meter_of(controller.name)
        self.queue = Queue(clock, jitter=random.random, count=self._meter)
        manager = getattr(controller, "manager", controller.name)
        recorder = Recorder(manager, lambda: f"{time.time_ns():x}{random.randrange(4096):03x}")
        self.hands = Hands(client, clock, recorder, getattr(controller, "refused", nothing_to_say))
        self.hands.lost = getattr(controller, "lost", None)
        self._wrote: Callable[[Key, Plan, Written], None] = getattr(controller, "wrote", _unheard)
        for watch in controller.watches:
            informers.of(watch.kind)

    async def run(self) -> None:
        """Work until cancelled. Informers must be running beside this."""
        self._subscribe()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name=f"{self.controller.name} delays")
            group.create_task(self._resync(), name=f"{self.controller.name} resync")
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.controller.name} worker {number}")

    def _subscribe(self) -> None:
        observe = getattr(self.controller, "observe", None)
        for watch in self.controller.watches:
            if watch.keys is not nobody:
                self.informers.of(watch.kind).subscribe(self._handler(watch, observe))

    def _handler(self, watch: Watch, observe: Callable[..., bool] | None) -> Handler:
        kind, keys, add = watch.kind, watch.keys, self.queue.add

        def handle(old: Document | None, new: Document | None) -> None:
            if observe is not None:
                try:
                    if not observe(kind, old, new):
                        return
                except Exception:  # the informer serves every controller: one that stumbles must not end it
                    self._stumbled(kind, new or old or {})
            if old is not None:
                for key in keys(old):
                    add(key)
            if new is not None:
                for key in keys(new):
                    add(key)

        return handle

    def _stumbled(self, kind: Kind, document: Document) -> None:
        log.exception('msg="Observation failed" controller=%s %s=%s', self.controller.name, kind, key_of(document))

    async def _resync(self) -> None:
        watch = self.controller.watches[0]
        while True:
            await self.clock.sleep_until(self.clock.now() + RESYNC)
            for document in list(self.informers.of(watch.kind).documents.values()):
                for key in watch.keys(document):
                    self.queue.add(key)

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            started = time.perf_counter()
            result = await self._pass(key)
            self._meter.passed(result, time.perf_counter() - started)
            self._meter.depth = self.queue.depth

    async def _pass(self, key: Key) -> str:
        """One pass over one key; whatever goes wrong, the key comes back."""
        try:
            plan = await self.controller.reconcile(key)
            if plan:
                self._tell(key, plan)
                written = await self.hands.carry_out(plan)
                self._wrote(key, plan, written)
                await self._catch_up(written)
        except Conflict as error:  # somebody wrote between our look and our write: look again
            log.debug("%s: %s: %s", self.controller.name, key, error)
            self.queue.failed(key)
            return "requeue"
        except Exception as error:  # the edge of the loop: one key's trouble must not stop the others
            self.queue.failed(key)
            return self._judged(key, error)
        self.queue.come_back(key, plan.again)
        self.queue.done(key)
        return "requeue_after" if plan.again is not None else "success"

    async def _catch_up(self, written: Written) -> None:
        """Wait until our informers show what we wrote, so that the next pass does not decide on the past."""
        latest: dict[Kind, int] = {}
        for kind, document in written:
            revision = int(revision_of(document) or 0)
            if revision > latest.get(kind, 0):
                latest[kind] = revision
        for kind, revision in latest.items():
            await self.informers.reached(kind, revision)

    def _tell(self, key: Key, plan: Plan) -> None:
        """The seed's log lines: what is being done to what, written from the plan."""
        if not log.isEnabledFor(logging.INFO):
            return
        about = self.controller.watches[0].kind
        subject = f"{about.singular}={key}"
        log.info('msg="Reconciling %s" %s', about, subject)
        for words in getattr(self.controller, "remarks", _no_remarks)(key, plan):
            log.info("%s", words)
        for write in plan.apply:
            log.info('msg="Applying %s" %s=%s', write.kind, write.kind.singular, key_of(write.document))
        for sync in plan.status:
            done = " complete=true" if is_true(sync.document, "Complete") else ""
            log.info('msg="Status synced" %s%s', subject, done)

    def _judged(self, key: Key, error: Exception) -> str:
        """What a failed pass counts as; waiting for quota is no error (ruling 6)."""
        if isinstance(error, Forbidden) and QUOTA in error.message:
            log.info('msg="Waits for quota" %s=%s', self.controller.watches[0].kind.singular, key)
            return "requeue"
        self._complain(key, error)
        return "error"

    def _complain(self, key: Key, error: Exception) -> None:
        about = self.controller.watches[0].kind.singular
        unexpected = not isinstance(error, ApiError | OSError)
        log.error('msg="Reconcile failed" %s=%s error="%s"', about, key, error, exc_info=unexpected)
