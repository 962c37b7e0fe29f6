"""`aboard describe`: one object, its conditions, its children, and what was said about it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import NotFound
from allaboard.api.kinds import EVENT, JOB, JOB_SET, POD, POD_GROUP, SERVICE, TRAIN_JOB, Kind
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of, owners_of, uid_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.kube.client import Select
from allaboard.sdk import words
from allaboard.sdk.explaining import explain
from allaboard.sdk.reading import read_job

CHILDREN = (JOB_SET, JOB, POD, POD_GROUP, SERVICE)


@click.command("describe", help="Everything about one object: KIND NAME.")
@click.argument("kind")
@click.argument("name")
@click.pass_context
def command(ctx: click.Context, kind: str, name: str) -> None:
    async def work(open_session: Session) -> None:
        wanted = await words.kind_named(open_session.client, kind)
        document = await open_session.client.get(wanted, open_session.key(wanted, name))
        if document is None:
            raise NotFound(f'{wanted.resource} "{name}" not found; `aboard get {wanted.plural}` lists what there is')
        _about(document)
        if wanted == TRAIN_JOB:
            await _why(open_session, name)
        if wanted.namespaced:
            await _children(open_session, document)
        await _events(open_session, wanted, document)

    session.run(ctx, work)


def _about(document: Document) -> None:
    click.echo(f"Name:         {name_of(document)}")
    if namespace_of(document):
        click.echo(f"Namespace:    {namespace_of(document)}")
    click.echo(f"Kind:         {document.get('kind')} ({document.get('apiVersion')})")
    click.echo(f"Created:      {dig(document, 'metadata', 'creationTimestamp')}")
    for title, pairs in (("Labels", labels_of(document)), ("Annotations", annotations_of(document))):
        for number, (key, value) in enumerate(sorted(pairs.items())):
            click.echo(f"{title + ':' if number == 0 else '':<13} {key}={value}")
    for section in ("spec", "data"):
        if document.get(section):
            click.echo(f"{section.capitalize()}:")
            click.echo(_indented(screen.document_as("yaml", document[section])))
    status = {key: value for key, value in (document.get("status") or {}).items() if key != "conditions"}
    if status:
        click.echo("Status:")
        click.echo(_indented(screen.document_as("yaml", status)))
    conditions = dig(document, "status", "conditions", default=[])
    if conditions:
        click.echo("Conditions:")
        rows = [
            [f"  {c.get('type')}", c.get("status", ""), c.get("reason", ""), c.get("message", "")] for c in conditions
        ]
        screen.table(("  TYPE", "STATUS", "REASON", "MESSAGE"), rows)


async def _why(open_session: Session, name: str) -> None:
    """The verdict and its reason, as `aboard why` tells them; the first failure with its last words."""
    job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
    found = explain(job, datetime.now(UTC))
    said = f"{found.verdict}: {found.code} {found.message}" if found.code else f"{found.verdict}: {found.message}"
    click.echo(f"Why:          {said.rstrip(': ')}")
    if found.failure is not None and found.failure.words:
        click.echo("Last words:")
        click.echo(_indented(found.failure.words))


async def _children(open_session: Session, document: Document) -> None:
    """What the object owns, and what that owns, as a tree."""
    everything: Documents = []
    for kind in CHILDREN:
        everything += await open_session.client.list(kind, Select(namespace_of(document)))
    lines = list(_tree(document, everything, 1))
    if lines:
        click.echo("Children:")
        for line in lines:
            click.echo(line)


def _tree(owner: Document, everything: Documents, depth: int) -> list[str]:
    lines = []
    for child in everything:
        if any(reference.get("uid") == uid_of(owner) for reference in owners_of(child)):
            phase = dig(child, "status", "phase", default="")
            lines.append(f"{'  ' * depth}{child.get('kind')}/{name_of(child)} {phase}".rstrip())
            lines += _tree(child, everything, depth + 1)
    return lines


async def _events(open_session: Session, kind: Kind, document: Document) -> None:
    namespace = namespace_of(document) or "default"
    events = await open_session.client.list(EVENT, Select(namespace, fields=f"involvedObject.uid={uid_of(document)}"))
    if not events:
        return
    click.echo("Events:")
    events.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    rows = [
        [
            f"  {e.get('type', '')}",
            e.get("reason", ""),
            e.get("lastTimestamp") or "",
            f"x{e.get('count', 1)}",
            e.get("message", ""),
        ]
        for e in events
    ]
    screen.table(("  TYPE", "REASON", "LAST", "COUNT", "MESSAGE"), rows)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
