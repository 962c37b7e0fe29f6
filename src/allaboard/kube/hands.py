"""The only hands that write: a plan is carried out, stage by stage, through a client."""

from __future__ import annotations

import logging
from asyncio import gather
from collections.abc import Callable, Iterable, Sequence

from allaboard.api.documents import Document
from allaboard.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of
from allaboard.kube.client import Batch, Client
from allaboard.kube.clock import Clock
from allaboard.kube.events import Recorder
from allaboard.kube.metrics import meter_of
from allaboard.kube.plan import Apply, Bind, Create, Delete, Event, Patch, Plan, Status, Update

log = logging.getLogger("allaboard")

Group = tuple[Document, ...]
Write = Apply | Create | Group | Update | Patch | Bind | Delete | Status
Written = list[tuple[Kind, Document]]
VERBS: dict[type, str] = {kind: kind.__name__.lower() for kind in (Apply, Create, Update, Patch, Bind, Delete, Status)}
VERBS[tuple] = "together"
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
        self._writes = meter_of(self.manager).writes
        self._at_once = client if isinstance(client, Batch) else None
        self.lost: Lost | None = None

    async def carry_out(self, plan: Plan) -> Written:
        """Objects first, status once, words last. Returns what was written."""
        written: Written = []
        stages: tuple[tuple[Write, ...], ...] = (
            plan.apply, plan.create, plan.together, plan.update, plan.patch, plan.bind, plan.delete,
        )  # fmt: skip
        for stage in stages:
            if stage:
                written += await self._all(stage)
        try:
            written += await self._all(plan.status) if plan.status else []
        except Conflict:  # somebody else wrote first: what was done before the status is told all the same
            await self._say(tuple(event for event in plan.events if event.is_fact))
            raise
        if plan.events:
            await self._say(plan.events)
        return written

    async def _all(self, writes: tuple[Write, ...]) -> Written:
        """Every write of a stage at once; all are tried before the first failure is raised."""
        if len(writes) == 1:
            return await self._write(writes[0])
        answers = await self._batch(writes)
        if answers is None:
            answers = await gather(*map(self._write, writes), return_exceptions=True)
        written: Written = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            written += answer
        return written

    async def _batch(self, writes: Sequence[Write]) -> Sequence[Written | BaseException] | None:
        """Every write of a stage with one commit; None where there is no such way."""
        if self._at_once is None:
            return None
        match writes[0]:
            case Apply():
                return await self._apply_all(self._at_once, [write for write in writes if isinstance(write, Apply)])
            case Create():
                return await self._create_all(self._at_once, [write for write in writes if isinstance(write, Create)])
            case Bind():
                return await self._bind_all(self._at_once, [write for write in writes if isinstance(write, Bind)])
            case Delete():
                return await self._delete_all(self._at_once, [write for write in writes if isinstance(write, Delete)])
        return None

    async def _apply_all(self, client: Batch, writes: list[Apply]) -> list[Written | BaseException] | None:
        if any(write.subresource for write in writes):
            return None
        answers = await client.apply_new([(write.kind, write.document) for write in writes], manager=self.manager)
        if answers is None:
            return None
        self._writes["apply"] += len(writes)
        return await self._answered(writes, answers)

    async def _create_all(self, client: Batch, writes: list[Create]) -> list[Written | BaseException] | None:
        answers = await client.many([(write.kind, write.document) for write in writes], manager=self.manager)
        if answers is None:
            return None
        self._writes["create"] += len(writes)
        return await self._answered(writes, answers)

    async def _bind_all(self, client: Batch, writes: list[Bind]) -> list[Written | BaseException]:
        self._writes["bind"] += len(writes)
        refusals = await client.bind_many([(write.pod, write.uid, write.node) for write in writes])
        return [[] if refusal is None else refusal for refusal in refusals]

    async def _delete_all(self, client: Batch, writes: list[Delete]) -> list[Written | BaseException] | None:
        kind = writes[0].kind
        if any(write.kind != kind or write.propagation or write.grace is not None for write in writes):
            return None
        refusals = await client.delete_many(kind, [(write.key, write.uid) for write in writes])
        if refusals is None:
            return None
        self._writes["delete"] += len(writes)
        return [
            [] if refusal is None or _is_gone(write, refusal) else refusal
            for write, refusal in zip(writes, refusals, strict=True)
        ]

    async def _answered(
        self, writes: Sequence[Apply | Create], answers: Sequence[Document | ApiError]
    ) -> list[Written | BaseException]:
        return [
            await self._refusal(write, answer) if isinstance(answer, ApiError) else [(write.kind, answer)]
            for write, answer in zip(writes, answers, strict=True)
        ]

    async def _refusal(self, write: Apply | Create, error: ApiError) -> Written | BaseException:
        """What a refusal comes to; who made what exists already got what was wanted."""
        if isinstance(error, AlreadyExists) and isinstance(write, Create):
            return []
        if isinstance(error, Invalid | Forbidden | NotFound):
            await self._complain(write, error)
        return error

    async def _write(self, write: Write) -> Written:
        self._writes[VERBS[type(write)]] += 1
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
        except ApiError as error:
            if not _is_gone(write, error):
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
        told = [(event, write) for event in events if (write := self.recorder.write(event, now)) is not None]
        writes = [write for _, write in told]
        new = [write for write in writes if isinstance(write, Create)]
        answers = await self._batch(new) if len(new) == len(writes) > 1 else None
        if answers is None:
            answers = await gather(*map(self._write, writes), return_exceptions=True)
        for (event, _), answer in zip(told, answers, strict=True):
            self._said(event, answer)

    def _said(self, event: Event, answer: Written | BaseException) -> None:
        if isinstance(answer, BaseException) and not isinstance(answer, ApiError):
            raise answer
        if not answer or isinstance(answer, ApiError):
            self.recorder.forget(event)
        if isinstance(answer, ApiError):
            log.debug("event %s about %s was not written: %s", event.reason, key_of(event.regarding), answer)


def _is_gone(write: Delete, error: ApiError) -> bool:
    """Nothing is left to delete: there is no such object, or only a namesake with another uid."""
    return isinstance(error, NotFound) or (isinstance(error, Conflict) and bool(write.uid))
