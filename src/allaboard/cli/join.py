"""`aboard join`: this machine as a node of a real cluster."""

from __future__ import annotations

import socket

import click

from allaboard.cli import load, screen


@click.command("join", help="Run the pods a real cluster binds to this machine, as processes, in the foreground.")
@click.option("--name", default="", help="The node's name (default: this machine's).")
@click.option("--address", default="", help="Where the API server reaches us (default: how we reach it).")
@click.option("--port", type=int, default=10250, show_default=True, help="For logs, exec, attach and port-forward.")
@click.option("--client-ca", default="", help="Who signs the API server's client certificate (a PEM file).")
@click.option("--anonymous", is_flag=True, help="Callers need not say who they are; on loopback only.")
@click.option("--level", type=click.Choice(["auto", "A", "B", "C", "D"]), default="auto", show_default=True)
@click.option("--fake-gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs to pretend.")
@click.option("--host-path", multiple=True, help="A folder of this machine that hostPath volumes may use; repeat.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    chosen, joining = ctx.find_root().obj, load("allaboard.main.joining")
    options["name"] = options["name"] or socket.gethostname().lower()
    screen.say(f"joins as node {options['name']}; its pods run here until this command is stopped")
    joining.run_joined(joining.Post(chosen["kubeconfig"], chosen["context"], **options))
