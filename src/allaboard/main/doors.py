"""What listens: the API, progress reports beside it, and the way from the API to a node."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec

from allaboard.api.documents import Document
from allaboard.api.errors import Unauthorized
from allaboard.cluster.asgi import Receive, Scope, Send
from allaboard.cluster.nodes import Fetched, Socket
from allaboard.cluster.server import App
from allaboard.kube import http, reach
from allaboard.main.heart import Heart
from allaboard.training.progress import ProgressDoor

REPORTS = re.compile(r"/apis/trainer\.kubeflow\.org/v1alpha1/namespaces/[^/]+/trainjobs/[^/]+/status$")


class NodeCalls:
    """How the API server reaches pods where they run: through the node's own server."""

    def __init__(self, token: str) -> None:
        self.token = token
        reach.allow_slashes()
        reach.quiet_refusals()

    async def fetch(self, node: Document, target: str) -> Fetched:
        answer, chunks = await reach.fetch(node, target, self.token)
        if answer.status >= 400:
            chunks = _once(answer.body)
        return Fetched(answer.status, answer.headers.get("content-type", "text/plain"), chunks)

    async def relay(self, node: Document, target: str, socket: Socket) -> None:
        await reach.relay(node, target, self.token, reach.Ends(socket.protocols, socket.receive, socket.send))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def call_webhook(url: str, review: Document, seconds: float, bundle: bytes) -> Document:
    """Ask an admission webhook; its certificate must be signed by the bundle, or by whom the system trusts."""
    parts = urlsplit(url)
    tls = ssl.create_default_context(cadata=bundle.decode() or None) if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    transport = http.Transport(http.Address(parts.hostname or "", port, tls, parts.hostname or ""))
    query = f"?{parts.query}" if parts.query else ""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        call = http.Call("POST", f"{parts.path or '/'}{query}", headers=headers, body=msgspec.json.encode(review))
        answer = await transport.call(call, seconds)
    finally:
        await transport.close()
    if answer.status >= 400:
        raise OSError(f"the server answered {answer.status}")
    return msgspec.json.decode(answer.body, type=Document)


class Front:
    """What listens: progress reports of running jobs go to `training`, everything else is the API."""

    def __init__(self, api: App, heart: Heart) -> None:
        self.api = api
        self.progress = ProgressDoor(heart.client, heart.client, self._review)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        report = scope["type"] == "http" and scope["method"] == "POST" and REPORTS.match(scope["path"])
        await (self.progress if report else self.api)(scope, receive, send)

    async def _review(self, token: str, audience: str) -> Document:
        """Whose token this is, in the words of a TokenReview."""
        try:
            user, audiences = self.api.tokens.user(token, self.api.cluster.world.now(), [audience])
        except Unauthorized:
            return {"status": {"authenticated": False}}
        return {"status": {"authenticated": True, "user": user.document(), "audiences": list(audiences)}}
