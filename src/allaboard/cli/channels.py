"""Talking to a process inside a rank: the WebSocket, its channels, and what comes out of them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import click
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from allaboard.api.documents import Document, dig
from allaboard.api.errors import AboardError, NotFound
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.api.meta import key_of
from allaboard.cli.session import Session
from allaboard.kube.http import Transport
from allaboard.sdk.jobs import choose
from allaboard.sdk.reading import read_job

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PIECE = 64 * 1024
Sink = Callable[[bytes], None]


class NotRun(AboardError):
    """The command could not be started."""


async def pod_of_rank(open_session: Session, name: str, rank: str) -> Document:
    """The pod of one rank of a job; where there is none, the ranks there are."""
    job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
    chosen = choose(job.ranks, rank)
    if not chosen:
        has = ", ".join(each.word for each in job.ranks) or "no pods"
        raise NotFound(f'job "{name}" has no rank "{rank}"; it has: {has}')
    return chosen[0].pod


def path_to(pod: Document, what: str, query: Sequence[tuple[str, str]]) -> str:
    """The address of a pod's exec or attach, in its first container."""
    container = ("container", str(dig(pod, "spec", "containers", 0, "name")))
    return f"{POD.path_to(key_of(pod), what)}?{urlencode([*query, container])}"


@asynccontextmanager
async def opened(transport: Transport, path: str, protocol: str = PROTOCOL) -> AsyncIterator[ClientConnection]:
    """A socket to the server's own path; a refusal is one sentence."""
    address = transport.address
    scheme = "wss" if address.tls else "ws"
    opening = connect(
        f"{scheme}://{address.host}:{address.port}{address.prefix}{path}",
        ssl=address.tls,
        subprotocols=[protocol],  # type: ignore[list-item]
        additional_headers={"Authorization": f"Bearer {await transport.token()}"},
        max_size=None,
    )
    try:
        async with opening as socket:
            yield socket
    except InvalidStatus as refusal:
        raise NotRun(_refusal(refusal)) from refusal


def _refusal(refusal: InvalidStatus) -> str:
    text = (refusal.response.body or b"").decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text or str(refusal)


async def feed(socket: ClientConnection, source: int) -> None:
    """Pass a file descriptor on until it ends."""
    async for data in pieces(source):
        await socket.send(bytes([STDIN]) + data)
    await socket.send(bytes([CLOSE, STDIN]))


async def pieces(source: int) -> AsyncIterator[bytes]:
    """What a descriptor gives, as it comes. No thread waits for a terminal: it would outlive the command."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes] = asyncio.Queue()
    try:
        # Read where it is known that there is something to read; a moment later a read might block everything.
        loop.add_reader(source, lambda: ready.put_nowait(os.read(source, PIECE)))
    except (PermissionError, ValueError):  # a regular file is always ready
        while data := os.read(source, PIECE):
            yield data
        return
    try:
        while data := await ready.get():
            yield data
    finally:
        loop.remove_reader(source)


def to_stdout(data: bytes) -> None:
    click.echo(data, nl=False)


def to_stderr(data: bytes) -> None:
    click.echo(data, nl=False, err=True)


async def shown(socket: ClientConnection, out: Sink = to_stdout, err: Sink = to_stderr) -> int:
    """What the command prints goes where it should; its exit code comes on the last channel."""
    code = 0
    async for frame in socket:
        data = frame if isinstance(frame, bytes) else frame.encode()
        channel, rest = data[:1], data[1:]
        if channel == bytes([STDOUT]):
            out(rest)
        elif channel == bytes([STDERR]):
            err(rest)
        elif channel == bytes([ERROR]) and rest:
            code = exit_code_of(json.loads(rest))
    return code


def exit_code_of(status: Document) -> int:
    """The exit code a status carries."""
    if status.get("status") == "Success":
        return 0
    causes = dig(status, "details", "causes", default=[])
    codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
    if codes:
        return codes[0]
    raise NotRun(str(status.get("message", "the command was not run")))
