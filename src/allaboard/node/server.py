"""The node's own HTTP server: logs, exec, attach and port-forward, for the API server to pass on.

Plain HTTP on loopback; every caller shows the agent's token. Paths are a kubelet's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import parse_qs

import uvicorn

from allaboard.api.documents import Document
from allaboard.api.errors import ApiError, BadRequest, NotFound, Unauthorized
from allaboard.api.meta import moment_of
from allaboard.kube.reach import allow_slashes, quiet_refusals
from allaboard.node import channels
from allaboard.node.journal import View
from allaboard.node.logs import Logs
from allaboard.node.processes import Attempt
from allaboard.node.status import waits_for
from allaboard.node.streams import Command, Session, WebSocket, Wishes, attach, forward, run_command
from allaboard.node.tenants import Tenant
from allaboard.node.tunnel import serve_tunnel

Message = Document
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class House(Protocol):
    """What the server asks of the agent."""

    logs: Logs

    def tenant(self, namespace: str, name: str) -> Tenant | None: ...

    def now(self) -> datetime: ...

    async def execute(self, attempt: Attempt, command: Command, descriptors: list[int]) -> None: ...

    async def resize(self, attempt: Attempt, rows: int, columns: int) -> None: ...

    async def connect(self, tenant: Tenant, port: int) -> socket.socket: ...

    def summary(self) -> Document: ...


class Entrance(Protocol):
    """How a caller who wants to converse came in."""

    offered: Sequence[str]  # the protocols he speaks
    tunnels: bool  # whether a port-forward through it is SPDY frames

    async def open(self, spoken: str) -> Session: ...


class _WebSocketDoor:
    tunnels = False

    def __init__(self, offered: Sequence[str], receive: Receive, send: Send) -> None:
        self.offered, self._receive, self._send = offered, receive, send

    async def open(self, spoken: str) -> Session:
        """Upstream: a port-forward that names no protocol speaks in channels."""
        await self._send({"type": "websocket.accept", "subprotocol": spoken or None})
        return WebSocket(self._receive, self._send)


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a request, read as kinds of values."""

    values: Mapping[str, list[str]]

    def text(self, name: str) -> str:
        return self.values.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in ("1", "true")

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not text.lstrip("-").isdigit():
            raise BadRequest(f'{name}: "{text}" is not a number')
        return int(text)


class App:
    """The ASGI application."""

    def __init__(self, house: House, token: str) -> None:
        self.house, self.token = house, token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        answer = self._http if scope["type"] == "http" else self._websocket
        await answer(scope, receive, send)

    def _enter(self, scope: Message) -> tuple[list[str], Query]:
        """Who may come in, and where to."""
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if not hmac.compare_digest(shown, f"Bearer {self.token}".encode()):
            raise Unauthorized("Unauthorized")
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
        return [part for part in scope["path"].split("/") if part], Query(query)

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            path, query = self._enter(scope)
            match path:
                case ["healthz"]:
                    await _reply(send, 200, b"ok", "text/plain")
                case ["stats", "summary"]:
                    await _reply(send, 200, json.dumps(self.house.summary()).encode())
                case ["containerLogs", namespace, name, container]:
                    await self._log(self._attempt(namespace, name, container, query), query, receive, send)
                case _:
                    raise NotFound(f'the node has no "{scope["path"]}"')
        except ApiError as problem:
            await _reply(send, problem.code, json.dumps(problem.status()).encode())

    def _tenant(self, namespace: str, name: str) -> Tenant:
        tenant = self.house.tenant(namespace, name)
        if tenant is None:
            raise NotFound(f'pod "{name}" not found on this node')
        return tenant

    def _attempt(self, namespace: str, name: str, container: str, query: Query) -> Attempt:
        """The attempt whose log is wanted: the last, or the one before."""
        tenant = self._tenant(namespace, name)
        attempts = tenant.attempts.get(container, [])
        if query.flag("previous"):
            if len(attempts) < 2:
                raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
            return attempts[-2]
        if not attempts:
            why = waits_for(tenant.document, container)
            raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {why}')
        return attempts[-1]

    async def _log(self, attempt: Attempt, query: Query, receive: Receive, send: Send) -> None:
        view = _view(query, self.house.now())
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.ensure_future(_gone(receive))
        copying = asyncio.ensure_future(self._copy_log(attempt, view, send))
        try:
            await asyncio.wait((leaving, copying), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, copying):
                task.cancel()
        with contextlib.suppress(OSError, RuntimeError):
            await send({"type": "http.response.body", "body": b""})

    async def _copy_log(self, attempt: Attempt, view: View, send: Send) -> None:
        async for piece in self.house.logs.read(attempt.log, view):
            await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        try:
            path, query = self._enter(scope)
            await self.converse(path, query, _WebSocketDoor(scope.get("subprotocols", []), receive, send))
        except ApiError as problem:
            await _refuse(send, problem)

    async def converse(self, path: list[str], query: Query, entrance: Entrance) -> None:
        """Exec, attach or port-forward; what is wrong is said before the conversation opens."""
        match path:
            case ["exec", namespace, name, container] | ["exec", namespace, name, _, container]:
                spoken = _agree(entrance.offered, channels.V5, channels.V4)
                attempt, command = self._living(namespace, name, container), _command(query)
                await run_command(await entrance.open(spoken), attempt, command, self.house.execute)
            case ["attach", namespace, name, container] | ["attach", namespace, name, _, container]:
                spoken = _agree(entrance.offered, channels.V5, channels.V4)
                attempt = self._living(namespace, name, container)
                wishes = Wishes(_wants_stdin(query), self.house.resize)
                await attach(await entrance.open(spoken), attempt, self.house.logs, wishes)
            case ["portForward", namespace, name] | ["portForward", namespace, name, _]:
                await self._port_forward(self._tenant(namespace, name), query, entrance)
            case _:
                raise NotFound(f'the node has no "/{"/".join(path)}"')

    async def _port_forward(self, tenant: Tenant, query: Query, entrance: Entrance) -> None:
        offered = entrance.offered
        spoken = _agree(offered, channels.TUNNEL, channels.V4, channels.PORT_FORWARD) if offered else ""
        session = await entrance.open(spoken)
        connect = lambda port: self.house.connect(tenant, port)
        if spoken == channels.TUNNEL or entrance.tunnels:
            await serve_tunnel(session, connect)
            return
        ports = [int(port) for text in query.values.get("ports", []) for port in text.split(",") if port]
        await forward(session, ports, connect)

    def _living(self, namespace: str, name: str, container: str) -> Attempt:
        attempt = self._tenant(namespace, name).last(container)
        if attempt is None or attempt.ended is not None:
            raise BadRequest(f'container "{container}" in pod "{name}" is not running')
        return attempt


def _wants_stdin(query: Query) -> bool:
    """The API's word, or the one an API server uses towards a kubelet."""
    return query.flag("stdin") or query.flag("input")


def _agree(offered: Sequence[str], *spoken: str) -> str:
    found = channels.agreed(offered, spoken)
    if not found:
        raise BadRequest(f"no subprotocol in common; this node speaks: {', '.join(spoken)}")
    return found


def _command(query: Query) -> Command:
    argv = query.values.get("command", [])
    if not argv:
        raise BadRequest("you must specify at least one command for the container")
    return Command(argv, stdin=_wants_stdin(query), tty=query.flag("tty"))


def _view(query: Query, now: datetime) -> View:
    """The log options of the API, checked as the API checks them."""
    limit, seconds = query.number("limitBytes"), query.number("sinceSeconds")
    if limit is not None and limit < 1:
        raise BadRequest("limitBytes: must be greater than 0")
    since = now - timedelta(seconds=seconds) if seconds is not None else None
    if query.text("sinceTime"):
        since = moment_of(query.text("sinceTime"))
    return View(
        follow=query.flag("follow"),
        previous=query.flag("previous"),
        timestamps=query.flag("timestamps"),
        tail=query.number("tailLines"),
        since=since,
        limit=limit,
    )


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, status: int, body: bytes, kind: str = "application/json") -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(send: Send, problem: ApiError) -> None:
    """Before the upgrade a WebSocket request may still be answered in plain HTTP."""
    body = json.dumps(problem.status()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": problem.code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


class _Server(uvicorn.Server):
    """Signals are the agent's business."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class Serving:
    """The server at work on a socket of its own."""

    def __init__(self, app: App) -> None:
        allow_slashes()
        quiet_refusals()
        self.door = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self.door.getsockname()[1]
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self.server = _Server(config)

    async def run(self) -> None:
        try:
            await self.server.serve(sockets=[self.door])
        finally:
            self.door.close()
