"""The plumbing between ASGI and us: bodies in, answers and streams out, with limits on both."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any, NamedTuple

from allaboard.api.errors import BadRequest, TimedOut, TooLarge
from allaboard.cluster.answers import Answer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST_BODY = 3 * 1024 * 1024
LONGEST_BODY = 60.0  # seconds
WORTH_PACKING = 128 * 1024


class Wire(NamedTuple):
    """A connection, as ASGI gives it."""

    receive: Receive
    send: Send


async def reject(answer: Answer, scope: Scope, send: Send) -> None:
    """Refuse a WebSocket with an answer, where the server can; else by closing it."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": answer.body.decode()[:120]})
        return
    head = [(b"content-type", answer.type.encode())]
    await send({"type": "websocket.http.response.start", "status": answer.code, "headers": head})
    await send({"type": "websocket.http.response.body", "body": answer.body})


class ClientGone(Exception):
    """Whoever asked has hung up."""


async def read_body(receive: Receive, headers: Mapping[str, str]) -> bytes:
    if int(headers.get("content-length") or 0) > LARGEST_BODY:
        raise _too_large()
    if not headers.get("content-length") and "transfer-encoding" not in headers:
        return b""
    data = await _in_time(_received(receive))
    return _unpacked(data) if headers.get("content-encoding") == "gzip" else data


async def _in_time(reading: Coroutine[None, None, bytes]) -> bytes:
    """A body, if it arrives in time; a timer by hand, because `asyncio.timeout` costs as much as a whole GET."""
    task, late = asyncio.current_task(), list[bool]()

    def give_up() -> None:
        late.append(True)
        if task is not None:
            task.cancel()

    timer = asyncio.get_running_loop().call_later(LONGEST_BODY, give_up)
    try:
        return await reading
    except asyncio.CancelledError:
        if not late or task is None:
            raise
        task.uncancel()
        raise TimedOut(f"Timeout: the body did not arrive within {LONGEST_BODY:.0f} seconds") from None
    finally:
        timer.cancel()


async def _received(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise _too_large()
        if not message.get("more_body"):
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {LARGEST_BODY}", details={})


def _unpacked(data: bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        plain = unpacker.decompress(data, LARGEST_BODY + 1)
    except zlib.error as fault:
        raise BadRequest(f"the body is no gzip: {fault}") from fault
    if len(plain) > LARGEST_BODY:
        raise _too_large()
    return plain


async def send_answer(answer: Answer, headers: Mapping[str, str], send: Send, *, body: bool) -> None:
    lines = [(b"content-type", answer.type.encode())] if answer.type else []
    lines += answer.headers
    data = answer.body
    if len(data) > WORTH_PACKING and "gzip" in headers.get("accept-encoding", ""):
        packer = zlib.compressobj(1, wbits=31)
        data = packer.compress(data) + packer.flush()
        lines += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    lines.append((b"content-length", str(len(data)).encode()))
    await send({"type": "http.response.start", "status": answer.code, "headers": lines})
    await send({"type": "http.response.body", "body": data if body else b""})


async def send_stream(code: int, media: str, chunks: AsyncGenerator[bytes, None], wire: Wire) -> None:
    """Send pieces as they come; the stream ends when the client hangs up."""
    this, send = asyncio.current_task(), wire.send
    ended: list[bool] = []

    def hang_up(_: object) -> None:
        if this is not None and not ended:
            this.cancel()

    gone = asyncio.ensure_future(_until_gone(wire.receive))
    gone.add_done_callback(hang_up)
    head = [(b"content-type", media.encode())]
    try:
        await send({"type": "http.response.start", "status": code, "headers": head})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        async with contextlib.aclosing(chunks) as lines:
            async for chunk in lines:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if not gone.done():
            raise
    finally:
        ended.append(True)
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "lifespan.startup.complete"})
