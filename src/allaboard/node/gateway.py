"""What stands at the pods' gateway address: names, the way to the API, and a way out for package installers.

The sockets are made inside the cluster's network by the zygote; the agent serves them from its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from allaboard.node import dns
from allaboard.node.processes import Processes

log = logging.getLogger(__name__)

API_PORT, NAME_PORT, PROXY_PORT = 443, 53, 3128
CHUNK = 64 * 1024


class Gateway:
    """One machine's gateway; `resolve` turns a question into addresses (None: no such name)."""

    def __init__(self, processes: Processes, api: tuple[str, int], resolve: Callable[[str], list[str] | None]) -> None:
        self.processes, self.api, self.resolve = processes, api, resolve
        self._open: list[asyncio.AbstractServer] = []
        self._names: asyncio.DatagramTransport | None = None

    async def open(self) -> None:
        """Take the three doors; one that is taken (by nobody we know) is left out with a word."""
        address = self.processes.gateway
        loop = asyncio.get_running_loop()
        names = await self._socket({"address": address, "port": NAME_PORT, "udp": True})
        if names is not None:
            self._names, _ = await loop.create_datagram_endpoint(lambda: _Names(self.resolve), sock=names)
        for port, serve in ((API_PORT, self._to_api), (PROXY_PORT, self._outward)):
            door = await self._socket({"address": address, "port": port})
            if door is not None:
                self._open.append(await asyncio.start_server(serve, sock=door))

    async def _socket(self, request: dict[str, object]) -> socket.socket | None:
        try:
            _, given = await self.processes.ask({"do": "socket", **request})
        except OSError as problem:
            log.warning("gateway port %s: %s", request["port"], problem)
            return None
        made = socket.socket(fileno=given[0])
        made.settimeout(0)
        return made

    def close(self) -> None:
        if self._names is not None:
            self._names.close()
        for server in self._open:
            server.close()

    async def _to_api(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes as they come: the certificate the pod sees is the API server's own."""
        await _join(reader, writer, *self.api)

    async def _outward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """An HTTP proxy that knows CONNECT alone: enough for installers, which speak TLS."""
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.decode("latin-1").split()
            host, _, port = target.rpartition(":")
            address = await _outside(host.strip("[]")) if method == "CONNECT" and port.isdigit() else ""
            if address:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _join(reader, writer, address, int(port))
            else:
                writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        writer.close()


async def _outside(host: str) -> str:
    """The address behind a name, unless it is this machine's own loopback: what listens there trusts its callers."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    own = [text for text in addresses if ip_address(text).is_loopback or ip_address(text).is_unspecified]
    return "" if own or not addresses else addresses[0]


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    """Copy both ways until both have ended."""
    try:
        far_reader, far_writer = await asyncio.open_connection(host, port)
    except OSError:
        writer.close()
        return
    await copy_both((reader, writer), (far_reader, far_writer))


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def copy_both(near: Ends, far: Ends) -> None:
    """Everything each side says, to the other, until both have ended."""
    try:
        await asyncio.gather(_copy(near[0], far[1]), _copy(far[0], near[1]))
    finally:
        near[1].close()
        far[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():  # the other direction may still have something to say
            writer.write_eof()


class _Names(asyncio.DatagramProtocol):
    """Answers questions about names at once, also with "no such name": a resolver that waits costs seconds."""

    def __init__(self, resolve: Callable[[str], list[str] | None]) -> None:
        self.resolve = resolve
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        answer = dns.answer(data, self.resolve)
        if answer and self.transport is not None:
            self.transport.sendto(answer, address)
