"""A followed job on the screen: phases with their times, merged lines, a progress bar, the verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from allaboard.api.documents import Key
from allaboard.api.kinds import JOB_SET
from allaboard.cli import screen
from allaboard.kube.clock import SystemClock
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.explaining import rank_words
from allaboard.sdk.follow import Follower, Happening, Line, Moved, Progressed, Waits, last_lines
from allaboard.sdk.jobs import Failure, Job
from allaboard.sdk.reading import read_job, remembered_failures

PHASES = {"Pending": "queued", "Starting": "scheduled", "Running": "running"}
COLOURS = ("cyan", "magenta", "yellow", "blue", "green")
SHOWN_LINES = 8


class Screen:
    """Lines above, a bar below on a terminal; plain lines in a pipe.

    A job that was made at a moment we know has been queued since, whatever it was when it was first seen.
    """

    def __init__(self, made: datetime | None = None) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (TextColumn("  "), BarColumn(28), TextColumn("{task.percentage:>3.0f} %  {task.description}"))
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task: TaskID | None = None
        self.live = self.console.is_terminal
        self.since = made
        self.phase = "Pending" if made else ""
        self.phases = ["queued"] if made else []  # passed, and not said yet
        self.width = 2

    def __enter__(self) -> Screen:
        if self.live:
            self.bar.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._flush()
        if self.live:
            self.bar.stop()

    def show(self, happening: Happening) -> None:
        match happening:
            case Line(rank, text):
                self._flush()
                self._line(rank, text)
            case Moved():
                self._moved(happening)
            case Progressed():
                self._progress(happening)
            case Waits(reason):
                self._flush()
                self._say(f"  waits: {reason}")

    def _line(self, rank: str, text: str) -> None:
        self.width = max(self.width, len(rank))
        if sys.stdout.isatty():
            colour = COLOURS[sum(map(ord, rank)) % len(COLOURS)]
            # In one piece: the bar is drawn anew after every print, also in the middle of a line.
            self.console.print(Text.assemble((f"{rank:<{self.width}} │ ", colour), Text.from_ansi(text)))
        else:
            click.echo(f"{rank:<{self.width}} │ {text}")

    def _moved(self, moved: Moved) -> None:
        """Phases gather on one line, each with how long it took, until the job runs or something else is to be said."""
        reached = "Running" if moved.phase == "Complete" and self.phase else moved.phase
        if reached not in PHASES or reached == self.phase:
            return
        if self.since is not None:
            self.phases[-1:] = [f"{last} {self._took(moved)}" for last in self.phases[-1:]]
        where = f" on {', '.join(moved.job.nodes)}" if reached == "Running" else ""
        self.phases += [*unseen(self.phase, reached), f"{PHASES[reached]}{where}"]
        self.since, self.phase = moved.moment, reached
        if reached == "Running":
            self._flush()

    def _took(self, moved: Moved) -> str:
        return screen.duration((moved.moment - (self.since or moved.moment)).total_seconds())

    def _flush(self) -> None:
        if self.phases:
            phases, self.phases = self.phases, []
            self._say(f"  {' ▸ '.join(phases)}")

    def _progress(self, progress: Progressed) -> None:
        eta = [] if progress.remaining is None else [f"eta {screen.duration(progress.remaining)}"]
        words = "  ".join([*eta, *(f"{name} {value}" for name, value in progress.metrics.items())])
        percent = progress.percent
        if not self.live:
            if percent is not None:
                self._say(f"  progress {percent} %  {words}".rstrip())
            return
        if self.task is None:
            self.task = self.bar.add_task(words, total=100)
        self.bar.update(self.task, completed=percent or 0, description=words)

    def _say(self, text: str) -> None:
        if self.live:
            self.console.print(text, markup=False)
        else:
            screen.say(text)


def unseen(last: str, reached: str) -> list[str]:
    """What a job went through between two looks, in words; nobody knows how long that took."""
    order = list(PHASES)
    return [PHASES[phase] for phase in order[order.index(last) + 1 : order.index(reached)]] if last else []


def _never() -> bool:
    return False


async def follow(
    client: RemoteClient, key: Key, *, made: datetime | None = None, is_early: Callable[[], bool] = _never
) -> Job | None:
    """Show a job until it is over; the job as it was last seen, or None when it was deleted.

    While it is early, why the job waits is not worth telling.
    """
    follower = Follower(client, key, SystemClock())
    last: Job | None = None
    with Screen(made) as shown:
        async for happening in follower.happenings():
            if not (isinstance(happening, Waits) and is_early()):
                shown.show(happening)
            last = follower.job or last
    return last if follower.job is not None else None


async def verdict(client: RemoteClient, job: Job | None, key: Key) -> int:
    """Say how it ended; the exit code is the job's."""
    if job is None:
        screen.bad(f"{key.name} was deleted")
        return 1
    took = screen.duration(job.seconds(SystemClock().now()))
    if job.phase == "Complete":
        screen.good(f"{key.name} Complete in {took}")
        return 0
    screen.bad(f"{key.name} {job.phase} after {took}")
    failure = job.first_failure
    if failure is None:
        screen.say(f"  {job.reason}")
        return 1
    place = f"{failure.pod} on {failure.node}" if failure.node else failure.pod
    screen.say(f"  first failure   {rank_words(failure.rank)}  ({place})  exit {failure.code}")
    for line in await _last_words(client, key, failure):
        screen.say(f"    {line}")
    await _consequences(client, key, failure)
    screen.say(f"  full logs       aboard logs {key.name} --rank all")
    return 1


async def _consequences(client: RemoteClient, key: Key, failure: Failure) -> None:
    """Those whom the first failure pulled down: said, so that nobody looks for the cause there."""
    kept = await client.get(JOB_SET, key)
    others = {entry["pod"] for entry in remembered_failures(kept or {})} - {failure.pod}
    if others:
        screen.say(f"  followed by     {len(others)} more (consequence, not cause)")


async def _last_words(client: RemoteClient, key: Key, failure: Failure) -> list[str]:
    """The end of the log, or what was kept of it when the pod is gone."""
    lines = await last_lines(client, key.namespace, failure.pod, SHOWN_LINES)
    if lines or failure.words:
        return lines or failure.words.splitlines()[-SHOWN_LINES:]
    kept = (await read_job(client, key)).first_failure
    return kept.words.splitlines()[-SHOWN_LINES:] if kept else []
