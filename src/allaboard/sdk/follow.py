"""Following a job: its phases as they come, what its ranks print, how far it says it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import ApiError, Forbidden, NotFound
from allaboard.api.kinds import POD, POD_GROUP, TRAIN_JOB
from allaboard.api.meta import annotations_of, key_of, name_of, owners_of, uid_of
from allaboard.kube.client import Select
from allaboard.kube.clock import Clock
from allaboard.kube.informer import Informer
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.jobs import Job, pod_phase, ranks, standing

PATIENCE = 1.5  # seconds a reason to wait must last before it is told
DRAIN = 60.0  # seconds to wait for the last lines of logs once the job is over, however busy the machine


@dataclass(frozen=True, slots=True)
class Moved:
    """The job entered a phase."""

    phase: str
    moment: datetime
    job: Job


@dataclass(frozen=True, slots=True)
class Line:
    """A rank printed something."""

    rank: str
    text: str


@dataclass(frozen=True, slots=True)
class Progressed:
    """The job reported how far it is."""

    percent: int | None
    metrics: dict[str, str]
    remaining: int | None = None  # seconds, where the job knows


@dataclass(frozen=True, slots=True)
class Waits:
    """The reason a job waits, when it is new."""

    reason: str


Happening = Moved | Line | Progressed | Waits


class Follower:
    """Watches one TrainJob until it is finished or gone."""

    def __init__(self, client: RemoteClient, key: Key, clock: Clock) -> None:
        self.client, self.key, self.clock = client, key, clock
        mine = Select(key.namespace, labels=f"{labels.JOBSET_NAME}={key.name}")
        self.jobs = Informer(client, TRAIN_JOB, clock, Select(key.namespace, fields=f"metadata.name={key.name}"))
        self.pods = Informer(client, POD, clock, mine)
        self.groups = Informer(client, POD_GROUP, clock, Select(key.namespace))
        self._happened: asyncio.Queue[Happening | None] = asyncio.Queue()
        self._reading: dict[str, asyncio.Task[None]] = {}  # pod uid and attempt → the task that reads its log
        self._phase = self._reason = ""
        self._progress: Progressed | None = None
        self._gone = False

    @property
    def job(self) -> Job | None:
        """The job as last seen."""
        document = self.jobs.documents.get(self.key)
        if document is None:
            return None
        pods = list(self.pods.documents.values())
        return Job(document, standing(pods), [g for g in self.groups.documents.values() if _belongs(g, document, pods)])

    async def happenings(self) -> AsyncIterator[Happening]:
        """Everything that happens, in order, until the job is over and its last lines are read."""
        watched = [self.pods, *([self.groups] if await self._may_see_groups() else []), self.jobs]
        informers = [asyncio.create_task(informer.run()) for informer in watched]
        for informer in watched:
            await informer.synced.wait()
            informer.subscribe(self._look)
        if not self.jobs.documents:
            self._gone = True
            self._happened.put_nowait(None)
        try:
            while (happening := await self._happened.get()) is not None:
                yield happening
            await self._drain()
            while not self._happened.empty():
                if (happening := self._happened.get_nowait()) is not None:
                    yield happening
        finally:
            for task in (*informers, *self._reading.values()):
                task.cancel()
            await asyncio.gather(*informers, *self._reading.values(), return_exceptions=True)

    async def _may_see_groups(self) -> bool:
        """Somebody who may follow a job need not be let in on its gang; it only says why the job waits."""
        try:
            await self.client.listing(POD_GROUP, Select(self.key.namespace))
        except (Forbidden, NotFound):  # not for these eyes, or another scheduler's cluster
            return False
        return True

    def _look(self, _old: Document | None, new: Document | None) -> None:
        """Something changed: say what is new about the job."""
        if new is not None and new.get("kind") == "Pod":
            self._read_log(new)
        job = self.job
        if job is None:
            if not self._gone and self._phase:
                self._gone = True
                self._happened.put_nowait(None)
            return
        self._note_progress(job)
        if job.phase == "Pending" and job.reason:
            asyncio.get_running_loop().call_later(PATIENCE, self._still_waits, job.reason)
        if job.phase != self._phase:
            self._phase = job.phase
            self._happened.put_nowait(Moved(job.phase, self.clock.now(), job))
            if job.is_finished:
                self._happened.put_nowait(None)

    def _still_waits(self, reason: str) -> None:
        """A reason is worth telling when it lasts: a plane that just started changes its mind quickly."""
        job = self.job
        if job is not None and job.phase == "Pending" and job.reason == reason != self._reason:
            self._reason = reason
            self._happened.put_nowait(Waits(reason))

    def _note_progress(self, job: Job) -> None:
        status = dig(job.document, "status", "trainerStatus", default={})
        metrics = {str(m["name"]): str(m["value"]) for m in status.get("metrics") or []}
        progress = Progressed(job.progress, metrics, status.get("estimatedRemainingSeconds"))
        if (job.progress is not None or metrics) and progress != self._progress:
            self._progress = progress
            self._happened.put_nowait(progress)

    def _read_log(self, pod: Document) -> None:
        started = pod_phase(pod) in ("Running", "Succeeded", "Failed")
        if started and uid_of(pod) not in self._reading:
            self._reading[uid_of(pod)] = asyncio.create_task(self._lines(pod))

    async def _lines(self, pod: Document) -> None:
        """Every line of a pod's main container, re-attached when the stream breaks."""
        word = ranks([pod])[0].word
        with contextlib.suppress(ApiError, OSError, asyncio.TimeoutError):
            async for text in log_lines(self.client, pod, follow=True):
                self._happened.put_nowait(Line(word, text))

    async def _drain(self) -> None:
        """Read every log to its end, also of pods whose start we have not heard of yet: each watch has its own pace."""
        with contextlib.suppress(ApiError, OSError, asyncio.TimeoutError):
            for pod in await self.client.list(POD, self.pods.select):
                self._read_log(pod)
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=DRAIN)


async def log_lines(
    client: RemoteClient, pod: Document, *, follow: bool = False, options: dict[str, str] | None = None
) -> AsyncIterator[str]:
    """What a pod's first container prints, line by line."""
    query = {"container": str(dig(pod, "spec", "containers", 0, "name", default="")), **(options or {})}
    if follow:
        query["follow"] = "true"
    rest = b""
    async for piece in client.pieces(POD.path_to(key_of(pod), "log"), query):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


async def last_lines(client: RemoteClient, namespace: str, pod: str, count: int) -> list[str]:
    """The end of a pod's log; nothing when the pod or its log is gone."""
    document = await client.get(POD, Key(namespace, pod))
    if document is None:
        return []
    try:
        return [line async for line in log_lines(client, document, options={"tailLines": str(count)})]
    except (NotFound, ApiError):
        return []


def _belongs(group: Document, job: Document, pods: list[Document]) -> bool:
    named = {annotations_of(pod).get(labels.POD_GROUP) for pod in pods}
    return name_of(group) in named or any(owner.get("name") == name_of(job) for owner in owners_of(group))
