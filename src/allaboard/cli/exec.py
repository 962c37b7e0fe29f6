"""`aboard exec`: run a command inside a rank of a job."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import click
from websockets.asyncio.client import ClientConnection

from allaboard.cli import channels, session
from allaboard.cli.session import Session


@click.command("exec", help="Run COMMAND inside a rank of JOB: aboard exec JOB --rank 1 -- hostname")
@click.argument("name")
@click.argument("words", nargs=-1, required=True)
@click.option("--rank", default="0", show_default=True, help="Which rank: a number, or launcher.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give it a terminal, as `-it -- bash` wants.")
@click.pass_context
def command(ctx: click.Context, name: str, words: tuple[str, ...], rank: str, stdin: bool, terminal: bool) -> None:
    async def work(open_session: Session) -> int:
        pod = await channels.pod_of_rank(open_session, name, rank)
        query = [*(("command", word) for word in words), ("stdout", "true")]
        query += [("tty", "true")] if terminal else [("stderr", "true")]  # a terminal has one output
        query += [("stdin", "true")] if stdin else []
        async with channels.opened(open_session.client.transport, channels.path_to(pod, "exec", query)) as socket:
            with raw_terminal() if terminal and stdin and sys.stdin.isatty() else nullcontext():
                return await talk(socket, stdin=stdin, terminal=terminal)

    ctx.exit(session.run(ctx, work))


async def talk(socket: ClientConnection, *, stdin: bool, terminal: bool) -> int:
    """Feed it while showing what it says, until it ends."""
    if terminal and sys.stdout.isatty():
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        size = json.dumps({"Width": columns, "Height": lines}).encode()
        await socket.send(bytes([channels.RESIZE]) + size)
    feeding = asyncio.create_task(channels.feed(socket, sys.stdin.fileno())) if stdin else None
    try:
        return await channels.shown(socket)
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the other side; the terminal is put back as it was."""
    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setraw(sys.stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
