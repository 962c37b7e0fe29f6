"""`aboard why`: a verdict, the one reason with its numbers, and what could be done."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.api.meta import moment_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.explaining import BOUNDS, Explanation, Holder, explain
from allaboard.sdk.follow import last_lines
from allaboard.sdk.reading import read_events, read_gangs, read_job

HEADLINES = {
    "Waiting": "is WAITING (it will run; nothing to fix)",
    "Blocked": "is BLOCKED (it waits for somebody to act)",
    "Impossible": "is IMPOSSIBLE (as it is, it can never run here)",
    "Preempted": "was PREEMPTED (it waits for its place again)",
    "Starting": "is STARTING",
    "Suspended": "is SUSPENDED",
    "Slow": "is SLOW",
    "Running": "is RUNNING",
    "Failed": "has FAILED",
    "Complete": "is COMPLETE",
    "Deleting": "is being DELETED",
}
SHOWN_LINES = 8


@click.command("why", help="Why a JOB waits, failed, or is where it is.")
@click.argument("name")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.pass_context
def command(ctx: click.Context, name: str, output: str) -> None:
    async def work(open_session: Session) -> tuple[Explanation, list[str]]:
        client = open_session.client
        job = await read_job(client, open_session.key(TRAIN_JOB, name))
        events = await read_events(client, job)
        groups = await read_gangs(client, open_session.namespace)
        found = explain(job, datetime.now(UTC), events, groups)
        failure = found.failure
        lines = await last_lines(client, open_session.namespace, failure.pod, SHOWN_LINES) if failure else []
        return found, lines or (failure.words.splitlines()[-SHOWN_LINES:] if failure else [])

    found, lines = session.run(ctx, work)
    if output == "json":
        click.echo(json.dumps(found.document() | ({"lastLines": lines} if lines else {}), indent=4))
        return
    for line in screen_of(found, lines):
        click.echo(line)


def screen_of(found: Explanation, lines: list[str]) -> list[str]:
    """What a terminal shows: the verdict, then one block for each thing there is to say."""
    age = screen.duration(found.seconds)
    when = {"Failed": f"after {age}", "Complete": f"in {age}"}.get(found.verdict, f"for {age}")
    shown = [f"{found.job} {HEADLINES.get(found.verdict, found.verdict)}  {when}", ""]
    if found.message:
        shown += [_row("Reason", found.code or found.message)]
        shown += [f"    {part}" for part in found.message.split("; ")] if found.code else []
    shown += [f"    │ {line}" for line in lines]
    if found.others_failed:
        shown += [_row("Then", f"{found.others_failed} more failed after it (consequence, not cause)")]
    shown += _numbers(found)
    shown += [_row("Held by" if not i else "", _holder(holder)) for i, holder in enumerate(found.held_by)]
    if found.estimate:
        shown += [
            _row("Estimate", f"about {moment_of(found.estimate).astimezone():%H:%M}, as far as run times are known")
        ]
    shown += [_row("Helps" if not i else "", words) for i, words in enumerate(found.unblock)]
    shown += [_row("You could" if not i else "", words) for i, words in enumerate(found.could)]
    if found.history:
        shown += [_row("History", " → ".join(f"{_clock(at)} {words}" for at, words in found.history))]
    return shown if len(shown) > 2 else shown[:1]


def _numbers(found: Explanation) -> list[str]:
    if found.verdict in ("Complete", "Failed"):
        return []
    needs = f"{', '.join(found.needs.values())} at once" if found.needs else "all its pods at once"
    rows = [_row("Needs", f"{needs} (gang {found.gang})")] if found.verdict not in ("Running", "Slow") else []
    title = "May use" if found.code in BOUNDS else "Free now"
    rows += [_row(title, ", ".join(found.free.values()))] if found.free else []
    place = f", {_nth(found.position, found.waiting)} in line there" if found.position else ""
    overall = f", {_nth(found.overall, found.waiting_overall)} overall" if found.overall else ""
    rows.append(_row("Queue", f"{found.queue}{place}{overall}"))
    return [*rows, _row("Ahead", ", ".join(found.ahead))] if found.ahead else rows


def _nth(place: int, count: int) -> str:
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending} of {count}" if count else f"{place}{ending}"


def _holder(holder: Holder) -> str:
    yields = "preemptible" if holder.preemptible else "not preemptible"
    return f"{holder.job}  {holder.amount}  {holder.queue}  {yields}"


def _row(title: str, words: str) -> str:
    return f" {title:<9} {words}"


def _clock(stamp: str) -> str:
    return f"{moment_of(stamp).astimezone():%H:%M:%S}" if stamp else ""
