"""The door a real API server knocks at: TLS on a kubelet's port, callers checked with the cluster, streams in SPDY.

An API server speaks plain HTTP for logs, and upgrades to SPDY for exec, attach and port-forward. Plain requests go on
to the agent's own server, with its token; conversations are held here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from allaboard.api.documents import dig
from allaboard.api.errors import ApiError, Forbidden, Unauthorized
from allaboard.node import callers, channels, spdy
from allaboard.node.config import Listen
from allaboard.node.server import App, Query
from allaboard.node.streams import CHUNK, Session

log = logging.getLogger(__name__)

HEAD_SECONDS, STREAM_SECONDS, GOODBYE_SECONDS = 30, 30, 5
# A conversation's streams by the name SPDY gives them.
CHANNELS = {
    "error": channels.ERROR,
    "stdin": channels.STDIN,
    "stdout": channels.STDOUT,
    "stderr": channels.STDERR,
    "resize": channels.RESIZE,
}
REASONS = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a request."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        found = [value for key, value in self.headers if key.lower() == name]
        return [word.strip() for value in found for word in value.split(",")]

    def value(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def path(self) -> list[str]:
        return [part for part in urlsplit(self.target).path.split("/") if part]

    @property
    def query(self) -> Query:
        return Query(parse_qs(urlsplit(self.target).query, keep_blank_values=True))


def read_head(data: bytes) -> Head:
    first, *rest = data.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = [line.split(":", 1) for line in rest if ":" in line]
    return Head(method, target, [(name.strip(), value.strip()) for name, value in pairs])


class Wire:
    """SPDY frames over a connection; a session of raw bytes for port-forward, and what `Streams` is built on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def hear(self) -> bytes | None:
        with contextlib.suppress(OSError):
            return await self.reader.read(CHUNK) or None
        return None

    async def say(self, data: bytes) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.write(data)
            await self.writer.drain()

    async def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.close()


@dataclass
class Streams:
    """SPDY streams as the frames of channels: what `exec` and `attach` hold their conversation in."""

    wire: Wire
    wanted: frozenset[int]
    frames: spdy.Reader = field(default_factory=spdy.Reader)
    words: spdy.Writer = field(default_factory=spdy.Writer)
    ids: dict[int, int] = field(default_factory=dict)  # channel → stream
    heard: deque[bytes] = field(default_factory=deque)

    async def gather(self) -> None:
        """Wait for every stream the request announced, as a kubelet does."""
        while not self.wanted <= set(self.ids):
            if not await self._read():
                raise ConnectionError("the caller left before its streams were open")

    async def hear(self) -> bytes | None:
        while not self.heard:
            if not await self._read():
                return None
        return self.heard.popleft()

    async def _read(self) -> bool:
        data = await self.wire.hear()
        for frame in self.frames.take(data or b""):
            await self._take(frame)
        return data is not None

    async def _take(self, frame: spdy.Frame) -> None:
        match frame.type:
            case spdy.SYN_STREAM:
                channel = CHANNELS.get(frame.headers.get("streamtype", ""), -1)
                self.ids[channel] = frame.stream
                await self.wire.say(self.words.reply(frame.stream))
            case spdy.PING:
                await self.wire.say(self.words.ping(frame.stream))
            case 0:
                channel = next((name for name, stream in self.ids.items() if stream == frame.stream), -1)
                if frame.data and channel >= 0:
                    self.heard.append(channels.frame(channel, frame.data))
                if frame.fin and channel == channels.STDIN:
                    self.heard.append(channels.frame(channels.CLOSE, bytes([channels.STDIN])))

    async def say(self, data: bytes) -> None:
        stream = self.ids.get(data[0])
        if stream is not None:
            await self.wire.say(self.words.data(stream, data[1:]))

    async def close(self) -> None:
        """Every stream ends, then the other side may leave first: what it has not read yet would be lost."""
        for stream in self.ids.values():
            await self.wire.say(self.words.data(stream, b"", fin=True))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                while await self.wire.hear() is not None:
                    pass
        await self.wire.close()


class SpdyDoor:
    """A caller who asked for an upgrade to SPDY."""

    tunnels = True

    def __init__(self, head: Head, wire: Wire) -> None:
        self.head, self.wire = head, wire
        self.offered: Sequence[str] = head.values("x-stream-protocol-version")

    async def open(self, spoken: str) -> Session:
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        lines += [f"X-Stream-Protocol-Version: {spoken}"] if spoken else []
        await self.wire.say("\r\n".join([*lines, "", ""]).encode())
        if self.head.path[0] == "portForward":
            return self.wire
        streams = Streams(self.wire, wanted_streams(self.head.query))
        async with asyncio.timeout(STREAM_SECONDS):
            await streams.gather()
        return streams


def wanted_streams(query: Query) -> frozenset[int]:
    """Which streams a caller will open, by its query."""
    tty = query.flag("tty")
    found = {channels.ERROR, *([channels.RESIZE] if tty else [])}
    named = {"input": channels.STDIN, "output": channels.STDOUT, "error": channels.STDERR}
    found |= {channel for name, channel in named.items() if query.flag(name)}
    return frozenset(found - ({channels.STDERR} if tty else set()))


class Kubelet:
    """The listening side."""

    def __init__(self, app: App, port: int, listen: Listen) -> None:
        self.app, self.inner, self.listen = app, port, listen
        self.allowed: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        address, port, tls = self.listen.address, self.listen.port, self.listen.tls
        server = await asyncio.start_server(self._welcome, address, port, ssl=tls, ssl_handshake_timeout=HEAD_SECONDS)
        async with server:
            await server.serve_forever()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                raw = await reader.readuntil(b"\r\n\r\n")
            head = read_head(raw)
            await self._admit(head, writer.get_extra_info("peercert"))
            if head.value("upgrade").lower().startswith("spdy/"):
                await self.app.converse(head.path, head.query, SpdyDoor(head, wire))
            else:
                await self._pass_on(head, wire)
        except ApiError as problem:
            await _answer(wire, problem)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
            log.debug("kubelet door: %s", problem)
        finally:
            await wire.close()

    async def _admit(self, head: Head, certificate: Mapping[str, object] | None) -> None:
        """Who calls, and whether he may: both answered by the cluster, as for a kubelet."""
        caller = callers.of_certificate(certificate) or await self._bearer(head.value("authorization"))
        if caller is None:
            if self.listen.anonymous:
                return
            raise Unauthorized("Unauthorized")
        review = callers.access_review(caller, self.listen.node, head.method)
        verb = review["spec"]["resourceAttributes"]["verb"]
        now = asyncio.get_running_loop().time()
        if self.allowed.get((caller.name, verb), 0) > now:
            return
        answer = await self.listen.review(callers.ACCESS_PATH, review)
        if not dig(answer, "status", "allowed"):
            words = f"Forbidden (user={caller.name}, verb={verb}, resource=nodes, subresource=proxy)"
            raise Forbidden(words)
        self.allowed[caller.name, verb] = now + callers.TRUST_SECONDS

    async def _bearer(self, shown: str) -> callers.Caller | None:
        scheme, _, token = shown.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        return callers.of_review(await self.listen.review(callers.TOKEN_PATH, callers.token_review(token)))

    async def _pass_on(self, head: Head, wire: Wire) -> None:
        """To the agent's own server; one request per connection."""
        kept = [(name, value) for name, value in head.headers if name.lower() not in ("authorization", "connection")]
        kept.append(("Authorization", f"Bearer {self.app.token}"))
        kept.append(("Connection", "Upgrade" if head.value("upgrade") else "close"))
        lines = [f"{head.method} {head.target} HTTP/1.1", *(f"{name}: {value}" for name, value in kept), "", ""]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.inner)
        inner = Wire(reader, writer)
        await inner.say("\r\n".join(lines).encode())
        there = asyncio.ensure_future(_copy(wire, inner))
        try:
            await _copy(inner, wire)
        finally:
            there.cancel()
            await inner.close()


async def _copy(source: Wire, target: Wire) -> None:
    while (data := await source.hear()) is not None:
        await target.say(data)
    # A caller who only stops speaking still wants to hear.


async def _answer(wire: Wire, problem: ApiError) -> None:
    body = json.dumps(problem.status()).encode()
    reason = REASONS.get(problem.code, "Error")
    head = f"HTTP/1.1 {problem.code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    await wire.say(head.encode() + b"Connection: close\r\n\r\n" + body)
