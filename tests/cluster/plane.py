"""A whole cluster in one process for tests: the app without a socket, the client without a wire, time held still."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from allaboard.api import kinds
from allaboard.cluster.access import AUTHENTICATED, MASTERS, User
from allaboard.cluster.admitters import ADMISSION
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import Keeper
from allaboard.cluster.memory import Store
from allaboard.cluster.plane import Cluster
from allaboard.cluster.server import App, Doors
from allaboard.cluster.store import NoJournal
from allaboard.cluster.tokens import Signer
from allaboard.cluster.world import World

ADMIN = User("admin", (MASTERS, AUTHENTICATED), "admin")
ALICE = User("alice", ("developers", AUTHENTICATED), "alice")
SIGNER = Signer(rsa.generate_private_key(65537, 2048))
START = datetime(2026, 1, 1, tzinfo=UTC)


class Answered:
    """What came back: code, headers and body."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.code = messages[0]["status"]
        self.headers = [(name.decode(), value.decode()) for name, value in messages[0]["headers"]]
        self.data = b"".join(message.get("body", b"") for message in messages[1:])

    @property
    def body(self) -> Any:
        return json.loads(self.data)

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "warning"]

    @property
    def message(self) -> str:
        return str(self.body.get("message"))


class Plane:
    """Everything a test may touch; `later` moves the clock."""

    def __init__(self, hooks: tuple[object, ...] = ADMISSION, **doors: Any) -> None:
        self.moment = START
        numbers, names = itertools.count(1), itertools.count(1)
        world = World(
            now=lambda: self.moment,
            uid=lambda: f"00000000-0000-4000-8000-{next(numbers):012d}",
            suffix=lambda: f"{next(names):05d}",
        )
        self.cluster = Cluster(Store(NoJournal()), hooks, world)
        self.client = Inside(self.cluster)
        self.keeper = Keeper(self.cluster)
        settings = {"tokens": {"admin": ADMIN, "alice": ALICE}, "signer": SIGNER} | doors
        self.app = App(self.cluster, Doors(**settings))

    def later(self, **span: float) -> None:
        self.moment += timedelta(**span)

    async def furnish(self, *namespaces: str) -> Plane:
        """Namespaces with what pods need in them."""
        for name in namespaces or ("default",):
            await self.client.create(kinds.NAMESPACE, plain("v1", "Namespace", name), manager="test")
            await self.client.create(
                kinds.SERVICE_ACCOUNT, plain("v1", "ServiceAccount", "default", name), manager="test"
            )
        return self

    async def ask(
        self, method: str, path: str, body: object = None, *, token: str = "admin", **headers: str
    ) -> Answered:
        """One request; `body` is a document, or bytes to be sent as they are."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        lines = {"authorization": f"Bearer {token}", "user-agent": "test/1"} if token else {"user-agent": "test/1"}
        lines |= {"content-length": str(len(data))} if data else {}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
        }
        messages: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        return Answered(messages)


def plain(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    """A small document."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | rest.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def config_map(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    return plain("v1", "ConfigMap", name, namespace, data=data)


def pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    return plain("v1", "Pod", name, namespace, spec={"containers": containers, **spec})
