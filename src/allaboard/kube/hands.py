"""The only hands that write: a plan is carried out, stage by stage, through a client."""

from __future__ import annotations

import logging
from asyncio import gather
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Counter

from allaboard.api.documents import Document
from allaboard.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of
from allaboard.kube import metrics
from allaboard.kube.client import Batch, Client
from allaboard.kube.clock import Clock
from allaboard.kube.events import Recorder
from allaboard.kube.plan import Apply, Bind, Create, Delete, Event, Patch, Plan, Status, Update

log = logging.getLogger("allaboard")

Group = tuple[Document, ...]
Write = Apply | Create | Group | Update | Patch | Bind | Delete | Status
Written = list[tuple[Kind, Document]]
Refused = Callable[[Apply | Create, ApiError], Iterable[Event]]
Lost = Callable[[Group, ApiError], None]


def nothing_to_say(_write: Apply | Create, _error: ApiError) -> Iterable[Event]:
    """For a controller that has no words about what the server refuses."""
    return ()


class Hands:
    """Writes in the name of one controller. A repeated plan is harmless: what exists and what is gone is no error."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, refused: Refused = nothing_to_say) -> None:
        self.client, self.clock, self.recorder, self.refused = client, clock, recorder, refused
        self.manager = recorder.source
        self._counts: dict[type, Counter] = {}
        self._many = client.many if isinstance(client, Batch) else None
        self.lost: Lost | None = None

    async def carry_out(self, plan: Plan) -> Written:
        """Objects first, status once, words last. Returns what was written."""
        written: Written = []
        stages: tuple[tuple[Write, ...], ...] = (
            plan.apply, plan.create, plan.together, plan.update, plan.patch, plan.bind, plan.delete, plan.status,
        )  # fmt: skip
        for stage in stages:
            if stage:
                written += await self._all(stage)
        if plan.events:
            await self._say(plan.events)
        return written

    async def _all(self, writes: tuple[Write, ...]) -> Written:
        """Every write of a stage at once; all are tried before the first failure is raised."""
        if len(writes) == 1:
            return await self._write(writes[0])
        answers: Sequence[Written | BaseException] | None = None
        if isinstance(writes[0], Create):
            answers = await self._batch([write for write in writes if isinstance(write, Create)])
        if answers is None:
            answers = await gather(*map(self._write, writes), return_exceptions=True)
        written: Written = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            written += answer
        return written

    async def _batch(self, writes: Sequence[Create]) -> list[Written | BaseException] | None:
        """Many creates with one commit; None where the client cannot do that."""
        if self._many is None:
            return None
        answers = await self._many([(write.kind, write.document) for write in writes], manager=self.manager)
        if answers is None:
            return None
        self._count(Create).inc(len(writes))
        return [await self._answered(write, answer) for write, answer in zip(writes, answers, strict=True)]

    async def _answered(self, write: Create, answer: Document | ApiError) -> Written | ApiError:
        if not isinstance(answer, ApiError):
            return [(write.kind, answer)]
        if isinstance(answer, AlreadyExists):
            return []
        if isinstance(answer, Invalid | Forbidden | NotFound):
            await self._complain(write, answer)
        return answer

    async def _write(self, write: Write) -> Written:
        self._count(type(write)).inc()
        match write:
            case Apply():
                return [(write.kind, await self._apply(write))]
            case Create():
                return await self._create(write)
            case Update():
                return [(write.kind, await self._update(write))]
            case Patch():
                return await self._patch(write)
            case Bind():
                await self.client.bind(write.pod, write.uid, write.node)
                return []
            case Delete():
                return await self._delete(write)
            case Status():
                return await self._status(write)
        return await self._together(write)

    async def _together(self, group: Group) -> Written:
        """All of them or none; a controller that wants to hear of a loss is told, and the rest of its plan goes on."""
        try:
            created = await self.client.together(group, manager=self.manager)
        except ApiError as error:
            if self.lost is None:
                raise
            self.lost(group, error)
            return []
        return [(kind_of(document), document) for document in created]

    def _count(self, kind: type) -> Counter:
        """Looking a counter up by its labels costs more than counting."""
        if kind not in self._counts:
            verb = "together" if kind is tuple else kind.__name__.lower()
            self._counts[kind] = metrics.WRITES.labels(self.manager, verb)
        return self._counts[kind]

    async def _apply(self, write: Apply) -> Document:
        options = {"manager": self.manager, "subresource": write.subresource}
        try:
            return await self.client.apply(write.kind, write.document, force=True, **options)
        except (Invalid, Forbidden, NotFound) as error:
            await self._complain(write, error)
            raise

    async def _update(self, write: Update) -> Document:
        options = {"manager": self.manager, "subresource": write.subresource}
        return await self.client.update(write.kind, write.document, **options)

    async def _create(self, write: Create) -> Written:
        try:
            return [(write.kind, await self.client.create(write.kind, write.document, manager=self.manager))]
        except AlreadyExists:
            return []
        except (Invalid, Forbidden, NotFound) as error:
            await self._complain(write, error)
            raise

    async def _patch(self, write: Patch) -> Written:
        options = {"manager": self.manager, "subresource": write.subresource}
        try:
            return [
                (write.kind, await self.client.patch(write.kind, write.key, write.body, type=write.type, **options))
            ]
        except NotFound:
            return []

    async def _delete(self, write: Delete) -> Written:
        try:
            await self.client.delete(
                write.kind, write.key, uid=write.uid, propagation=write.propagation, grace=write.grace
            )
        except NotFound:
            pass
        except Conflict:  # a namesake with another uid: the one we meant is gone
            if not write.uid:
                raise
        return []

    async def _status(self, write: Status) -> Written:
        options = {"manager": self.manager, "subresource": "status"}
        try:
            return [(write.kind, await self.client.update(write.kind, write.document, **options))]
        except NotFound:
            return []

    async def _complain(self, write: Apply | Create, error: ApiError) -> None:
        await self._say(tuple(self.refused(write, error)))

    async def _say(self, events: tuple[Event, ...]) -> None:
        """Events are a courtesy: that one cannot be written never fails a pass."""
        now = self.clock.now()
        writes = [self.recorder.write(event, now) for event in events]
        new = [write for write in writes if isinstance(write, Create)]
        answers: Sequence[Written | BaseException] | None = None
        if len(new) == len(writes) > 1:
            answers = await self._batch(new)
        if answers is None:
            answers = await gather(*map(self._write, writes), return_exceptions=True)
        for event, answer in zip(events, answers, strict=True):
            self._said(event, answer)

    def _said(self, event: Event, answer: Written | BaseException) -> None:
        if isinstance(answer, BaseException) and not isinstance(answer, ApiError):
            raise answer
        if not answer or isinstance(answer, ApiError):
            self.recorder.forget(event)
        if isinstance(answer, ApiError):
            log.debug("event %s about %s was not written: %s", event.reason, key_of(event.regarding), answer)
