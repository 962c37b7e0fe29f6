"""`aboard port-forward`: a port of a rank, on this machine."""

from __future__ import annotations

import asyncio
import contextlib

import click
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.api.kinds import POD
from allaboard.api.meta import key_of, name_of
from allaboard.cli import channels, screen, session
from allaboard.cli.session import Session
from allaboard.kube.http import Transport

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
ANNOUNCED = 2  # bytes each channel starts with: the port it is for


class PortTaken(AboardError):
    """Somebody else listens here."""

    exit_code = 7


def ports_of(text: str) -> tuple[int, int]:
    """`8080:80` is local and remote; `8080` is both; `:80` picks a local one."""
    local, colon, remote = text.partition(":")
    try:
        here, there = int(local or 0), int(remote if colon else local)
    except ValueError:
        here = there = -1
    if not (0 <= here < 65536 and 0 < there < 65536):
        raise click.UsageError(f'ports: "{text}" must be LOCAL:REMOTE, such as 8080:80')
    return here, there


@click.command("port-forward", help="Reach a port of a rank of JOB on this machine: aboard port-forward JOB 8080:80")
@click.argument("name")
@click.argument("ports", nargs=-1, required=True)
@click.option("--rank", default="0", show_default=True, help="Which rank: a number, or launcher.")
@click.pass_context
def command(ctx: click.Context, name: str, ports: tuple[str, ...], rank: str) -> None:
    wanted = [ports_of(text) for text in ports]

    async def work(open_session: Session) -> None:
        pod = await channels.pod_of_rank(open_session, name, rank)
        servers = [await listen(open_session.client.transport, pod, here, there) for here, there in wanted]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    session.run(ctx, work)


async def listen(transport: Transport, pod: Document, here: int, there: int) -> asyncio.Server:
    """One local port; every connection to it is a socket of its own."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = f"{POD.path_to(key_of(pod), 'portforward')}?ports={there}"
        try:
            async with channels.opened(transport, path, PROTOCOL) as socket:
                await _carry(socket, reader, writer)
        except (AboardError, OSError) as error:
            screen.bad(str(error))
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(connected, "127.0.0.1", here)
    except OSError as error:
        raise PortTaken(f"127.0.0.1:{here}: {error.strerror}; choose another with LOCAL:{there}") from error
    screen.good(f"127.0.0.1:{server.sockets[0].getsockname()[1]} → {name_of(pod)}:{there}  (Ctrl-C ends it)")
    return server


async def _carry(socket: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes both ways until either side is through."""
    out, back = asyncio.create_task(_out(socket, reader)), asyncio.create_task(_back(socket, writer))
    try:
        await asyncio.wait((out, back), return_when=asyncio.FIRST_COMPLETED)
        if out.done() and not out.exception():  # what was asked may still be answered
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await back
    finally:
        for task in (out, back):
            task.cancel()
        await asyncio.gather(out, back, return_exceptions=True)


async def _out(socket: ClientConnection, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(channels.PIECE):
        await socket.send(bytes([DATA]) + data)


async def _back(socket: ClientConnection, writer: asyncio.StreamWriter) -> None:
    greeted: set[int] = set()
    with contextlib.suppress(ConnectionClosed):
        async for frame in socket:
            data = frame if isinstance(frame, bytes) else frame.encode()
            channel, rest = data[0], data[1:]
            if channel not in greeted:
                greeted.add(channel)
                rest = rest[ANNOUNCED:]
            if channel == ERROR and rest:
                raise channels.NotRun(rest.decode(errors="replace"))
            writer.write(rest)
            await writer.drain()
