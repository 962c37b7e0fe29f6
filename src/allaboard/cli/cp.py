"""`aboard cp`: files and folders into a rank of a job, and out of one, through tar inside the rank."""

from __future__ import annotations

import asyncio
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import click
from websockets.asyncio.client import ClientConnection

from allaboard.api.documents import Document
from allaboard.cli import channels, screen, session
from allaboard.cli.manifests import BadFile
from allaboard.cli.session import Session
from allaboard.kube.http import Transport


@dataclass(frozen=True, slots=True)
class Side:
    """One end of a copy: a path here (`job` empty) or inside a job."""

    job: str
    path: str


def side(text: str) -> Side:
    """`JOB:PATH` is inside a job; anything with a slash before the colon, or without one, is here."""
    job, colon, path = text.partition(":")
    return Side(job, path) if colon and job and "/" not in job and path else Side("", text)


@click.command("cp", help="Copy: aboard cp JOB:/path/out LOCAL, or aboard cp LOCAL JOB:/path; --rank says which rank.")
@click.argument("source")
@click.argument("target")
@click.option("--rank", default="0", show_default=True, help="Which rank: a number, or launcher.")
@click.pass_context
def command(ctx: click.Context, source: str, target: str, rank: str) -> None:
    start, end = side(source), side(target)
    if bool(start.job) == bool(end.job):
        raise click.UsageError("one of the two must be inside a job: JOB:PATH", ctx)

    async def work(open_session: Session) -> int:
        pod = await channels.pod_of_rank(open_session, start.job or end.job, rank)
        transport = open_session.client.transport
        if start.job:
            return await _fetch(transport, pod, PurePosixPath(start.path), Path(end.path))
        return await _send(transport, pod, Path(start.path), PurePosixPath(end.path))

    code = session.run(ctx, work)
    if code == 0:
        screen.good(f"{source} → {target}")
    ctx.exit(code)


async def _fetch(transport: Transport, pod: Document, source: PurePosixPath, target: Path) -> int:
    archive = io.BytesIO()
    words = ("tar", "cf", "-", "-C", str(source.parent), source.name)
    async with channels.opened(transport, _path(pod, words)) as socket:
        code = await channels.shown(socket, out=lambda data: _keep(archive, data))
    if code == 0:
        archive.seek(0)
        unpack(archive, source.name, target)
    return code


def _keep(archive: io.BytesIO, data: bytes) -> None:
    archive.write(data)


def unpack(archive: io.BytesIO, name: str, target: Path) -> None:
    """Into a folder that exists under its own name, else as the target; nothing lands outside (filter `data`)."""
    folder, called = (target, name) if target.is_dir() else (target.parent, target.name)
    with tarfile.open(fileobj=archive) as tar:
        for member in tar.getmembers():
            member.name = called + member.name.removeprefix(name)
            if hasattr(tarfile, "data_filter"):
                tar.extract(member, folder, filter="data")
            elif _stays_inside(member):  # Python before 3.11.4
                tar.extract(member, folder)


def _stays_inside(member: tarfile.TarInfo) -> bool:
    """Files and folders below the target; links and devices are left out where nobody can judge them for us."""
    path = PurePosixPath(member.name)
    return (member.isfile() or member.isdir()) and not path.is_absolute() and ".." not in path.parts


async def _send(transport: Transport, pod: Document, source: Path, target: PurePosixPath) -> int:
    archive = pack(source, target.name)
    words = ("tar", "xf", "-", "-C", str(target.parent))
    async with channels.opened(transport, _path(pod, words, stdin=True)) as socket:
        sending = asyncio.create_task(_push(socket, archive))
        code = await channels.shown(socket)
        await asyncio.gather(sending, return_exceptions=True)
    return code


def pack(source: Path, name: str) -> bytes:
    """The file or folder as an archive, under the name it will have."""
    if not source.exists():
        raise BadFile(f"{source}: no such file or folder")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(source, arcname=name or source.name)
    return packed.getvalue()


async def _push(socket: ClientConnection, archive: bytes) -> None:
    for start in range(0, len(archive), channels.PIECE):
        await socket.send(bytes([channels.STDIN]) + archive[start : start + channels.PIECE])
    await socket.send(bytes([channels.CLOSE, channels.STDIN]))


def _path(pod: Document, words: tuple[str, ...], *, stdin: bool = False) -> str:
    query = [*(("command", word) for word in words), ("stdout", "true"), ("stderr", "true")]
    return channels.path_to(pod, "exec", query + ([("stdin", "true")] if stdin else []))
