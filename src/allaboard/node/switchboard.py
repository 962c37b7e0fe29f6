"""Addresses of services, where pods have a network of their own: each call is put through to one of the pods behind.

A listener per port, inside the pods' network; connections are copied by the agent. That is slower than the kernel's
own tables but needs none of them, and training traffic goes from pod to pod anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
from collections.abc import Callable

from allaboard.api.documents import Document, Key
from allaboard.api.meta import key_of
from allaboard.node import gateway, routes
from allaboard.node.porter import connected
from allaboard.node.processes import Processes
from allaboard.node.routes import Door

log = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds for a pod to take a call
Backends = Callable[[Document, Door], list[tuple[str, int]]]


class Switchboard:
    """Every door of every service; `backends` says who is behind one just now."""

    def __init__(self, processes: Processes, backends: Backends) -> None:
        self.processes, self.backends = processes, backends
        self.services: dict[Key, Document] = {}
        self.open: dict[Door, asyncio.AbstractServer] = {}
        self.changed = asyncio.Event()
        self.turn = itertools.count()

    def notice(self, old: Document | None, new: Document | None) -> None:
        """A service came, changed or went."""
        if new is not None:
            self.services[key_of(new)] = new
        elif old is not None:
            self.services.pop(key_of(old), None)
        self.changed.set()

    async def run(self) -> None:
        """Keep the doors that should be open, open."""
        try:
            while True:
                await self.changed.wait()
                self.changed.clear()
                await self._settle()
        finally:
            for server in self.open.values():
                server.close()

    async def _settle(self) -> None:
        wanted = {door: key for key, service in self.services.items() for door in routes.doors(service)}
        for door in set(self.open) - set(wanted):
            self.open.pop(door).close()
        for door, key in wanted.items():
            if door not in self.open:
                with contextlib.suppress(OSError):
                    self.open[door] = await self._listen(door, key)

    async def _listen(self, door: Door, key: Key) -> asyncio.AbstractServer:
        request = {"do": "socket", "address": door.address, "port": door.port, "alias": True}
        _, given = await self.processes.ask(request)
        link = socket.socket(fileno=given[0])
        link.settimeout(0)
        return await asyncio.start_server(lambda reader, writer: self._call(key, door, reader, writer), sock=link)

    async def _call(self, key: Key, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service = self.services.get(key)
        behind = self.backends(service, door) if service is not None else []
        first = next(self.turn)
        for number in range(len(behind)):
            address, port = behind[(first + number) % len(behind)]
            with contextlib.suppress(OSError, TimeoutError):
                far_reader, far_writer = await self._reach(address, port)
                await gateway.copy_both((reader, writer), (far_reader, far_writer))
                return
        writer.close()

    async def _reach(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        _, given = await self.processes.ask({"do": "socket"})
        async with asyncio.timeout(PATIENCE):
            link = await connected(socket.socket(fileno=given[0]), address, port)
        return await asyncio.open_connection(sock=link)
