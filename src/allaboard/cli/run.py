"""`aboard run`: train a script, or the built-in `hello`, and follow it to the end."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from importlib import resources
from pathlib import Path

import click

from allaboard.api.documents import Key
from allaboard.api.kinds import TRAIN_JOB
from allaboard.api.meta import key_of, name_of
from allaboard.cli import following, manifests, planes, screen, session
from allaboard.cli.apply import apply_one
from allaboard.cli.manifests import BadFile, Manifest
from allaboard.cli.session import Session
from allaboard.sdk.building import Wish, train_job
from allaboard.sdk.home import Home, Running

INTERRUPTED = 130
HELLO_RESOURCES = {"cpu": "250m", "memory": "128Mi"}


@click.command(
    "run", help="Train FILE.py (or job.yaml, or the built-in `hello`) and follow it; the exit code is the job's."
)
@click.argument("what")
@click.argument("args", nargs=-1)
@click.option("--name", default="", help="What to call the job (default: from the file).")
@click.option("--nodes", type=click.IntRange(1), default=None, help="How many pods train together.")
@click.option("--gpus", type=click.IntRange(0), default=0, help="GPUs per node.")
@click.option("--cpus", default="", help="Processors per node, such as 2 or 500m.")
@click.option("--memory", default="", help="Memory per node, such as 4Gi.")
@click.option("--runtime", default="torch-distributed", show_default=True)
@click.option("--queue", default="")
@click.option("--detach", is_flag=True, help="Do not follow: the job goes on by itself.")
@click.option("--delete-on-interrupt", is_flag=True, help="Ctrl-C deletes the job instead of leaving it.")
@click.pass_context
def command(ctx: click.Context, /, what: str, detach: bool, delete_on_interrupt: bool, **options: object) -> None:
    ours = _ensure_plane(ctx)
    goes_on = False
    try:
        code = session.run(ctx, lambda s: _run(s, _manifest(what, s.namespace, options), detach, delete_on_interrupt))
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


def _manifest(what: str, namespace: str, options: dict[str, object]) -> Manifest:
    """The job to submit: a manifest as it is, a script wrapped, or hello."""
    if what.endswith(manifests.SUFFIXES):
        found = manifests.load(what)
        if len(found) != 1 or found[0].document.get("kind") != TRAIN_JOB.kind:
            raise BadFile(f"{what}: run takes exactly one TrainJob; `aboard apply -f {what}` takes anything")
        return found[0]
    wish = _wish(what, namespace, options)
    return Manifest(train_job(wish), what, {})


def _wish(what: str, namespace: str, options: dict[str, object]) -> Wish:
    asked = {"nvidia.com/gpu": options["gpus"], "cpu": options["cpus"], "memory": options["memory"]}
    resources_ = {name: str(amount) for name, amount in asked.items() if amount}
    if what == "hello":
        script = resources.files("allaboard.cli").joinpath("hello_job.py").read_text()
        stem, file, nodes, resources_ = "hello", "hello.py", 2, HELLO_RESOURCES | resources_
    else:
        script, file, nodes = _script(what), Path(what).name, 1
        stem = "".join(c if c.isalnum() else "-" for c in Path(what).stem.lower()).strip("-")[:40] or "job"
    args = options["args"]
    return Wish(
        name=str(options["name"] or f"{stem}-{secrets.token_hex(2)}"),
        script=script,
        namespace=namespace,
        file=file,
        args=tuple(map(str, args)) if isinstance(args, tuple) else (),
        nodes=int(str(options["nodes"] or nodes)),
        runtime=str(options["runtime"]),
        queue=str(options["queue"]),
        resources=resources_,
    )


def _script(what: str) -> str:
    try:
        return Path(what).read_text()
    except FileNotFoundError as error:
        raise BadFile(f"{what}: no such file; run takes a .py script, a .yaml TrainJob, or `hello`") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{what}: cannot be read as a script: {error}") from error


async def _run(open_session: Session, manifest: Manifest, detach: bool, delete_on_interrupt: bool) -> int:
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
    return await _followed(open_session, key, delete_on_interrupt)


async def _followed(open_session: Session, key: Key, delete_on_interrupt: bool) -> int:
    """Follow to the end; Ctrl-C leaves the job, or deletes it when asked."""
    task = asyncio.ensure_future(following.follow(open_session.client, key))
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
        if delete_on_interrupt:
            await open_session.client.delete(TRAIN_JOB, key, propagation="Foreground")
            screen.bad(f"{key.name} deleted")
        else:
            screen.say(
                f"\ndetached from {key.name}: it goes on; `aboard logs {key.name} -f` or `aboard delete tj {key.name}`"
            )
        return INTERRUPTED
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    return await following.verdict(open_session.client, job, key)
