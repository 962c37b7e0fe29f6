"""kubectl's port-forward: SPDY frames inside a WebSocket, a data and an error stream for every connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from allaboard.node import spdy
from allaboard.node.streams import CHUNK, Connect, Session


class Tunnel:
    """The streams of one tunnel; each data stream is a connection to a port of the pod."""

    def __init__(self, session: Session, connect: Connect) -> None:
        self.session, self.connect = session, connect
        self.reader, self.writer = spdy.Reader(), spdy.Writer()
        self.errors: dict[str, int] = {}  # request → error stream
        self.links: dict[int, socket.socket] = {}
        self.waiting: dict[int, list[spdy.Frame]] = {}  # data that came before its connection stood
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            while (data := await self.session.hear()) is not None:
                for frame in self.reader.take(data):
                    await self._take(frame)
        finally:
            for task in self.tasks:
                task.cancel()
            for link in self.links.values():
                link.close()

    async def _take(self, frame: spdy.Frame) -> None:
        match frame.type:
            case spdy.SYN_STREAM:
                await self.session.say(self.writer.reply(frame.stream))
                self._open(frame)
            case spdy.PING:
                await self.session.say(self.writer.ping(frame.stream))
            case spdy.RST_STREAM:
                self._close(frame.stream)
            case 0:
                await self._deliver(frame)

    def _open(self, frame: spdy.Frame) -> None:
        request = frame.headers.get("requestid", "")
        if frame.headers.get("streamtype") == "error":
            self.errors[request] = frame.stream
            return
        self.waiting[frame.stream] = []
        task = asyncio.ensure_future(self._connection(frame.stream, request, int(frame.headers.get("port", "0"))))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connection(self, stream: int, request: str, port: int) -> None:
        """One forwarded connection from its opening to its end."""
        error = self.errors.pop(request, 0)
        try:
            link = self.links[stream] = await self.connect(port)
        except OSError as problem:
            words = f"error forwarding port {port} to pod: {problem}".encode()
            await self.session.say(self.writer.data(error, words, fin=True))
            await self.session.say(self.writer.data(stream, b"", fin=True))
            return
        for early in self.waiting.pop(stream, []):
            await self._deliver(early)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(link, CHUNK):
                await self.session.say(self.writer.data(stream, data))
        await self.session.say(self.writer.data(stream, b"", fin=True))
        if error:
            await self.session.say(self.writer.data(error, b"", fin=True))

    async def _deliver(self, frame: spdy.Frame) -> None:
        if frame.stream in self.waiting:
            self.waiting[frame.stream].append(frame)
            return
        link = self.links.get(frame.stream)
        if link is None:
            return
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(link, frame.data)
            if frame.fin:
                link.shutdown(socket.SHUT_WR)

    def _close(self, stream: int) -> None:
        link = self.links.pop(stream, None)
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)


async def serve_tunnel(session: Session, connect: Connect) -> None:
    await Tunnel(session, connect).serve()
