"""`aboard run`: train a script, or the built-in `hello`, and follow it to the end."""

from __future__ import annotations

import asyncio
import signal
import time

import click

from allaboard.api.documents import Key
from allaboard.api.kinds import TRAIN_JOB
from allaboard.api.meta import key_of, name_of
from allaboard.cli import following, planes, screen, session, wishes
from allaboard.cli.apply import apply_one
from allaboard.cli.manifests import Manifest
from allaboard.cli.session import Session
from allaboard.kube.clock import SystemClock
from allaboard.sdk import asking
from allaboard.sdk.home import Home, Running
from allaboard.sdk.jobs import Job

INTERRUPTED = 130


@click.command(
    "run", help="Train FILE.py (or job.yaml, or the built-in `hello`) and follow it; the exit code is the job's."
)
@click.argument("what")
@wishes.asked
@click.option("--detach", is_flag=True, help="Do not follow: the job goes on by itself.")
@click.option("--delete-on-interrupt", is_flag=True, help="Ctrl-C deletes the job instead of leaving it.")
@click.pass_context
def command(ctx: click.Context, /, what: str, detach: bool, delete_on_interrupt: bool, **options: object) -> None:
    ours = _ensure_plane(ctx)
    goes_on = False
    try:
        code = session.run(
            ctx, lambda s: _run(s, wishes.manifest_of(what, s.namespace, options), ours, detach, delete_on_interrupt)
        )
        goes_on = detach or (code == INTERRUPTED and not delete_on_interrupt)
    finally:
        if ours is not None and goes_on:
            screen.say("  the plane stays for it; `aboard down` stops both")
        elif ours is not None:
            _put_away(ours)
    ctx.exit(code)


def _ensure_plane(ctx: click.Context) -> Running | None:
    """The plane that runs, or a new one for this job alone (returned, to be put away)."""
    home = Home.default()
    if ctx.find_root().obj["kubeconfig"] or home.running() is not None:
        return None
    began = time.monotonic()
    running = planes.start(home, ["--port=0"])
    screen.good(f"plane started on {running.server} in {screen.duration(time.monotonic() - began)}")
    return running


def _put_away(running: Running) -> None:
    began = time.monotonic()
    planes.stop(running)
    screen.good(f"plane stopped in {screen.duration(time.monotonic() - began)}; `aboard up` keeps one running")


async def _run(
    open_session: Session, manifest: Manifest, ours: Running | None, detach: bool, delete_on_interrupt: bool
) -> int:
    await apply_one(open_session, manifest)
    open_session.tell_warnings()
    key = Key(open_session.namespace, name_of(manifest.document))
    if key_of(manifest.document).namespace:
        key = key_of(manifest.document)
    nodes = manifest.document["spec"].get("trainer", {}).get("numNodes", 1)
    runtime = manifest.document["spec"]["runtimeRef"]["name"]
    screen.good(f"TrainJob {key.name} created · runtime {runtime} · {nodes} node{'s' if nodes != 1 else ''}")
    if detach:
        screen.say(f"  follow it with: aboard logs {key.name} -f")
        return 0
    return await _followed(open_session, key, ours, delete_on_interrupt)


async def _followed(open_session: Session, key: Key, ours: Running | None, delete_on_interrupt: bool) -> int:
    """Follow to the end; Ctrl-C leaves the job, or deletes it when asked."""
    task = asyncio.ensure_future(_shown(open_session, key, ours))
    interrupted = asyncio.Event()

    def interrupt() -> None:
        interrupted.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    try:
        job = await task
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
    finally:  # a second Ctrl-C stops even the waiting for a deletion
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    if task.cancelled():
        await _left(open_session, key, delete_on_interrupt)
        return INTERRUPTED
    return await following.verdict(open_session.client, job, key)


async def _shown(open_session: Session, key: Key, ours: Running | None) -> Job | None:
    """A plane of our own makes the pods while its nodes start: nobody needs to hear that nodes are missing."""
    made = SystemClock().now()
    if ours is None:
        return await following.follow(open_session.client, key, made=made)
    starting = asyncio.ensure_future(planes.nodes_are_ready(Home.default(), ours))
    try:
        return await following.follow(open_session.client, key, made=made, is_early=lambda: not starting.done())
    finally:
        starting.cancel()


async def _left(open_session: Session, key: Key, delete_on_interrupt: bool) -> None:
    if not delete_on_interrupt:
        remedy = f"`aboard logs {key.name} -f` or `aboard delete tj {key.name}`"
        screen.say(f"\ndetached from {key.name}: it goes on; {remedy}")
        return
    screen.say(f"\ndeleting {key.name}")
    await asking.ended(open_session.client, TRAIN_JOB, key)
    screen.bad(f"{key.name} deleted")
