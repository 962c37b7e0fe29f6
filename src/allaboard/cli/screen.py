"""Data on stdout, talk on stderr: plain text in a pipe, a little colour on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click
import yaml

from allaboard.api.documents import Document


def say(sentence: str) -> None:
    """Talk: to stderr, so that it never gets into data."""
    click.echo(sentence, err=True)


def good(sentence: str) -> None:
    say(f"{click.style('✓', fg='green')} {sentence}")


def bad(sentence: str) -> None:
    say(f"{click.style('✗', fg='red')} {sentence}")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their widest cell, two blanks between."""
    lines = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths)]
        click.echo("  ".join(cells).rstrip())


def document_as(output: str, document: Document | list[Document]) -> str:
    """A document as `-o yaml` or `-o json` prints it."""
    if output == "json":
        return json.dumps(document, indent=4)
    text = yaml.dump(document, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=120)
    return text.removesuffix("\n")  # of the last line alone: a text may end with more


class _Readable(yaml.SafeDumper):
    """Text of several lines as lines, as people wrote it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def duration(seconds: float) -> str:
    """`850 ms`, `4.2 s`, `12:05`, `1:02:05`, `3d 4h`; two stamps of one second say `<1 s`."""
    if seconds == 0:
        return "<1 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
