"""Our admission served to a real API server: AdmissionReview in, verdict out, over https."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.errors import ApiError
from allaboard.api.kinds import KNOWN, Kind
from allaboard.api.meta import name_of
from allaboard.kube.admission import Hook
from allaboard.kube.informer import Informers

Receive = Callable[[], Awaitable[Document]]
Send = Callable[[Document], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Asked:
    """An AdmissionReview's request, as hooks read it."""

    operation: str
    kind: Kind
    key: Key
    new: Document | None
    old: Document | None
    subresource: str


class Known:
    """Other documents, from the informers of this process."""

    def __init__(self, informers: Informers) -> None:
        self.informers = informers

    def get(self, kind: Kind, key: Key) -> Document | None:
        return self.informers.of(kind).documents.get(key)

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        return list(self.informers.of(kind).in_namespace(namespace))


class Webhook:
    """An ASGI app: `/mutate/NAME` and `/validate/NAME` for every hook."""

    def __init__(self, hooks: Sequence[Hook], informers: Informers) -> None:
        self.hooks = {hook.name: hook for hook in hooks}
        self.view = Known(informers)

    async def __call__(self, scope: Document, receive: Receive, send: Send) -> None:
        _, verb, name = (scope["path"].split("/", 2) + ["", ""])[:3]
        hook = self.hooks.get(name)
        if hook is None or not hasattr(hook, verb):
            await _answer(send, 404, {"message": f'no hook "{name}"; hooks are: {", ".join(sorted(self.hooks))}'})
            return
        review = msgspec.json.decode(await _body(receive))
        response = answer(hook, verb, asked(review["request"]), self.view)
        response["uid"] = review["request"]["uid"]
        await _answer(send, 200, {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


def asked(request: Document) -> Asked:
    """What an AdmissionReview asks about."""
    group, version, name = (request["kind"][part] for part in ("group", "version", "kind"))
    kind = next(k for k in KNOWN if (k.group, k.version, k.kind) == (group, version, name))
    new, old = request.get("object") or None, request.get("oldObject") or None
    key = Key(request.get("namespace", ""), request.get("name") or name_of(new or old or {}))
    return Asked(request["operation"], kind, key, new, old, request.get("subResource", ""))


def answer(hook: Hook, verb: str, request: Asked, view: Known) -> Document:
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
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


async def _answer(send: Send, code: int, document: Document) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(document)})
