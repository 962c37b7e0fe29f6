"""`aboard convert`: a PyTorchJob or MPIJob manifest becomes a TrainJob."""

from __future__ import annotations

import click

from allaboard.cli import load, manifests, screen


@click.command(
    "convert", help="Turn PyTorchJob and MPIJob manifests into TrainJobs; what has no place is said on stderr."
)
@click.option("-f", "--filename", "sources", multiple=True, required=True, help="Where the documents are.")
def command(sources: tuple[str, ...]) -> None:
    convert = load("allaboard.main.offline").converted
    texts = []
    for manifest in [manifest for source in sources for manifest in manifests.load(source)]:
        conversion = convert(manifest.document)
        who = f'{manifest.document["kind"]} "{manifest.document["metadata"]["name"]}"'
        for lost in conversion.lost:
            screen.say(f"{click.style('lost:', fg='yellow')} {manifest.source}: {who}: {lost}")
        texts.append(screen.document_as("yaml", conversion.job))
    click.echo("\n---\n".join(texts))
