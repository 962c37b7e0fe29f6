"""`aboard retry`: a job that is over, once more."""

from __future__ import annotations

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.reading import read_job
from allaboard.sdk.scaling import retry


@click.command("retry", help="Start a JOB that failed or is complete again, under its name.")
@click.argument("name")
@click.pass_context
def command(ctx: click.Context, name: str) -> None:
    async def work(open_session: Session) -> str:
        return await retry(open_session.client, await read_job(open_session.client, open_session.key(TRAIN_JOB, name)))

    screen.good(session.run(ctx, work))
