"""`aboard lint`: what would go wrong with files, found without sending them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
import yaml

from allaboard.cli import load, manifests
from allaboard.cli.manifests import Manifest


@click.command("lint", help="Find what schema, admission, JobSet or the SDK would trip over; nothing is sent.")
@click.argument("paths", nargs=-1, required=True)
@click.option("--fix", is_flag=True, help="Rewrite what is outdated (comments of a rewritten file are lost).")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], fix: bool) -> None:
    found = [manifest for path in paths for manifest in manifests.load(path)]
    if fix:
        for source in _rewrite(found):
            click.echo(f"rewritten: {source}", err=True)
        found = [manifest for path in paths for manifest in manifests.load(path)]
    findings = load("allaboard.main.offline").lint_report([manifest.document for manifest in found])
    for finding in findings:
        field = f"{finding.path}: " if finding.path else ""
        place = found[finding.document].where(finding.path)
        click.echo(f"{place}: {click.style(finding.level, fg=COLOURS[finding.level])}: {field}{finding.message}")
    ctx.exit(1 if any(finding.level == "error" for finding in findings) else 0)


COLOURS = {"error": "red", "warning": "yellow"}


def _rewrite(found: list[Manifest]) -> list[str]:
    """Write outdated documents in today's words; files that need nothing stay as they are."""
    fixed = load("allaboard.main.offline").lint_fix
    by_source: dict[str, list[Manifest]] = defaultdict(list)
    for manifest in found:
        by_source[manifest.source].append(manifest)
    written = []
    for source, those in by_source.items():
        new = [fixed(manifest.document) for manifest in those]
        if any(document is not manifest.document for document, manifest in zip(new, those)) and Path(source).is_file():
            Path(source).write_text(yaml.safe_dump_all(new, sort_keys=False, width=120))
            written.append(source)
    return written
