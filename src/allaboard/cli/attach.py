"""`aboard attach`: what a rank's own process prints from now on, and a way to type to it."""

from __future__ import annotations

import click

from allaboard.cli import channels, session
from allaboard.cli.exec import talk
from allaboard.cli.session import Session


@click.command("attach", help="Listen to the process of a rank of JOB from now on; -i passes standard input to it.")
@click.argument("name")
@click.option("--rank", default="0", show_default=True, help="Which rank: a number, or launcher.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on (the container must have asked for one).")
@click.pass_context
def command(ctx: click.Context, name: str, rank: str, stdin: bool) -> None:
    async def work(open_session: Session) -> int:
        pod = await channels.pod_of_rank(open_session, name, rank)
        query = [("stdout", "true"), ("stderr", "true"), *([("stdin", "true")] if stdin else [])]
        async with channels.opened(open_session.client.transport, channels.path_to(pod, "attach", query)) as socket:
            return await talk(socket, stdin=stdin, terminal=False)

    ctx.exit(session.run(ctx, work))
