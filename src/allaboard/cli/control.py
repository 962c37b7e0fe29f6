"""`aboard control`: our controllers on a real cluster."""

from __future__ import annotations

import click

from allaboard.cli import load


@click.command("control", help="Run our controllers and scheduler against a real cluster, in the foreground.")
@click.option("--controllers", default=None, help="Which run, by name (default: what a cluster with JobSet lacks).")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One of several copies works.")
@click.pass_context
def command(ctx: click.Context, controllers: str | None, leader_elect: bool) -> None:
    chosen = ctx.find_root().obj
    run = load("allaboard.main.citizen").run_controllers
    run(chosen["kubeconfig"], chosen["context"], controllers, elect=leader_elect)
