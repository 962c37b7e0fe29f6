"""`aboard logs`: what the ranks of a job print, merged, each line with its rank."""

from __future__ import annotations

import asyncio

import click

from allaboard.api.documents import Key
from allaboard.api.errors import NotFound
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.cli import session
from allaboard.cli.following import follow as follow_on_screen
from allaboard.cli.session import Session
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.follow import log_lines
from allaboard.sdk.jobs import Rank, choose
from allaboard.sdk.reading import read_job


@click.command("logs", help="What a JOB (or pod/NAME) prints; every line says its rank.")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("--rank", "which", default="all", show_default=True, help="0,3 · all · last")
@click.option("--tail", type=int, help="Only the last lines of each rank.")
@click.option("--timestamps", is_flag=True, help="When each line was printed.")
@click.option("--previous", is_flag=True, help="Of the container before the last restart.")
@click.pass_context
def command(ctx: click.Context, /, name: str, which: str, **asked: object) -> None:
    follow = bool(asked["follow"])
    words = {"tail": "tailLines", "timestamps": "timestamps", "previous": "previous"}  # ours, and the API's
    options = {
        words[word]: str(value).lower() for word, value in asked.items() if word in words and value not in (None, False)
    }

    async def work(open_session: Session) -> None:
        if name.startswith(("pod/", "pods/")):
            await _one_pod(open_session, name.partition("/")[2], options, follow=follow)
        elif follow and which == "all" and not options:
            await follow_on_screen(open_session.client, open_session.key(TRAIN_JOB, name))
        else:
            await _ranks(open_session, name, which, options, follow=follow)

    session.run(ctx, work)


async def _one_pod(open_session: Session, name: str, options: dict[str, str], *, follow: bool) -> None:
    pod = await open_session.client.get(POD, Key(open_session.namespace, name))
    if pod is None:
        raise NotFound(f'pod "{name}" not found; `aboard get pods` lists what there is')
    async for line in log_lines(open_session.client, pod, follow=follow, options=options):
        click.echo(line)


async def _ranks(open_session: Session, name: str, which: str, options: dict[str, str], *, follow: bool) -> None:
    job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
    chosen = choose(job.ranks, which)
    if not chosen:
        raise NotFound(
            f'job "{name}" has no rank "{which}"; it has: {", ".join(r.word for r in job.ranks) or "no pods"}'
        )
    width = max(len(rank.word) for rank in chosen)
    reading = [_print(open_session.client, rank, width, options, follow=follow) for rank in chosen]
    if follow:
        await asyncio.gather(*reading)
        return
    for one in reading:
        await one


async def _print(client: RemoteClient, rank: Rank, width: int, options: dict[str, str], *, follow: bool) -> None:
    async for line in log_lines(client, rank.pod, follow=follow, options=options):
        click.echo(f"{rank.word:<{width}} │ {line}")
