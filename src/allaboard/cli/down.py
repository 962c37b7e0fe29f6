"""`aboard down`: stop the plane; its state stays."""

from __future__ import annotations

import click

from allaboard.cli import load, planes, screen
from allaboard.sdk.home import Home


@click.command(
    "down", help="Stop the plane and the processes of its jobs; what it knows stays for the next `aboard up`."
)
def command() -> None:
    home = Home.default()
    running = home.running()
    if running is not None:
        planes.stop(running)
    left = load("allaboard.main.agent").end_leftover(home)
    if running is not None:
        screen.good(f"plane stopped; its state stays in {home.path}")
    elif left:
        screen.good("the plane had died; the processes of its jobs are ended now")
    else:
        screen.say("no plane runs here")
