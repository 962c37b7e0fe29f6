"""What listens: the API, progress reports beside it, and the way from the API to a node."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError, Unauthorized
from allaboard.cluster.asgi import Receive, Scope, Send
from allaboard.cluster.nodes import Fetched, Socket
from allaboard.cluster.outside import Reply, Target, Unreachable
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


async def call_webhook(target: Target, body: bytes, seconds: float, bundle: bytes) -> Reply:
    """Post to a webhook; its certificate must be signed by the bundle, or by whom the system trusts."""
    parts = urlsplit(target.url)
    name = parts.hostname or ""
    tls = ssl.create_default_context(cadata=bundle.decode() or None) if parts.scheme == "https" else None
    host, port = target.host or name, target.port or parts.port or (443 if tls else 80)
    transport = http.Transport(http.Address(host, port, tls, name))
    query = f"?{parts.query}" if parts.query else ""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        call = http.Call("POST", f"{parts.path or '/'}{query}", headers=headers, body=body)
        answer = await transport.call(call, seconds)
    except (OSError, TimeoutError, AboardError) as fault:
        raise Unreachable(f'Post "{target.url}": {_go_words(fault, host, port)}') from fault
    finally:
        await transport.close()
    return Reply(answer.status, answer.body)


def _go_words(fault: BaseException, host: str, port: int) -> str:
    """Why nobody answered, as Go's network library says it."""
    chain = [fault, fault.__cause__, fault.__context__]
    if any(isinstance(each, TimeoutError) for each in chain):
        return "context deadline exceeded"
    if any(isinstance(each, socket.gaierror) for each in chain):
        return f"dial tcp: lookup {host}: no such host"
    if any(isinstance(each, ConnectionRefusedError) for each in chain):
        return f"dial tcp {host}:{port}: connect: connection refused"
    distrust = next((each for each in chain if isinstance(each, ssl.SSLCertVerificationError)), None)
    if distrust is not None:
        return f"tls: failed to verify certificate: x509: {_distrust(distrust)}"
    return "EOF" if any(isinstance(each, ConnectionError | EOFError) for each in chain) else str(fault)


def _distrust(fault: ssl.SSLCertVerificationError) -> str:
    words = fault.verify_message
    return "certificate signed by unknown authority" if "issuer" in words or "self-signed" in words else words


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
