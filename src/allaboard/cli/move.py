"""`aboard move`: a job into another queue."""

from __future__ import annotations

import click

from allaboard.api import labels
from allaboard.api.documents import Key
from allaboard.api.errors import NotFound
from allaboard.api.kinds import QUEUE, TRAIN_JOB
from allaboard.api.meta import name_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.kube.client import PatchType
from allaboard.sdk.reading import read_job


@click.command("move", help="Put a JOB into another queue; one that runs goes on and counts there.")
@click.argument("name")
@click.option("--queue", required=True, help="Which queue.")
@click.pass_context
def command(ctx: click.Context, name: str, queue: str) -> None:
    async def work(open_session: Session) -> str:
        client, key = open_session.client, open_session.key(TRAIN_JOB, name)
        before = (await read_job(client, key)).queue
        if await client.get(QUEUE, Key("", queue)) is None:
            there = ", ".join(name_of(other) for other in await client.list(QUEUE))
            raise NotFound(f'queue "{queue}" not found; there are: {there}')
        body = {"metadata": {"labels": {labels.QUEUE: queue}}}
        await client.patch(TRAIN_JOB, key, body, type=PatchType.MERGE, manager="aboard")
        return before

    screen.good(f"{name} moved from {session.run(ctx, work)} to {queue}")
