"""`aboard why`: one sentence with numbers, then the facts behind it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.follow import last_lines
from allaboard.sdk.jobs import Job
from allaboard.sdk.reading import read_job


@click.command("why", help="Why a JOB waits, failed, or is where it is.")
@click.argument("name")
@click.pass_context
def command(ctx: click.Context, name: str) -> None:
    async def work(open_session: Session) -> tuple[Job, list[str]]:
        job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
        failure = job.first_failure
        lines = await last_lines(open_session.client, open_session.namespace, failure.pod, 8) if failure else []
        return job, lines

    job, lines = session.run(ctx, work)
    for sentence in explain(job, datetime.now(UTC)):
        click.echo(sentence)
    for line in lines:
        click.echo(f"    {line}")


def explain(job: Job, now: datetime) -> list[str]:
    """The verdict first, then needs and places."""
    age = screen.duration(job.seconds(now))
    gang = f"{job.placed} of {len(job.pods)} pods placed"
    match job.phase:
        case "Pending":
            reason = job.reason or "the scheduler has not looked at it yet"
            return [
                f"{job.name} waits: {reason}",
                f"  gang     {gang}; all start together or none",
                f"  queue    {job.queue}",
                f"  waiting  {age}",
            ]
        case "Suspended":
            return [f"{job.name} is suspended: `aboard resume {job.name}` lets it go on"]
        case "Failed":
            failure = job.first_failure
            if failure is None:
                return [f"{job.name} failed after {age}: {job.reason}"]
            place = f"{failure.pod} on {failure.node}"
            first = f"rank {failure.rank} ended first with exit code {failure.code} ({place})"
            return [f"{job.name} failed after {age}: {first}"]
        case "Complete":
            return [f"{job.name} is complete: it took {age}"]
    progress = "" if job.progress is None else f", {job.progress} % done"
    return [
        f"{job.name} is {job.phase.lower()} on {', '.join(job.nodes) or 'no node yet'} since {age}{progress}; {gang}"
    ]
