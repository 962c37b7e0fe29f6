"""Using All Aboard as a person does: the command, its exit code, what it said."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE

# Trains until a file says that it shall end; MARK makes it one plane's own, because plain processes share /tmp.
WAITS = """
import os, time
print("up", flush=True)
go = "/tmp/MARK-" + os.environ["HOSTNAME"]
while not os.path.exists(go):
    time.sleep(0.05)
os.unlink(go)
"""


def free_port() -> int:
    """A port nobody has, not of those that kernels give to whoever connects: they take one again before it is used."""
    while True:
        port = random.randrange(12_000, 20_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def talking(command: list[str], **more):
    """A program that is listened to while it runs; whatever happens, it ends."""
    with subprocess.Popen(command, text=True, **more) as process:
        limit = threading.Timer(PATIENCE, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


class Person:
    """Somebody with a home of their own."""

    launcher = (sys.executable, "-m", "allaboard")

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {**os.environ, "ABOARD_HOME": str(home), "COLUMNS": "200"}
        self.environment.pop("KUBECONFIG", None)

    def aboard(self, *words: str, text: str | None = None, patience: float = PATIENCE) -> Said:
        command = [*self.launcher, *words]
        done = subprocess.run(
            command, env=self.environment, input=text, capture_output=True, text=True, timeout=patience
        )
        return Said(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def running(self, *words: str):
        """A command that talks while it runs."""
        outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with talking([*self.launcher, *words], env=self.environment, **outputs) as process:
            yield process

    def until(self, test, *words: str) -> Said:
        """Say a command again and again until its answer passes the test."""
        deadline = time.monotonic() + PATIENCE
        while not test(said := self.aboard(*words)):
            assert time.monotonic() < deadline, said
        return said

    @property
    def waits(self) -> str:
        """A program that trains until it is released."""
        return WAITS.replace("MARK", self.home.name)

    def release(self, job: str, *ranks: int) -> None:
        """Let ranks of a job that `waits` end, as soon as their node can be reached.

        A rank may end, and its container with it, before the command that told it to has come back.
        """
        go = f"touch /tmp/{self.home.name}-$HOSTNAME"
        for rank in ranks:
            is_told = lambda said, rank=rank: said.code == 0 or self.has_ended(f"{job}-node-0-{rank}-")
            self.until(is_told, "exec", job, f"--rank={rank}", "--", "sh", "-c", go)

    def has_ended(self, pod: str) -> bool:
        """Whether the pod whose name begins so came to a good end."""
        said = self.aboard("get", "pods", "-o", "json")
        pods = json.loads(said.out)["items"] if said.code == 0 else []
        return any(
            each["metadata"]["name"].startswith(pod) and each["status"].get("phase") == "Succeeded" for each in pods
        )

    def processes(self) -> list[str]:
        """Command lines of everything that still runs for this home."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if str(self.home) in line:
                    found.append(line)
        return found
