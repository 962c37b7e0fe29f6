"""Exec, attach and port-forward over one WebSocket: bytes between channels, pipes and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from allaboard.api.documents import Document
from allaboard.node import channels
from allaboard.node.journal import View
from allaboard.node.logs import Logs
from allaboard.node.processes import Attempt

CHUNK = 64 * 1024
Connect = Callable[[int], Awaitable[socket.socket]]


@dataclass(frozen=True, slots=True)
class Command:
    """What to run beside a container's workload."""

    argv: list[str]
    stdin: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one who attaches may do besides listening: type, and say how large his window is (rows, columns)."""

    stdin: bool
    resize: Callable[[Attempt, int, int], Awaitable[None]]


Execute = Callable[[Attempt, Command, list[int]], Awaitable[None]]


class Session(Protocol):
    """A conversation, whatever carries it: frames in, frames out."""

    async def hear(self) -> bytes | None:
        """The next frame, or None when the other side is gone."""
        ...

    async def say(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class WebSocket:
    """A conversation over one WebSocket."""

    def __init__(self, receive: Callable[[], Awaitable[Document]], send: Callable[[Document], Awaitable[None]]) -> None:
        self._receive, self._send = receive, send
        self.closed = False

    async def hear(self) -> bytes | None:
        """The next frame, or None when the other side is gone."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self.closed = True
                return None
            found: bytes = message.get("bytes") or (message.get("text") or "").encode()
            if found:
                return found

    async def say(self, data: bytes) -> None:
        if not self.closed:
            with contextlib.suppress(RuntimeError, OSError):
                await self._send({"type": "websocket.send", "bytes": data})

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            with contextlib.suppress(RuntimeError, OSError):
                await self._send({"type": "websocket.close", "code": 1000})


class Ends:
    """The descriptors of a command: those it gets, those we keep."""

    def __init__(self, command: Command) -> None:
        self.terminal = self.input = -1
        self.output: dict[int, int] = {}
        self.link: socket.socket | None = None  # through which a terminal comes back to us
        if command.tty:
            self.link, far = socket.socketpair()
            self.given = [far.detach()]
        else:
            reading, self.input = os.pipe()
            out, their_out = os.pipe()
            error, their_error = os.pipe()
            self.given = [reading, their_out, their_error]
            self.output = {channels.STDOUT: out, channels.STDERR: error}
        self.result, theirs = os.pipe()
        self.given.append(theirs)

    async def receive_terminal(self) -> None:
        """The outer end of a terminal the command opened where it runs; none if it never came that far."""
        if self.link is None:
            return
        with self.link:
            await readable(self.link.fileno())
            _, found, _, _ = socket.recv_fds(self.link, 1, 1)
        if found:
            self.terminal = self.input = found[0]
            os.set_blocking(self.terminal, False)
            self.output[channels.STDOUT] = self.terminal

    def hand_over(self) -> None:
        for descriptor in self.given:
            os.close(descriptor)
        self.given = []

    def close_input(self) -> None:
        if self.input >= 0 and self.input != self.terminal:
            os.close(self.input)
        self.input = -1

    def close(self) -> None:
        self.close_input()
        for descriptor in {*self.output.values(), self.result}:
            with contextlib.suppress(OSError):
                os.close(descriptor)


async def run_command(session: Session, attempt: Attempt, command: Command, execute: Execute) -> None:
    """Run a command in a container and let the other side talk with it; the last frame says how it ended."""
    ends = Ends(command)
    try:
        try:
            await execute(attempt, command, ends.given)
        except OSError as problem:
            await session.say(channels.last_words(channels.refusal(str(problem))))
            return
        finally:
            ends.hand_over()
        await ends.receive_terminal()
        if not command.stdin:
            ends.close_input()
        listening = asyncio.ensure_future(_feed(session, ends))
        outputs = [_pump(session, channel, descriptor) for channel, descriptor in ends.output.items()]
        await asyncio.gather(*outputs)
        result = await _all(ends.result)
        await _end(listening)
        found: Document = json.loads(result) if result else {"code": 137, "message": ""}
        await session.say(channels.last_words(channels.verdict(found["code"], found["message"])))
    finally:
        ends.close()
        await session.close()


async def readable(descriptor: int) -> None:
    """Wait until something can be read (or the other end is closed)."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _fulfil, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _fulfil(promise: asyncio.Future[None]) -> None:
    if not promise.done():
        promise.set_result(None)


async def _all(descriptor: int) -> bytes:
    data = b""
    while True:
        await readable(descriptor)
        piece = os.read(descriptor, CHUNK)
        if not piece:
            return data
        data += piece


async def _pump(session: Session, channel: int, descriptor: int) -> None:
    """Everything a descriptor says, as frames of a channel."""
    while True:
        await readable(descriptor)
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            continue
        except OSError:  # the last process of a terminal is gone
            return
        if not data:
            return
        await session.say(channels.frame(channel, data))


async def _feed(session: Session, ends: Ends) -> None:
    """Frames of the other side: input, its end, and the size of the window."""
    while (data := await session.hear()) is not None:
        channel, body = data[0], data[1:]
        if channel == channels.STDIN and ends.input >= 0:
            await _write(ends.input, body)
        elif channel == channels.CLOSE and body[:1] == b"\0":
            ends.close_input()
        elif channel == channels.RESIZE and ends.terminal >= 0:
            rows, columns = channels.window(body)
            fcntl.ioctl(ends.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    ends.close_input()


async def _write(descriptor: int, data: bytes) -> None:
    """All of it, without holding up the loop when a pipe is full."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_writer(descriptor, _fulfil, ready)
            try:
                await ready
            finally:
                loop.remove_writer(descriptor)
        except OSError:
            return


async def attach(session: Session, attempt: Attempt, logs: Logs, wishes: Wishes) -> None:
    """The workload's own output from now on, and its input where it reads one."""
    listening = asyncio.ensure_future(_feed_input(session, attempt, wishes))
    try:
        async for piece in logs.read(attempt.log, View(follow=True, tail=0)):
            await session.say(channels.frame(channels.STDOUT, piece))
        await session.say(channels.last_words(channels.verdict(attempt.code)))
    finally:
        await _end(listening)
        await session.close()


async def _end(task: asyncio.Future[None]) -> None:
    """Cancelled and over: a connection has one reader at a time."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _feed_input(session: Session, attempt: Attempt, wishes: Wishes) -> None:
    path = attempt.place / "stdin"
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK) if wishes.stdin and path.exists() else -1
    try:
        while (data := await session.hear()) is not None:
            if descriptor >= 0 and data[0] == channels.STDIN:
                await _write(descriptor, data[1:])
            elif data[0] == channels.RESIZE:
                await wishes.resize(attempt, *channels.window(data[1:]))
    finally:
        if descriptor >= 0:
            os.close(descriptor)


async def forward(session: Session, ports: list[int], connect: Connect) -> None:
    """Ports of a pod as pairs of channels: data and errors."""
    links: dict[int, socket.socket] = {}
    copying = []
    loop = asyncio.get_running_loop()
    for index, port in enumerate(ports):
        for greeting in channels.port_greeting(index, port):
            await session.say(greeting)
        try:
            links[2 * index] = await connect(port)
        except OSError as problem:
            await session.say(channels.frame(2 * index + 1, f"{port}: {problem}".encode()))
            continue
        copying.append(asyncio.ensure_future(_copy_out(session, 2 * index, links[2 * index])))
    try:
        while (data := await session.hear()) is not None:
            if data[0] in links:
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(links[data[0]], data[1:])
    finally:
        for task in copying:
            task.cancel()
        for link in links.values():
            link.close()


async def _copy_out(session: Session, channel: int, link: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(link, CHUNK):
            await session.say(channels.frame(channel, data))
    await session.close()
