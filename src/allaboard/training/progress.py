"""Where running jobs report progress: an HTTP door that takes a pod's word for its own TrainJob."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping

import msgspec

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError, Internal, NotFound
from allaboard.kube.client import Reader, Writer
from allaboard.training import reports
from allaboard.training.plugins.progress import audience

log = logging.getLogger("allaboard")

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Asks the API server whose token this is, for one audience; answers with a TokenReview.
Review = Callable[[str, str], Awaitable[Document]]


class Report(msgspec.Struct, frozen=True):
    """One report, as it came in."""

    method: str
    path: str
    authorization: str
    length: int | None
    body: bytes


class ProgressDoor:
    """An ASGI application; every replica may run one."""

    def __init__(self, reader: Reader, writer: Writer, review: Review) -> None:
        self.reader, self.writer, self.review = reader, writer, review

    async def take(self, report: Report) -> tuple[int, Document]:
        """The answer to a report: its own words back, or a refusal."""
        try:
            reports.must_fit(report.length)
            key = reports.place_of(report.method, report.path)
            await self._let_in(key, report.authorization)
            payload = reports.payload_of(report.body)
            if payload:
                await self._write(key, payload)
            return 200, payload
        except ApiError as error:
            return error.code, reports.refusal(error)

    async def _let_in(self, job: Key, authorization: str) -> None:
        token = reports.token_of(authorization)
        review = await self.review(token, audience(*job)) if token else {}
        caller = reports.caller_of(review)
        pod = await self.reader.get(kinds.POD, Key(caller.namespace, caller.pod)) if caller and caller.pod else None
        reports.must_be_own_pod(caller, job, pod)

    async def _write(self, job: Key, payload: Document) -> None:
        document = reports.status_document(job, payload)
        try:
            await self.writer.apply(kinds.TRAIN_JOB, document, manager=reports.MANAGER, subresource="status")
        except NotFound:
            raise NotFound("Train job not found") from None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        code, answer = await self._safely(await _read(scope, receive))
        body = msgspec.json.encode(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _safely(self, report: Report) -> tuple[int, Document]:
        try:
            return await self.take(report)
        except Exception:  # the edge of the door: one report's trouble must not close it
            log.exception('msg="Progress report failed" path=%s', report.path)
            return 500, reports.refusal(Internal("Internal error"))


async def _read(scope: Message, receive: Receive) -> Report:
    """The request, its body no further than one byte past the limit."""
    stated = _header(scope, b"content-length")
    length = int(stated) if stated.isdecimal() else None
    body, more = b"", length is None or length <= reports.LARGEST_BODY
    while more and len(body) <= reports.LARGEST_BODY:
        message = await receive()
        part = message.get("body")
        body += part if isinstance(part, bytes) else b""
        more = bool(message.get("more_body"))
    path, method = str(scope["path"]), str(scope["method"])
    return Report(method, path, _header(scope, b"authorization"), length, body)


def _header(scope: Message, name: bytes) -> str:
    headers = scope["headers"]
    pairs = headers if isinstance(headers, list | tuple) else ()
    return next((value.decode("latin-1") for key, value in pairs if key == name), "")
