"""What people ask to be trained: a script, a manifest or `hello`, with the options that say how."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TypeVar

import click

from allaboard.api.kinds import TRAIN_JOB
from allaboard.cli import manifests
from allaboard.cli.manifests import BadFile, Manifest
from allaboard.sdk.building import Wish, train_job

HELLO_RESOURCES = {"cpu": "250m", "memory": "128Mi"}
Decorated = TypeVar("Decorated", bound=Callable[..., object])
OPTIONS = (
    click.argument("args", nargs=-1),
    click.option("--name", default="", help="What to call the job (default: from the file)."),
    click.option("--nodes", type=click.IntRange(1), default=None, help="How many pods train together."),
    click.option("--gpus", type=click.IntRange(0), default=0, help="GPUs per node."),
    click.option("--cpus", default="", help="Processors per node, such as 2 or 500m."),
    click.option("--memory", default="", help="Memory per node, such as 4Gi."),
    click.option("--runtime", default="torch-distributed", show_default=True),
    click.option("--queue", default=""),
)


def asked(command: Decorated) -> Decorated:
    """The options of every command that takes a script."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def manifest_of(what: str, namespace: str, options: dict[str, object]) -> Manifest:
    """The job to submit: a manifest as it is, a script wrapped, or hello."""
    if what.endswith(manifests.SUFFIXES):
        return job_in(what)
    wish = _wish(what, namespace, options)
    return Manifest(train_job(wish), what, {})


def job_in(path: str) -> Manifest:
    """The one TrainJob of a file."""
    found = manifests.load(path)
    if len(found) != 1 or found[0].document.get("kind") != TRAIN_JOB.kind:
        raise BadFile(f"{path}: must hold exactly one TrainJob; `aboard apply -f {path}` takes anything")
    return found[0]


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
