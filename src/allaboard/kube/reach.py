"""Reaching a node's own server: its logs as they come, and WebSockets joined with it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass

from websockets import headers
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from allaboard.api.documents import Document, dig
from allaboard.api.errors import ApiError, Internal, Unavailable, from_status
from allaboard.kube.http import Address, Answer, Call, Transport

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
LARGEST_FRAME = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Ends:
    """A client's WebSocket, as ASGI gives it."""

    protocols: Sequence[str]
    receive: Receive
    send: Send


def quiet_refusals() -> None:
    """A socket refused in plain HTTP is an answer; the server library logs it as an error of ours."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_refusal)


def _is_no_refusal(record: logging.LogRecord) -> bool:
    return "without completing handshake" not in record.getMessage()


def allow_slashes() -> None:
    """kubectl calls its port-forward tunnel "SPDY/3.1+portforward.k8s.io", and no API server minds the slash.

    The library does, in both directions; it offers no other way to say so.
    """
    headers._token_re = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z/]+")


def address_of(node: Document) -> tuple[str, int]:
    """Where a node's server listens, as the node itself says."""
    port = dig(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port", default=0)
    addresses = {a["type"]: a["address"] for a in dig(node, "status", "addresses", default=[])}
    host = addresses.get("InternalIP") or "127.0.0.1"
    if not port:
        raise Unavailable(
            f'node "{node["metadata"]["name"]}" does not say where it can be reached; is its agent running?'
        )
    return str(host), int(port)


async def fetch(node: Document, target: str, token: str) -> tuple[Answer, AsyncIterator[bytes]]:
    """A node's answer, its body piece by piece."""
    transport = Transport(Address(*address_of(node)))
    return await transport.stream(Call("GET", target, headers={"Authorization": f"Bearer {token}"}))


async def relay(node: Document, target: str, token: str, ends: Ends) -> None:
    """Join a client's WebSocket with the node's until either closes."""
    host, port = address_of(node)
    headers = {"Authorization": f"Bearer {token}"}
    opening = connect(
        f"ws://{host}:{port}{target}",
        subprotocols=list(ends.protocols) or None,  # type: ignore[arg-type]
        additional_headers=headers,
        max_size=LARGEST_FRAME,
        compression=None,
    )
    try:
        async with opening as far:
            await ends.send({"type": "websocket.accept", "subprotocol": far.subprotocol})
            await _join(far, ends)
    except InvalidStatus as refusal:
        raise told_by(refusal) from refusal
    except OSError as problem:
        raise Internal(f"error dialing backend: dial tcp {host}:{port}: {problem}") from problem


def told_by(refusal: InvalidStatus) -> ApiError:
    """What a node said instead of opening a socket; the client is told the same."""
    try:
        body = json.loads(refusal.response.body or b"")
    except ValueError:
        body = {}
    return from_status(refusal.response.status_code, body)


async def _join(far: ClientConnection, ends: Ends) -> None:
    ways = [asyncio.ensure_future(_out(far, ends)), asyncio.ensure_future(_in(far, ends))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)


async def _out(far: ClientConnection, ends: Ends) -> None:
    """From the node to the client."""
    try:
        async for frame in far:
            kind = "bytes" if isinstance(frame, bytes) else "text"
            await ends.send({"type": "websocket.send", kind: frame})
    except ConnectionClosed:
        pass
    code = far.close_code or 1000
    await ends.send({"type": "websocket.close", "code": code if code != 1006 else 1011})


async def _in(far: ClientConnection, ends: Ends) -> None:
    """From the client to the node."""
    while True:
        message = await ends.receive()
        if message["type"] == "websocket.disconnect":
            return
        frame = message.get("bytes")
        await far.send(frame if isinstance(frame, bytes) else str(message.get("text") or ""))
