"""`aboard ps`: one line per job, the reason last."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from allaboard.api.meta import namespace_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.jobs import Job
from allaboard.sdk.reading import read_jobs

HEADERS = ("JOB", "QUEUE", "GANG", "GPU", "STATE", "TIME", "PROGRESS", "NODES / REASON")


@click.command("ps", help="The jobs, oldest first; a job that waits says why.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.pass_context
def command(ctx: click.Context, all_namespaces: bool) -> None:
    async def work(open_session: Session) -> list[Job]:
        return await read_jobs(open_session.client, "" if all_namespaces else open_session.namespace)

    jobs = session.run(ctx, work)
    if not jobs:
        screen.say("no jobs; `aboard run hello` trains one")
        return
    now = datetime.now(UTC)
    headers = ("NAMESPACE", *HEADERS) if all_namespaces else HEADERS
    screen.table(headers, [_line(job, now, everywhere=all_namespaces) for job in jobs])


def _line(job: Job, now: datetime, *, everywhere: bool) -> list[str]:
    progress = "–" if job.progress is None else f"{job.progress}%"
    where = ",".join(job.nodes) if job.phase in ("Running", "Starting") else ""
    reason = f"({job.reason})" if job.reason and not where else where
    gang = f"{job.placed}/{len(job.pods)}"
    line = [job.name, job.queue, gang, str(job.gpus), job.phase, screen.duration(job.seconds(now)), progress, reason]
    return [namespace_of(job.document), *line] if everywhere else line
