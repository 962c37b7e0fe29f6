"""`aboard render`: the final objects of a TrainJob, without a plane."""

from __future__ import annotations

import os

import click

from allaboard.cli import load, manifests


@click.command(
    "render", help="The final objects of the TrainJobs in files; runtimes come from the files or are shipped."
)
@click.option("-f", "--filename", "sources", multiple=True, required=True, help="Where the documents are.")
@click.option("--explain", "explained", is_flag=True, help="Say who set every field.")
def command(sources: tuple[str, ...], explained: bool) -> None:
    documents = [manifest.document for source in sources for manifest in manifests.load(source)]
    texts = load("allaboard.main.offline").render_texts(documents, os.urandom, explained=explained)
    click.echo("---\n".join(texts), nl=False)
