"""`aboard version`."""

from __future__ import annotations

import click

from allaboard import __version__


@click.command("version", help="Which version this is.")
def command() -> None:
    click.echo(f"aboard {__version__}")
