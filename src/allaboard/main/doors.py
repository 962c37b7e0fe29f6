"""What listens: the API, progress reports beside it, and the way from the API to a node."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from allaboard.api.documents import Document
from allaboard.api.errors import Unauthorized
from allaboard.cluster.nodes import Fetched, Socket
from allaboard.cluster.server import App, Receive, Scope, Send
from allaboard.kube import reach
from allaboard.main.heart import Heart
from allaboard.training.progress import ProgressDoor

REPORTS = re.compile(r"/apis/trainer\.kubeflow\.org/v1alpha1/namespaces/[^/]+/trainjobs/[^/]+/status$")


class NodeCalls:
    """How the API server reaches pods where they run: through the node's own server."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def fetch(self, node: Document, target: str) -> Fetched:
        answer, chunks = await reach.fetch(node, target, self.token)
        if answer.status >= 400:
            chunks = _once(answer.body)
        return Fetched(answer.status, answer.headers.get("content-type", "text/plain"), chunks)

    async def relay(self, node: Document, target: str, socket: Socket) -> None:
        await reach.relay(node, target, self.token, reach.Ends(socket.protocols, socket.receive, socket.send))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


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
