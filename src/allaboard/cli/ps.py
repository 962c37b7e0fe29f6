"""`aboard ps`: one line per job, the reason last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from allaboard.api.documents import dig
from allaboard.api.kinds import PRIORITY_CLASS
from allaboard.api.meta import moment_of, name_of, namespace_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.explaining import explain, rank_words, wanted
from allaboard.sdk.jobs import Job
from allaboard.sdk.reading import read_jobs

HEADERS = ("JOB", "QUEUE", "PRIO", "GANG", "GPU", "STATE", "TIME", "PROGRESS", "NODES / REASON")


@click.command("ps", help="The jobs, oldest first; a job that waits says why.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, all_namespaces: bool, output: str) -> None:
    async def work(open_session: Session) -> tuple[list[Job], dict[str, int]]:
        jobs = await read_jobs(open_session.client, "" if all_namespaces else open_session.namespace)
        classes = await open_session.client.list(PRIORITY_CLASS)
        return jobs, {name_of(one): int(one.get("value") or 0) for one in classes}

    jobs, classes = session.run(ctx, work)
    now = datetime.now(UTC)
    if output == "json":
        click.echo(json.dumps([{"namespace": namespace_of(j.document)} | explain(j, now).document() for j in jobs]))
        return
    if not jobs:
        screen.say("no jobs; `aboard run hello` trains one")
        return
    headers = ("NAMESPACE", *HEADERS) if all_namespaces else HEADERS
    lines = [line_of(job, now, classes) for job in jobs]
    if all_namespaces:
        lines = [[namespace_of(job.document), *line] for job, line in zip(jobs, lines)]
    screen.table(headers, lines)


def line_of(job: Job, now: datetime, classes: Mapping[str, int]) -> list[str]:
    progress = "–" if job.progress is None else f"{job.progress}%"
    where = ",".join(job.nodes) if job.phase in ("Running", "Starting") else reason_of(job)
    named = next((dig(group, "spec", "priorityClassName", default="") for group in job.groups), "")
    gang, age = f"{job.placed}/{wanted(job)}", screen.duration(job.seconds(now))
    return [job.name, job.queue, str(classes.get(named, "–")), gang, str(job.gpus), job.phase, age, progress, where]


def reason_of(job: Job) -> str:
    """`(FairShare) needs 2 gpu, 0 free; pos 1; est 14:05`, as far as the scheduler said so."""
    if not job.reason:
        return ""
    failure = job.first_failure if job.phase == "Failed" else None
    if failure is not None:
        return f"({failure.reason}) {rank_words(failure.rank)} exit code {failure.code} on {failure.node or '?'}"
    why = job.why
    place = f"; pos {why['position']}" if why.get("position") else ""
    estimate = f"; est {moment_of(why['estimate']).astimezone():%H:%M}" if why.get("estimate") else ""
    return f"({why['code']}) {job.reason}{place}{estimate}" if why.get("code") else f"({job.reason})"
