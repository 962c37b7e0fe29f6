"""`aboard down`: stop the plane; its state stays."""

from __future__ import annotations

import click

from allaboard.cli import planes, screen
from allaboard.sdk.home import Home


@click.command(
    "down", help="Stop the plane and the processes of its jobs; what it knows stays for the next `aboard up`."
)
def command() -> None:
    home = Home.default()
    running = home.running()
    if running is None:
        screen.say("no plane runs here")
        return
    planes.stop(running)
    screen.good(f"plane stopped; its state stays in {home.path}")
