"""`aboard scale`: another number of nodes for a job."""

from __future__ import annotations

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.reading import read_job
from allaboard.sdk.scaling import scale


@click.command("scale", help="Give a JOB that waits, is suspended, or is elastic another number of nodes.")
@click.argument("name")
@click.option("--nodes", type=click.IntRange(1), required=True, help="How many pods train together.")
@click.pass_context
def command(ctx: click.Context, name: str, nodes: int) -> None:
    async def work(open_session: Session) -> str:
        job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
        return await scale(open_session.client, job, nodes)

    screen.good(session.run(ctx, work))
