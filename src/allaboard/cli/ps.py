"""`aboard ps`: one line per job, the reason last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.kinds import EVENT, PRIORITY_CLASS
from allaboard.api.meta import moment_of, name_of, namespace_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.kube.client import Select
from allaboard.sdk.explaining import explain, hindered, rank_words, wanted
from allaboard.sdk.jobs import Job
from allaboard.sdk.reading import events_about, read_jobs

HEADERS = ("JOB", "QUEUE", "PRIO", "GANG", "GPU", "STATE", "TIME", "PROGRESS", "NODES / REASON")


@click.command("ps", help="The jobs, oldest first; a job that waits says why.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, all_namespaces: bool, output: str) -> None:
    async def work(open_session: Session) -> tuple[list[Job], dict[str, int], Documents]:
        client, namespace = open_session.client, "" if all_namespaces else open_session.namespace
        jobs = await read_jobs(client, namespace)
        classes = {name_of(one): int(one.get("value") or 0) for one in await client.list(PRIORITY_CLASS)}
        unmade = any(job.phase == "Pending" and not job.pods for job in jobs)
        return jobs, classes, await client.list(EVENT, Select(namespace)) if unmade else []

    jobs, classes, events = session.run(ctx, work)
    now = datetime.now(UTC)
    if output == "json":
        click.echo(json.dumps([_entry(job, now, events) for job in jobs]))
        return
    if not jobs:
        screen.say("no jobs; `aboard run hello` trains one")
        return
    headers = ("NAMESPACE", *HEADERS) if all_namespaces else HEADERS
    lines = [line_of(job, now, classes, events) for job in jobs]
    if all_namespaces:
        lines = [[namespace_of(job.document), *line] for job, line in zip(jobs, lines)]
    screen.table(headers, lines)


def _entry(job: Job, now: datetime, events: Documents) -> Document:
    return {"namespace": namespace_of(job.document)} | explain(job, now, events_about(job, events)).document()


def line_of(job: Job, now: datetime, classes: Mapping[str, int], events: Documents) -> list[str]:
    progress = "–" if job.progress is None else f"{job.progress}%"
    where = ",".join(job.nodes) if job.phase in ("Running", "Starting") else reason_of(job, events)
    named = next((dig(group, "spec", "priorityClassName", default="") for group in job.groups), "")
    gang, age = f"{job.placed}/{wanted(job)}", screen.duration(job.seconds(now))
    return [job.name, job.queue, str(classes.get(named, "–")), gang, str(job.gpus), job.phase, age, progress, where]


def reason_of(job: Job, events: Documents) -> str:
    """`(FairShare) needs 2 gpu, 0 free; pos 1; est 14:05`, as far as the scheduler or a controller said so."""
    hindrance = hindered(job, events_about(job, events)) if job.phase == "Pending" else None
    if hindrance is not None:
        return "({}) {}".format(*hindrance)
    if not job.reason:
        return ""
    failure = job.first_failure if job.phase == "Failed" else None
    if failure is not None:
        return f"({failure.reason}) {rank_words(failure.rank)} exit code {failure.code} on {failure.node or '?'}"
    why = job.why
    place = f"; pos {why['position']}" if why.get("position") else ""
    estimate = f"; est {moment_of(why['estimate']).astimezone():%H:%M}" if why.get("estimate") else ""
    return f"({why['code']}) {job.reason}{place}{estimate}" if why.get("code") else f"({job.reason})"
