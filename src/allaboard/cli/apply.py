"""`aboard apply`: server-side apply of what a file describes."""

from __future__ import annotations

import re

import click

from allaboard.api.documents import replace
from allaboard.api.errors import ApiError, Conflict, Invalid
from allaboard.api.meta import name_of, namespace_of, revision_of
from allaboard.cli import load, manifests, session
from allaboard.cli.manifests import Manifest
from allaboard.cli.session import Session
from allaboard.sdk import words

MANAGER = "aboard"
# How the server names a field it does not know: on an ordinary write, and on an apply.
UNKNOWN = re.compile(r'unknown field "([^"]+)"|\.([\w.-]+(?:\[[^\]]*\][\w.-]*)*): field not declared in schema')


@click.command("apply", help="Create or change what files describe (a file, a folder, or - for standard input).")
@click.option("-f", "--filename", "sources", multiple=True, required=True, help="Where the documents are.")
@click.option("--force-conflicts", is_flag=True, help="Take fields over from other managers.")
@click.pass_context
def command(ctx: click.Context, sources: tuple[str, ...], force_conflicts: bool) -> None:
    found = [manifest for source in sources for manifest in manifests.load(source)]
    session.run(ctx, lambda open_session: _apply(open_session, found, force_conflicts))


async def _apply(open_session: Session, found: list[Manifest], force: bool) -> None:
    for manifest in found:
        click.echo(await apply_one(open_session, manifest, force=force))
        open_session.tell_warnings()


async def apply_one(open_session: Session, manifest: Manifest, *, force: bool = False) -> str:
    """Apply one document; the sentence kubectl users know."""
    client = open_session.client
    kind = await words.kind_of_document(client, manifest.document, manifest.where())
    document = manifest.document
    if kind.namespaced and not namespace_of(document):
        document = replace(document, "metadata", "namespace", value=open_session.namespace)
    given = document.get("metadata", {}).get("name")
    if given is not None and not isinstance(given, str):
        place = manifest.where("metadata.name")
        raise Invalid(f"{place}: metadata.name: {given!r} is not text; write it in quotes")
    if not name_of(document):
        raise Invalid(f"{manifest.where('metadata')}: metadata.name is missing; apply needs a name")
    before = await client.get(kind, open_session.key(kind, name_of(document)))
    try:
        after = await client.apply(kind, document, manager=MANAGER, force=force)
    except ApiError as error:
        raise explained(error, manifest) from error
    told = "created" if before is None else "unchanged" if revision_of(before) == revision_of(after) else "configured"
    return f"{kind.resource}/{name_of(document)} {told}"


def explained(error: ApiError, manifest: Manifest) -> ApiError:
    """A refusal with the place in the file and, for a misspelt field, the nearest right name."""
    unknown = UNKNOWN.findall(error.message)
    if unknown:
        unknown = [strict or undeclared for strict, undeclared in unknown]
        nearest = load("allaboard.main.offline").nearest_field
        lines = [f'{manifest.where(f)}: unknown field "{f}"{nearest(manifest.document, f)}' for f in unknown]
        return Invalid("\n       ".join(lines))
    if isinstance(error, Conflict):
        return Conflict(f"{manifest.where()}: {error.message}; --force-conflicts takes the fields over")
    if error.causes:
        lines = [f"{manifest.where(cause.field)}: {cause.field}: {cause.message}" for cause in error.causes]
        error.message = "\n       ".join(lines)
        error.args = (error.message,)
        return error
    error.args = (f"{manifest.where()}: {error.message}",)
    return error
