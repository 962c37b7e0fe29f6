"""`aboard suspend`: take a job off its nodes."""

from __future__ import annotations

import click

from allaboard.api.kinds import JOB, JOB_SET, TRAIN_JOB
from allaboard.cli import session
from allaboard.cli.session import Session
from allaboard.kube.client import PatchType

CAN_SUSPEND = {"trainjob": TRAIN_JOB, "jobset": JOB_SET, "job": JOB}


@click.command("suspend", help="Take a job off its nodes; `aboard resume` lets it go on.")
@click.argument("names", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(list(CAN_SUSPEND)), default="trainjob", show_default=True)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], kind: str) -> None:
    switch(ctx, names, kind, suspend=True)


def switch(ctx: click.Context, names: tuple[str, ...], kind: str, *, suspend: bool) -> None:
    """Set or clear `spec.suspend` of jobs of a kind."""
    target, told = CAN_SUSPEND[kind], "suspended" if suspend else "resumed"

    async def work(open_session: Session) -> None:
        for name in names:
            body = {"spec": {"suspend": suspend}}
            key = open_session.key(target, name)
            await open_session.client.patch(target, key, body, type=PatchType.MERGE, manager="aboard")
            click.echo(f"{target.resource}/{name} {told}")

    session.run(ctx, work)
