"""From a script to a TrainJob document: the script travels inside the job, so the same job runs anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from allaboard.api import labels
from allaboard.api.documents import Document
from allaboard.api.kinds import TRAIN_JOB

# Written to a file inside the container first: torchrun wants a path, and tracebacks show the right lines.
LAUNCH = """umask 077; cat > "${{TMPDIR:-/tmp}}/{name}" <<'{end}'
{script}
{end}
exec {launcher} "${{TMPDIR:-/tmp}}/{name}" "$@\""""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants trained."""

    name: str
    script: str
    namespace: str = "default"
    file: str = "train.py"
    args: tuple[str, ...] = ()
    nodes: int = 1
    runtime: str = "torch-distributed"
    queue: str = ""
    resources: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


def launcher_of(script: str) -> str:
    """torchrun for scripts that use torch, plain python for the rest."""
    uses_torch = re.search(r"^\s*(import|from)\s+torch\b", script, re.MULTILINE)
    return "torchrun" if uses_torch else "python3"


def train_job(wish: Wish) -> Document:
    """The TrainJob that trains a script."""
    metadata: Document = {"name": wish.name, "namespace": wish.namespace}
    if wish.queue:
        metadata["labels"] = {labels.QUEUE: wish.queue}
    trainer: Document = {
        "numNodes": wish.nodes,
        "command": ["bash", "-c"],
        "args": [_launch(wish), "aboard", *wish.args],
    }
    if wish.env:
        trainer["env"] = [{"name": name, "value": value} for name, value in wish.env.items()]
    if wish.resources:
        trainer["resourcesPerNode"] = {"requests": dict(wish.resources), "limits": _limits(wish.resources)}
    spec = {"runtimeRef": {"name": wish.runtime}, "trainer": trainer}
    return {"apiVersion": TRAIN_JOB.api_version, "kind": TRAIN_JOB.kind, "metadata": metadata, "spec": spec}


def _launch(wish: Wish) -> str:
    end = "END_OF_SCRIPT"
    while end in wish.script:
        end += "_"
    return LAUNCH.format(name=wish.file, end=end, script=wish.script.rstrip("\n"), launcher=launcher_of(wish.script))


def _limits(resources: dict[str, str]) -> dict[str, str]:
    """Devices are only granted by limits; processors and memory may go beyond what was asked for."""
    return {name: amount for name, amount in resources.items() if name not in ("cpu", "memory")}
