"""`aboard events`: what was said, about a job or about everything, oldest first."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from allaboard.api.documents import Document, dig
from allaboard.api.kinds import EVENT, TRAIN_JOB
from allaboard.api.meta import moment_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.kube.client import Select
from allaboard.sdk.reading import event_time, read_events, read_job


@click.command("events", help="What was said about a JOB and its pods, or about everything; oldest first.")
@click.argument("name", required=False, default="")
@click.option("--warnings", is_flag=True, help="Only what went wrong.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-o", "--output", type=click.Choice(("table", "json", "yaml")), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, name: str, warnings: bool, all_namespaces: bool, output: str) -> None:
    async def work(open_session: Session) -> list[Document]:
        client = open_session.client
        if name:
            job = await read_job(client, open_session.key(TRAIN_JOB, name))
            return await read_events(client, job)
        found = await client.list(EVENT, Select("" if all_namespaces else open_session.namespace))
        return sorted(found, key=event_time)

    found = [event for event in session.run(ctx, work) if not warnings or event.get("type") == "Warning"]
    if output != "table":
        click.echo(screen.document_as(output, {"apiVersion": "v1", "kind": "List", "items": found}))
    elif not found:
        screen.say("no events; they are kept for an hour")
    else:
        now = datetime.now(UTC)
        screen.table(("AGE", "TYPE", "REASON", "ABOUT", "MESSAGE"), [line_of(event, now) for event in found])


def line_of(event: Document, now: datetime) -> list[str]:
    at = event_time(event)
    age = screen.duration(max(0.0, (now - moment_of(at)).total_seconds())) if at else ""
    times = f" (x{event['count']})" if int(event.get("count") or 1) > 1 else ""
    about = f"{str(dig(event, 'involvedObject', 'kind', default='')).lower()}/{dig(event, 'involvedObject', 'name')}"
    return [age + times, str(event.get("type", "")), str(event.get("reason", "")), about, _one_line(event)]


def _one_line(event: Document) -> str:
    return " ".join(str(event.get("message") or event.get("note") or "").split())
