"""`aboard get`: objects of a kind as a table, YAML, JSON or names."""

from __future__ import annotations

import click

from allaboard.api.documents import Documents
from allaboard.api.errors import NotFound
from allaboard.api.kinds import Kind
from allaboard.api.meta import name_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.kube.client import Select
from allaboard.sdk import words

FORMS = ("table", "wide", "yaml", "json", "name")


@click.command("get", help="List objects of a KIND (trainjobs, runtimes, jobsets, jobs, pods, podgroups, queues …).")
@click.argument("kind")
@click.argument("names", nargs=-1)
@click.option("-o", "--output", type=click.Choice(FORMS), default="table", show_default=True)
@click.option("-l", "--selector", default="", help="Only objects with these labels.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.pass_context
def command(
    ctx: click.Context, kind: str, names: tuple[str, ...], output: str, selector: str, all_namespaces: bool
) -> None:
    async def work(open_session: Session) -> None:
        for word in kind.split(","):
            wanted = await words.kind_named(open_session.client, word)
            namespace = "" if all_namespaces else open_session.namespace
            await _show(open_session, wanted, Select(namespace, labels=selector), names, output)

    session.run(ctx, work)


async def _show(open_session: Session, kind: Kind, select: Select, names: tuple[str, ...], output: str) -> None:
    if output in ("table", "wide"):
        await _table(open_session, kind, select, names, wide=output == "wide")
        return
    documents = await _documents(open_session, kind, select, names)
    if output == "name":
        for document in documents:
            click.echo(f"{kind.resource}/{name_of(document)}")
    elif len(names) == 1:
        click.echo(screen.document_as(output, documents[0]))
    else:
        listing = {"apiVersion": "v1", "kind": "List", "items": documents}
        click.echo(screen.document_as(output, listing))


async def _documents(open_session: Session, kind: Kind, select: Select, names: tuple[str, ...]) -> Documents:
    if not names:
        return await open_session.client.list(kind, select)
    found = []
    for name in names:
        document = await open_session.client.get(kind, open_session.key(kind, name))
        if document is None:
            raise NotFound(f'{kind.resource} "{name}" not found; `aboard get {kind.plural}` lists what there is')
        found.append(document)
    return found


async def _table(open_session: Session, kind: Kind, select: Select, names: tuple[str, ...], *, wide: bool) -> None:
    """The server's own columns, as kubectl shows them."""
    namespace = select.namespace if kind.namespaced else ""
    body = await open_session.client.table(kind, Select(namespace, select.labels))
    shown = [i for i, column in enumerate(body["columnDefinitions"]) if wide or not column.get("priority")]
    rows = [row for row in body.get("rows") or [] if not names or row["object"]["metadata"]["name"] in names]
    missing = sorted(set(names) - {row["object"]["metadata"]["name"] for row in rows})
    if not rows and not names:
        where = f" in namespace {namespace}" if namespace else ""
        screen.say(f"no {kind.plural}{where}")
        return
    everywhere = kind.namespaced and not namespace
    headers = [body["columnDefinitions"][i]["name"].upper() for i in shown]
    cells = [[_cell(row["cells"][i]) for i in shown] for row in rows]
    if everywhere:
        headers = ["NAMESPACE", *headers]
        cells = [[row["object"]["metadata"].get("namespace", ""), *line] for row, line in zip(rows, cells)]
    if cells:
        screen.table(headers, cells)
    if missing:
        raise NotFound(f'{kind.resource} "{missing[0]}" not found; `aboard get {kind.plural}` lists what there is')


def _cell(value: object) -> str:
    if value is None or value == "":
        return "<none>"
    return str(value).lower() if isinstance(value, bool) else str(value)
