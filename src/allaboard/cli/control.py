"""`aboard control`: our controllers on a real cluster."""

from __future__ import annotations

import click

from allaboard.cli import load


@click.command("control", help="Run our controllers and scheduler against a real cluster, in the foreground.")
@click.option("--controllers", default=None, help="Which run, by name (default: what a cluster with JobSet lacks).")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One of several copies works.")
@click.option("--health-port", type=int, default=None, help="Serve /healthz, /readyz and /metrics on loopback.")
@click.pass_context
def command(ctx: click.Context, controllers: str | None, leader_elect: bool, health_port: int | None) -> None:
    chosen, citizen = ctx.find_root().obj, load("allaboard.main.citizen")
    citizen.run_controllers(
        citizen.Post(chosen["kubeconfig"], chosen["context"], controllers, leader_elect, health_port)
    )
