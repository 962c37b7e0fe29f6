"""`aboard status`: what runs here."""

from __future__ import annotations

import click

from allaboard.api.kinds import NODE
from allaboard.api.meta import is_true
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.home import Home
from allaboard.sdk.reading import read_jobs


@click.command("status", help="Whether a plane runs, where, and what it is doing.")
@click.pass_context
def command(ctx: click.Context) -> None:
    home = Home.default()
    running = home.running()
    if running is None and not ctx.find_root().obj["kubeconfig"]:
        screen.say(f"no plane runs here ({home.path}); `aboard up` starts one")
        ctx.exit(4)

    async def work(open_session: Session) -> tuple[int, int, dict[str, int]]:
        nodes = await open_session.client.list(NODE)
        phases: dict[str, int] = {}
        for job in await read_jobs(open_session.client, ""):
            phases[job.phase] = phases.get(job.phase, 0) + 1
        return len(nodes), sum(is_true(node, "Ready") for node in nodes), phases

    nodes, ready, phases = session.run(ctx, work)
    if running is not None:
        click.echo(f"plane   {running.server}  process {running.pid}  since {running.started}")
        click.echo(f"home    {home.path}")
    click.echo(f"nodes   {ready} of {nodes} ready")
    click.echo(f"jobs    {', '.join(f'{count} {phase}' for phase, count in sorted(phases.items())) or 'none'}")
