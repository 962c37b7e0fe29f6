"""`aboard exec`: run a command inside a rank of a job."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from urllib.parse import urlencode

import click
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from allaboard.api.documents import dig
from allaboard.api.errors import AboardError, NotFound
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.api.meta import key_of
from allaboard.cli import session
from allaboard.cli.logs import choose
from allaboard.cli.session import Session
from allaboard.kube.http import Transport
from allaboard.sdk.reading import read_job

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
PIECE = 64 * 1024


class NotRun(AboardError):
    """The command could not be started."""


@click.command("exec", help="Run COMMAND inside a rank of JOB: aboard exec JOB --rank 1 -- hostname")
@click.argument("name")
@click.argument("words", nargs=-1, required=True)
@click.option("--rank", default="0", show_default=True, help="Which rank: a number, or launcher.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.pass_context
def command(ctx: click.Context, name: str, words: tuple[str, ...], rank: str, stdin: bool) -> None:
    async def work(open_session: Session) -> int:
        job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
        chosen = choose(job.ranks, rank)
        if not chosen:
            has = ", ".join(each.word for each in job.ranks) or "no pods"
            raise NotFound(f'job "{name}" has no rank "{rank}"; it has: {has}')
        query = [("command", word) for word in words] + [("stdout", "true"), ("stderr", "true")]
        query += [("container", str(dig(chosen[0].pod, "spec", "containers", 0, "name")))]
        query += [("stdin", "true")] if stdin else []
        path = f"{POD.path(*key_of(chosen[0].pod), 'exec')}?{urlencode(query)}"
        return await _run(open_session.client.transport, path, stdin=stdin)

    ctx.exit(session.run(ctx, work))


async def _run(transport: Transport, path: str, *, stdin: bool) -> int:
    address = transport.address
    scheme = "wss" if address.tls else "ws"
    opening = connect(
        f"{scheme}://{address.host}:{address.port}{address.prefix}{path}",
        ssl=address.tls,
        subprotocols=[PROTOCOL],  # type: ignore[list-item]
        additional_headers={"Authorization": f"Bearer {await transport.token()}"},
        max_size=None,
    )
    try:
        async with opening as socket:
            feeding = asyncio.create_task(_feed(socket)) if stdin else None
            code = await _show(socket)
            if feeding is not None:
                feeding.cancel()
            return code
    except InvalidStatus as refusal:
        words = (refusal.response.body or b"").decode(errors="replace")
        raise NotRun(f"the command was not run: {words or refusal}") from refusal


async def _feed(socket: ClientConnection) -> None:
    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), PIECE):
        await socket.send(bytes([STDIN]) + data)
    await socket.send(bytes([CLOSE, STDIN]))


async def _show(socket: ClientConnection) -> int:
    """What the command prints, and its exit code from the last channel."""
    code = 0
    async for frame in socket:
        data = frame if isinstance(frame, bytes) else frame.encode()
        if data[:1] == bytes([STDOUT]):
            click.echo(data[1:], nl=False)
        elif data[:1] == bytes([STDERR]):
            click.echo(data[1:], nl=False, err=True)
        elif data[:1] == bytes([ERROR]) and len(data) > 1:
            code = exit_code_of(json.loads(data[1:]))
    return code


def exit_code_of(status: dict[str, object]) -> int:
    """The exit code a v5 status carries."""
    if status.get("status") == "Success":
        return 0
    causes = dig(status, "details", "causes", default=[])
    codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
    if codes:
        return codes[0]
    raise NotRun(str(status.get("message", "the command was not run")))
