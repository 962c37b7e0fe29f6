"""`aboard delete`: objects by name or by file, with their children and their processes."""

from __future__ import annotations

import click

from allaboard.api.documents import Key
from allaboard.api.errors import NotFound
from allaboard.api.kinds import Kind
from allaboard.api.meta import name_of, namespace_of
from allaboard.cli import manifests, session
from allaboard.cli.session import Session
from allaboard.sdk import asking, words


@click.command("delete", help="Delete objects: KIND NAME…, or -f FILE.")
@click.argument("kind", required=False)
@click.argument("names", nargs=-1)
@click.option("-f", "--filename", "sources", multiple=True, help="Delete what these files describe.")
@click.option("--all", "everything", is_flag=True, help="Every object of the kind in the namespace.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until it is really gone.")
@click.pass_context
def command(
    ctx: click.Context, kind: str | None, names: tuple[str, ...], sources: tuple[str, ...], everything: bool, wait: bool
) -> None:
    if not sources and not (kind and (names or everything)):
        raise click.UsageError("say what to delete: KIND NAME…, KIND --all, or -f FILE", ctx)

    async def work(open_session: Session) -> None:
        for target, key in await _targets(open_session, kind, names, sources, everything=everything):
            await _delete(open_session, target, key, wait=wait)

    session.run(ctx, work)


async def _targets(
    open_session: Session, kind: str | None, names: tuple[str, ...], sources: tuple[str, ...], *, everything: bool
) -> list[tuple[Kind, Key]]:
    found = []
    for manifest in [manifest for source in sources for manifest in manifests.load(source)]:
        of_file = await words.kind_of_document(open_session.client, manifest.document, manifest.where())
        namespace = (namespace_of(manifest.document) or open_session.namespace) if of_file.namespaced else ""
        found.append((of_file, Key(namespace, name_of(manifest.document))))
    if kind:
        named = await words.kind_named(open_session.client, kind)
        if everything:
            listed = await open_session.client.list(named)
            names = tuple(name_of(d) for d in listed if namespace_of(d) in ("", open_session.namespace))
        found += [(named, open_session.key(named, name)) for name in names]
    return found


async def _delete(open_session: Session, kind: Kind, key: Key, *, wait: bool) -> None:
    try:
        if wait:
            await asking.ended(open_session.client, kind, key)
        else:
            await open_session.client.delete(kind, key, propagation="Background")
    except NotFound as error:
        remedy = f"`aboard get {kind.plural}` lists what there is"
        raise NotFound(f'{kind.resource} "{key.name}" not found; {remedy}') from error
    click.echo(f'{kind.resource} "{key.name}" deleted')
