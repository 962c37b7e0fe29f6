"""`aboard doctor`: what this machine can do for pods, and the remedy for what it cannot."""

from __future__ import annotations

import platform
import shutil

import click

from allaboard.cli import load
from allaboard.sdk.home import Home

LEVELS = {
    "A": "root: every pod has its own network, files and processes",
    "B": "rootless: the same, inside a user namespace",
    "C": "no network namespaces: pods share the machine's network",
    "D": "plain processes: pods share network, files and process table",
}


@click.command("doctor", help="What this machine can do for pods, tried out, with the remedy for what it cannot.")
@click.pass_context
def command(ctx: click.Context) -> None:
    findings = load("allaboard.main.offline").probe()
    home = Home.default()
    free = shutil.disk_usage(home.path if home.path.exists() else home.path.parent).free / 2**30
    click.echo(f"python     {platform.python_version()} on {platform.system()} {platform.release()}")
    click.echo(f"home       {home.path} ({free:.0f} GiB free)")
    click.echo(f"level      {findings.level}: {LEVELS[findings.level]}")
    click.echo(f"open       {findings.not_isolated()}")
    misses = findings.misses()
    for item, words in findings.items.items():
        mark = click.style("✓", fg="green") if not words else click.style("✗", fg="red")
        remedy = f"  → {misses[item]}" if item in misses else ""
        click.echo(f"{mark} {item:<9} {words}{remedy}".rstrip())
    ctx.exit(1 if findings.level == "D" else 0)
