"""`aboard control`: our controllers on a real cluster."""

from __future__ import annotations

import click

from allaboard.cli import load


@click.command("control", help="Run our controllers and scheduler against a real cluster, in the foreground.")
@click.option("--controllers", default=None, help="Which run, by name (default: what a cluster with JobSet lacks).")
@click.option("--admission", default=None, help="Which hooks are served (default: those of what runs here).")
@click.option("--config", default="", help="A configuration file of Kubeflow Trainer; the options here go before it.")
@click.option("--plugins", default="", help="Training plugins that are installed beside ours, by name, in order.")
@click.option("--leader-elect/--no-leader-elect", default=None, help="One of several copies works (the default).")
@click.option("--health-port", type=int, default=None, help="Serve /healthz, /readyz and /metrics on loopback.")
@click.option("--webhook-port", type=int, default=None, help="Serve admission here, and tell the cluster to ask it.")
@click.option("--webhook-host", default="127.0.0.1", show_default=True, help="Where admission listens.")
@click.option("--webhook-url", default="", help="Where the API server reaches it (default: loopback).")
@click.option("--webhook-service", default="", help="Or behind which Service: NAMESPACE/NAME[:PORT].")
@click.option("--install", is_flag=True, help="Give the cluster our kinds, queues, priorities and runtimes first.")
@click.option("--verbose", is_flag=True, help="Say what is done to which object.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    place = ctx.find_root().obj
    wishes = load("allaboard.main.configuration").post_from(place["kubeconfig"], place["context"], options)
    load("allaboard.main.citizen").run_controllers(wishes)
