"""`aboard node`: the node agent of a plane, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import click

from allaboard.cli import load


@click.command("node", hidden=True, help="Run the pods bound to nodes of this machine.")
@click.option("--settings", required=True, help="A JSON file with the agent's settings, written by `serve`.")
def command(settings: str) -> None:
    load("allaboard.main.agent").run_node(Path(settings))
