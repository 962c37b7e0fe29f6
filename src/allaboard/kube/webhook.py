"""Our admission served to a real API server: AdmissionReview in, verdict out, over https."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import msgspec

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.errors import ApiError, NotFound
from allaboard.api.kinds import KNOWN, Kind
from allaboard.api.meta import name_of
from allaboard.kube.admission import Hook
from allaboard.kube.client import Reader, Select

log = logging.getLogger("allaboard")

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
VERBS = ("mutate", "validate")


@dataclass(frozen=True, slots=True)
class Asked:
    """An AdmissionReview's request, as hooks read it."""

    operation: str
    kind: Kind
    key: Key
    new: Document | None
    old: Document | None
    subresource: str


class BadReview(ValueError):
    """What was sent is no AdmissionReview of a kind we know."""


class Fetched:
    """Other documents, fetched as they are asked for.

    A hook is pure and asks without waiting: what is not here yet is noted, fetched, and the hook asked again. It
    reads the cluster itself, so a runtime that was created a moment ago is there.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.found: dict[tuple[Kind, Key], Document | None] = {}
        self.lists: dict[tuple[Kind, str], Documents] = {}
        self.wanted: list[tuple[Kind, Key | str]] = []

    def get(self, kind: Kind, key: Key) -> Document | None:
        if (kind, key) not in self.found:
            self.wanted.append((kind, key))
        return self.found.get((kind, key))

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        if (kind, namespace) not in self.lists:
            self.wanted.append((kind, namespace))
        return self.lists.get((kind, namespace), [])

    async def fetch(self) -> bool:
        """Get what was missed; False where nothing was."""
        missed, self.wanted = dict.fromkeys(self.wanted), []
        for kind, what in missed:
            if isinstance(what, Key):
                self.found[kind, what] = await self.reader.get(kind, what)
            else:
                self.lists[kind, what] = await self._listed(kind, what)
        return bool(missed)

    async def _listed(self, kind: Kind, namespace: str) -> Documents:
        try:
            return await self.reader.list(kind, Select(namespace))
        except NotFound:  # the cluster does not serve this kind
            return []


class Webhook:
    """An ASGI app: `/mutate/NAME` and `/validate/NAME` for every hook."""

    def __init__(self, hooks: Sequence[Hook], reader: Reader) -> None:
        self.hooks: Mapping[str, Hook] = {hook.name: hook for hook in hooks}
        self.reader = reader

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        _, verb, name = (str(scope["path"]).split("/", 2) + ["", ""])[:3]
        hook = self.hooks.get(name)
        if hook is None or verb not in VERBS or not hasattr(hook, verb):
            await _answer(send, 404, {"message": f'no hook "{name}"; hooks are: {", ".join(sorted(self.hooks))}'})
            return
        code, answer = await self._safely(hook, verb, await _body(receive))
        await _answer(send, code, answer)

    async def _safely(self, hook: Hook, verb: str, body: bytes) -> tuple[int, Document]:
        try:
            return 200, await self.review(hook, verb, body)
        except BadReview as error:
            return 400, {"message": str(error)}
        except Exception as error:  # the edge of the door: the API server is told, and applies its failure policy
            log.exception('msg="Admission failed" hook=%s', hook.name)
            return 500, {"message": f'hook "{hook.name}" failed: {error}'}

    async def review(self, hook: Hook, verb: str, body: bytes) -> Document:
        """The whole answer to a review."""
        review = _decoded(body)
        request, view = asked(review["request"]), Fetched(self.reader)
        response = answer(hook, verb, request, view)
        while await view.fetch():
            response = answer(hook, verb, request, view)
        response["uid"] = review["request"].get("uid", "")
        return {"apiVersion": review.get("apiVersion"), "kind": review.get("kind"), "response": response}


def _decoded(body: bytes) -> Document:
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadReview(f"the body is no JSON: {error}") from error
    if not isinstance(review, dict) or not isinstance(review.get("request"), dict):
        raise BadReview("the body is no AdmissionReview: it has no request")
    return review


def asked(request: Document) -> Asked:
    """What an AdmissionReview asks about."""
    meant = request.get("kind") or {}
    wanted = tuple(meant.get(part, "") for part in ("group", "version", "kind"))
    kind = next((k for k in KNOWN if (k.group, k.version, k.kind) == wanted), None)
    if kind is None:
        raise BadReview(f'kind "{wanted[2]}" of "{wanted[0]}/{wanted[1]}" is not known here')
    new, old = request.get("object") or None, request.get("oldObject") or None
    key = Key(request.get("namespace", ""), request.get("name") or name_of(new or old or {"metadata": {}}))
    return Asked(request["operation"], kind, key, new, old, request.get("subResource", ""))


def answer(hook: Hook, verb: str, request: Asked, view: Fetched) -> Document:
    """The response part of a review."""
    if verb == "mutate":
        changed = hook.mutate(request, view)  # type: ignore[attr-defined]
        return {"allowed": True, **_patch(request.new or {}, changed)}
    verdict = hook.validate(request, view)  # type: ignore[attr-defined]
    response: Document = {"allowed": verdict.refusal is None}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if verdict.refusal is not None:
        response["status"] = _status(verdict.refusal)
    return response


def _patch(before: Document, after: Document | None) -> Document:
    """A JSON patch that replaces the top-level parts that changed."""
    if after is None or after == before:
        return {}
    operations = [
        {"op": "replace" if part in before else "add", "path": f"/{part}", "value": value}
        for part, value in after.items()
        if before.get(part) != value
    ]
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


def _status(refusal: ApiError) -> Document:
    status = refusal.status()
    return {part: status[part] for part in ("message", "reason", "code", "details") if dig(status, part)}


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        part = message.get("body")
        body += part if isinstance(part, bytes) else b""
        if not message.get("more_body"):
            return body


async def _answer(send: Send, code: int, document: Document) -> None:
    body = msgspec.json.encode(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
