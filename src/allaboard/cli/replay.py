"""`aboard replay`: a saved scheduling cycle, decided again."""

from __future__ import annotations

from pathlib import Path

import click

from allaboard.cli import load
from allaboard.cli.manifests import BadFile


@click.command("replay", help="Run a saved scheduling cycle again and print its decisions as JSON.")
@click.argument("file")
def command(file: str) -> None:
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}; `aboard snapshot -o {file}` saves one") from error
    click.echo(load("allaboard.main.offline").replayed(data))
