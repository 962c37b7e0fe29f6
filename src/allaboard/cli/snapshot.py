"""`aboard snapshot`: what the scheduler sees now, saved to be replayed."""

from __future__ import annotations

from pathlib import Path

import click

from allaboard.cli import load, screen, session
from allaboard.cli.session import Session


@click.command("snapshot", help="Save what a scheduling cycle would see now; `aboard replay` runs it again.")
@click.option("-o", "--output", default="cycle.json", show_default=True, help="Where to.")
@click.pass_context
def command(ctx: click.Context, output: str) -> None:
    async def work(open_session: Session) -> bytes:
        saved: bytes = await load("allaboard.main.offline").snapshot(open_session.client)
        return saved

    data = session.run(ctx, work)
    Path(output).write_bytes(data)
    screen.good(f"{output}: {len(data)} bytes; `aboard replay {output}` decides again")
