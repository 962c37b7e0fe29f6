"""`aboard serve`: a plane in the foreground, for people, tests and service files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from allaboard.cli import load
from allaboard.sdk.home import Home

Command = TypeVar("Command", bound=Callable[..., None])


def plane_options(command: Command) -> Command:
    """What `up` and `serve` both let one choose."""
    options = (
        click.option(
            "--nodes", type=click.IntRange(0), default=1, show_default=True, help="Virtual nodes; 0 runs no pods."
        ),
        click.option(
            "--fake-gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs to pretend per node."
        ),
        click.option(
            "--host-path", multiple=True, help="A folder of this machine that pods' hostPath volumes may use; repeat."
        ),
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Elsewhere than loopback needs --auth rbac."
        ),
        click.option(
            "--auth",
            type=click.Choice(["rbac", "allow"]),
            default="allow",
            show_default=True,
            help="allow: whoever is known may do everything; rbac: what roles say.",
        ),
        click.option("--tokens", default="", help='A file of bearer tokens: token,user,uid,"group,group" lines.'),
        click.option(
            "--durability", type=click.Choice(["full", "normal", "memory"]), default="full", show_default=True
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("serve", help="Run a plane in the foreground until it is told to stop.")
@click.option("--home", default="", help="Its folder (default: ABOARD_HOME or ~/.aboard).")
@click.option("--port", type=int, default=7443, show_default=True)
@plane_options
@click.option("--controllers", default=None, help="Which run, by name; empty runs none (default: all).")
@click.option("--admission", default=None, help="Which admission hooks ask, by name (default: all).")
@click.option("--plugins", default="", help="Plugins of training that are installed beside ours, by name, in order.")
@click.option("--feature-gates", default="", help="Name=true,Name=false …")
@click.option("--plain", is_flag=True, help="http without TLS, on loopback only.")
@click.option("--verbose", is_flag=True, help="Say what every controller does.")
def command(**options: object) -> None:
    home = str(options.pop("home"))
    main = load("allaboard.main.plane")  # every room: only when a plane is really started
    main.run_plane(main.read_settings(Home(Path(home)) if home else Home.default(), options))
