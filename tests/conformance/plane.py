"""A plane to run recordings against: `aboard serve` in a process of its own, switched as a profile asks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.patience import PATIENCE

TOKENS = 'admin-token,admin,admin,"system:masters"\nuser-token,alice,alice,"developers"\n'


@dataclass(frozen=True)
class Plane:
    """Where it is and how to be let in."""

    server: str
    token: str
    kubeconfig: Path


@contextlib.contextmanager
def plane(options: Sequence[str]) -> Iterator[Plane]:
    """Start a plane on a free port with a home of its own; stopped and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="aboard-conformance-") as folder:
        home = Path(folder)
        tokens = home / "tokens.csv"
        tokens.write_text(TOKENS)
        command = [sys.executable, "-m", "allaboard", "serve", f"--home={home}", "--port=0", "--nodes=0"]
        command += [f"--tokens={tokens}", "--durability=memory", *options]
        with (home / "serve.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        try:
            _wait(process, home)
            server = json.loads((home / "plane.json").read_text())["server"]
            yield Plane(server, "admin-token", _admin(home))
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (home / "plane.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the plane did not start:\n{(home / 'serve.log').read_text()[-4000:]}")
        time.sleep(0.05)


def _admin(home: Path) -> Path:
    """The kubeconfig with the recordings' administrator in it."""
    config = yaml.safe_load((home / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": "admin-token"}
    path = home / "admin.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
