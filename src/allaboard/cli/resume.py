"""`aboard resume`: let a suspended job go on."""

from __future__ import annotations

import click

from allaboard.cli.suspend import CAN_SUSPEND, switch


@click.command("resume", help="Let a suspended job go on.")
@click.argument("names", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(list(CAN_SUSPEND)), default="trainjob", show_default=True)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], kind: str) -> None:
    switch(ctx, names, kind, suspend=False)
