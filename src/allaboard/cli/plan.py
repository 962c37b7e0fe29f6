"""`aboard plan`: what would happen to a job if it were submitted now; nothing is."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Protocol

import click

from allaboard.api.documents import Document, replace
from allaboard.api.meta import moment_of, name_of, namespace_of
from allaboard.cli import load, session, wishes
from allaboard.cli.session import Session


class Forecast(Protocol):
    """What `main/planning.py` answers."""

    queue: str
    pods: int
    places: dict[str, str]
    action: str
    evicted: tuple[str, ...]
    moved: tuple[str, ...]
    why: Document
    smaller: int

    @property
    def fits(self) -> bool: ...


@click.command(
    "plan", help="Whether a job (FILE.py, job.yaml, hello) would start now, where, and who would have to go."
)
@click.argument("what", required=False, default="")
@click.option("-f", "--filename", default="", help="The TrainJob, as a file.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
@wishes.asked
@click.pass_context
def command(ctx: click.Context, /, what: str, filename: str, output: str, **options: object) -> None:
    if bool(what) == bool(filename):
        raise click.UsageError("plan takes one job: a script, `hello`, or -f job.yaml", ctx)

    async def work(open_session: Session) -> tuple[Document, Forecast]:
        wish = wishes.job_in(filename) if filename else wishes.manifest_of(what, open_session.namespace, options)
        job = wish.document
        if not namespace_of(job):
            job = replace(job, "metadata", "namespace", value=open_session.namespace)
        found: Forecast = await load("allaboard.main.offline").forecast(open_session.client, job)
        return job, found

    job, found = session.run(ctx, work)
    if output == "json":
        click.echo(json.dumps({"job": name_of(job), "fits": found.fits} | asdict(found), indent=4))  # type: ignore[call-overload]
    else:
        for line in screen_of(name_of(job), found):
            click.echo(line)
    ctx.exit(0 if found.fits else 1)


def screen_of(name: str, found: Forecast) -> list[str]:
    """The answer in the order people ask: now, by force, later, smaller."""
    lines = [f"{name} → queue {found.queue}, {found.pods} pod{'s' if found.pods != 1 else ''} at once"]
    if found.fits and not found.action:
        return [*lines, _yes("now", f"fits: {_where(found)}")]
    lines.append(_no("now", f"({found.why['code']}) {found.why['message']}" if found.why else "does not fit"))
    if found.fits:
        lines.append(_yes(f"by {found.action}", f"{_cost(found)}: {_where(found)}"))
    if found.why.get("estimate"):
        lines.append(_yes("by waiting", f"about {moment_of(found.why['estimate']).astimezone():%H:%M}"))
    if found.smaller:
        lines.append(_yes("smaller", f"fits now with --nodes {found.smaller}"))
    return [*lines, *(f"   helps: {words}" for words in found.why.get("unblock") or ())]


def _yes(title: str, words: str) -> str:
    return f" {title:<12} {click.style('✓', fg='green')} {words}"


def _no(title: str, words: str) -> str:
    return f" {title:<12} {click.style('✗', fg='red')} {words}"


def _where(found: Forecast) -> str:
    """`2 on node-0, 1 on node-1`."""
    counts = Counter(found.places.values())
    return ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))


def _cost(found: Forecast) -> str:
    """Who would have to go, and who would be moved."""
    gone, moved = _jobs(found.evicted), _jobs(found.moved)
    return "; ".join(part for part in (f"evicts {gone}" if gone else "", f"moves {moved}" if moved else "") if part)


def _jobs(tasks: tuple[str, ...]) -> str:
    """Pods by the job they belong to: the name before replicated job, index, rank and chance."""
    counts = Counter(task.rpartition("/")[2].rsplit("-", 4)[0] for task in tasks)
    return ", ".join(f"{job} ({count} pod{'s' if count != 1 else ''})" for job, count in sorted(counts.items()))
