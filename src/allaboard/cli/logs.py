"""`aboard logs`: what the ranks of a job print, merged, each line with its rank."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from allaboard.api.documents import Key
from allaboard.api.errors import BadRequest, NotFound
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.cli import session
from allaboard.cli.following import follow as follow_on_screen
from allaboard.cli.session import Session
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.follow import log_lines
from allaboard.sdk.jobs import Rank, choose
from allaboard.sdk.reading import read_job


@click.command("logs", help="What a JOB (or pod/NAME) prints; every line says its rank.")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("--rank", "which", default="all", show_default=True, help="0,3 · all · last")
@click.option("--tail", type=int, help="Only the last lines of each rank.")
@click.option("--since", default="", help="Only what was printed in the last 90s, 10m or 2h.")
@click.option("--grep", "pattern", default="", help="Only lines that match this regular expression.")
@click.option("--timestamps", is_flag=True, help="When each line was printed.")
@click.option("--previous", is_flag=True, help="Of the container before the last restart.")
@click.pass_context
def command(ctx: click.Context, /, name: str, which: str, pattern: str, **asked: object) -> None:
    reading = Reading(options_of(asked), _pattern(pattern), follow=bool(asked["follow"]))

    async def work(open_session: Session) -> None:
        if name.startswith(("pod/", "pods/")):
            await _one_pod(open_session, name.partition("/")[2], reading)
        elif reading.follow and which == "all" and not reading.options and not pattern:
            await follow_on_screen(open_session.client, open_session.key(TRAIN_JOB, name))
        else:
            await _ranks(open_session, name, which, reading)

    session.run(ctx, work)


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read: the API's own options, which lines are wanted, and whether to go on."""

    options: dict[str, str]
    wanted: re.Pattern[str]
    follow: bool


def options_of(asked: Mapping[str, object]) -> dict[str, str]:
    """Our options in the API's words."""
    words = {"tail": "tailLines", "timestamps": "timestamps", "previous": "previous"}
    found = {words[w]: str(v).lower() for w, v in asked.items() if w in words and v not in (None, False)}
    return found | ({"sinceSeconds": str(seconds_of(str(asked["since"])))} if asked.get("since") else {})


def seconds_of(text: str) -> int:
    """`90s`, `10m`, `2h`, or plain seconds."""
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if not found:
        raise click.UsageError(f'--since: "{text}" must be a time such as 90s, 10m or 2h')
    return int(found.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[found.group(2)]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f'--grep: "{text}" is no regular expression: {error}') from error


async def _one_pod(open_session: Session, name: str, reading: Reading) -> None:
    pod = await open_session.client.get(POD, Key(open_session.namespace, name))
    if pod is None:
        raise NotFound(f'pod "{name}" not found; `aboard get pods` lists what there is')
    async for line in log_lines(open_session.client, pod, follow=reading.follow, options=reading.options):
        if reading.wanted.search(line):
            click.echo(line)


async def _ranks(open_session: Session, name: str, which: str, reading: Reading) -> None:
    job = await read_job(open_session.client, open_session.key(TRAIN_JOB, name))
    chosen = choose(job.ranks, which)
    if not chosen:
        raise NotFound(
            f'job "{name}" has no rank "{which}"; it has: {", ".join(r.word for r in job.ranks) or "no pods"}'
        )
    width = max(len(rank.word) for rank in chosen)
    if reading.follow:
        await asyncio.gather(*(_print(open_session.client, rank, width, reading) for rank in chosen))
        return
    stamped = Reading({**reading.options, "timestamps": "true"}, reading.wanted, follow=False)
    found = await asyncio.gather(*(_read(open_session.client, rank, stamped) for rank in chosen))
    for rank, line in merged(chosen, found):
        text = line if "timestamps" in reading.options else line.partition(" ")[2]
        if reading.wanted.search(text):
            click.echo(f"{rank.word:<{width}} │ {text}")


async def _read(client: RemoteClient, rank: Rank, reading: Reading) -> list[str]:
    """A rank's whole log; nothing for one that has not started."""
    try:
        return [line async for line in log_lines(client, rank.pod, options=reading.options)]
    except BadRequest:
        return []


def merged(ranks: Sequence[Rank], logs: Sequence[Sequence[str]]) -> list[tuple[Rank, str]]:
    """Lines of all ranks in the order they were printed: by stamp, then rank, then as they stand in their log."""
    lines = [(_stamp(line), place, number, line) for place, log in enumerate(logs) for number, line in enumerate(log)]
    return [(ranks[place], line) for _, place, _, line in sorted(lines)]


def _stamp(line: str) -> str:
    """The moment before a line; without its Z, moments of different precision compare as texts."""
    return line.partition(" ")[0].removesuffix("Z")


async def _print(client: RemoteClient, rank: Rank, width: int, reading: Reading) -> None:
    async for line in log_lines(client, rank.pod, follow=True, options=reading.options):
        if reading.wanted.search(line):
            click.echo(f"{rank.word:<{width}} │ {line}")
