"""`aboard wait`: until a job is complete, running or in a condition; the exit code says how it ended."""

from __future__ import annotations

import asyncio

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.cli import screen, session
from allaboard.cli.following import verdict
from allaboard.cli.session import Session
from allaboard.kube.clock import SystemClock
from allaboard.sdk.follow import Follower
from allaboard.sdk.jobs import is_reached
from allaboard.sdk.reading import read_job

TIMED_OUT = 124


@click.command("wait", help="Wait for a JOB; exits with 0 when it got there, 1 when it cannot any more.")
@click.argument("name")
@click.option("--for", "what", default="complete", show_default=True, help="complete · running · condition=TYPE")
@click.option("--timeout", type=float, default=None, help="Give up after so many seconds (exit code 124).")
@click.pass_context
def command(ctx: click.Context, name: str, what: str, timeout: float | None) -> None:
    async def work(open_session: Session) -> int:
        key = open_session.key(TRAIN_JOB, name)
        await read_job(open_session.client, key)  # says so at once when there is no such job
        follower = Follower(open_session.client, key, SystemClock())
        try:
            async with asyncio.timeout(timeout):
                async for _ in follower.happenings():
                    if follower.job is not None and is_reached(follower.job, what):
                        return 0
        except TimeoutError:
            screen.bad(f"{name} is not {what} after {timeout:g} s: {follower.job.reason if follower.job else 'gone'}")
            return TIMED_OUT
        return await verdict(open_session.client, follower.job, key)

    ctx.exit(session.run(ctx, work))
