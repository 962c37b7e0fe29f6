"""HTTP/1.1 on asyncio streams: a keep-alive pool, TLS, tokens, and answers that stream."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import httptools

from allaboard.api.errors import Unavailable

READ_SIZE = 256 * 1024
ANSWER_TIMEOUT = 60.0
CONNECT_TIMEOUT = 30.0
IDLE_CONNECTIONS = 32

Token = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to speak to it."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    socket: str = ""  # a unix socket's path, instead of host and port
    prefix: str = ""  # put before every path, for servers behind a proxy

    def __str__(self) -> str:
        return self.socket or f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.prefix}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def wire(self, address: Address, token: str) -> bytes:
        target = address.prefix + self.path + (f"?{urlencode(self.query)}" if self.query else "")
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {address.host}:{address.port}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


@dataclass(slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Parser:
    """What httptools tells as it reads."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.headed = self.ended = self.keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        text = name.decode("latin-1").lower()
        # Several Warning headers are several warnings.
        self.headers[text] = f"{self.headers[text]}\n{value.decode()}" if text in self.headers else value.decode()

    def on_headers_complete(self) -> None:
        self.headed = True
        self.keeps_alive = self.parser.should_keep_alive()  # the parser forgets it once the answer is over

    def on_body(self, body: bytes) -> None:
        self.chunks.append(body)

    def on_message_complete(self) -> None:
        self.ended = True

    def taken(self) -> bytes:
        """The body bytes read since the last time."""
        body = b"".join(self.chunks)
        self.chunks.clear()
        return body


class _Connection:
    """One stream to the server; reusable while nothing went wrong."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.parser = _Parser()

    @property
    def usable(self) -> bool:
        return not self.writer.is_closing() and not self.reader.at_eof()

    def close(self) -> None:
        self.writer.close()

    def send(self, request: bytes) -> None:
        self.parser = _Parser()
        self.writer.write(request)

    async def headed(self) -> None:
        while not self.parser.headed:
            await self._more()

    async def ended(self) -> None:
        while not self.parser.ended:
            await self._more()

    async def _more(self) -> None:
        data = await self.reader.read(READ_SIZE)
        if not data:
            raise ConnectionResetError("the server closed the connection in the middle of an answer")
        self.parser.parser.feed_data(data)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; the first piece may be what arrived with the head."""
        while True:
            if self.parser.chunks:
                yield self.parser.taken()
            if self.parser.ended:
                return
            await self._more()


async def _no_token() -> str:
    return ""


class Transport:
    """A pool of connections to one server."""

    def __init__(self, address: Address, token: Token = _no_token) -> None:
        self.address, self.token = address, token
        self._idle: list[_Connection] = []

    async def call(self, call: Call, timeout: float = ANSWER_TIMEOUT) -> Answer:
        """Send a request and wait for the whole answer."""
        request = call.wire(self.address, await self.token())
        async with asyncio.timeout(timeout):
            connection = await self._sent(request)
            try:
                await connection.ended()
            except BaseException:
                connection.close()
                raise
        parser = connection.parser
        answer = Answer(parser.parser.get_status_code(), parser.headers, parser.taken())
        self._give_back(connection)
        return answer

    async def stream(self, call: Call) -> tuple[Answer, AsyncIterator[bytes]]:
        """Send a request; the head now (with the body when it is an error), the body piece by piece."""
        connection = await self._connect()
        connection.send(call.wire(self.address, await self.token()))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await connection.headed()
                answer = Answer(connection.parser.parser.get_status_code(), connection.parser.headers, b"")
                if answer.status >= 400:
                    await connection.ended()
                    answer.body = connection.parser.taken()
        except BaseException:
            connection.close()
            raise
        return answer, self._body(connection)

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _body(self, connection: _Connection) -> AsyncIterator[bytes]:
        try:
            async for piece in connection.pieces():
                yield piece
        finally:
            connection.close()

    async def _sent(self, request: bytes) -> _Connection:
        """A connection on which the answer to this request has begun; a stale idle one is replaced once."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.usable:
                connection.close()
                continue
            try:
                connection.send(request)
                await connection.headed()
                return connection
            except ConnectionError:  # closed by the server while it lay idle: nothing was processed
                connection.close()
            except BaseException:
                connection.close()
                raise
        connection = await self._connect()
        try:
            connection.send(request)
            await connection.headed()
        except BaseException:
            connection.close()
            raise
        return connection

    async def _connect(self) -> _Connection:
        address = self.address
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if address.socket:
                    return _Connection(*await asyncio.open_unix_connection(address.socket, limit=READ_SIZE))
                name = (address.server_name or address.host) if address.tls else None
                streams = await asyncio.open_connection(
                    address.host, address.port, ssl=address.tls, server_hostname=name, limit=READ_SIZE
                )
                return _Connection(*streams)
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(f"{address}: its certificate is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise Unavailable(f"{address}: nobody answers there; `aboard up` starts a plane on this machine") from error

    def _give_back(self, connection: _Connection) -> None:
        keep = connection.parser.keeps_alive and connection.usable
        if keep and len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
