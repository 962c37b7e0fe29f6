"""Using All Aboard as a person does: the command, its exit code, what it said."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 300  # seconds until waiting counts as failure, however busy the machine
# A program that trains until it is told to end: `Person.release` tells it.
WAITS = """
import os, time
print("up", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.05)
"""


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

    def release(self, job: str, *ranks: int) -> None:
        """Let ranks of a job that `WAITS` end, as soon as their node can be reached."""
        for rank in ranks:
            self.until(lambda said: said.code == 0, "exec", job, f"--rank={rank}", "--", "touch", "/tmp/go")

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
