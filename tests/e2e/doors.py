"""Using All Aboard as a person does: the command, its exit code, what it said."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


class Person:
    """Somebody with a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {**os.environ, "ABOARD_HOME": str(home), "COLUMNS": "200"}
        self.environment.pop("KUBECONFIG", None)

    def aboard(self, *words: str, text: str | None = None, patience: float = 90) -> Said:
        command = [sys.executable, "-m", "allaboard", *words]
        done = subprocess.run(
            command, env=self.environment, input=text, capture_output=True, text=True, timeout=patience
        )
        return Said(done.returncode, done.stdout, done.stderr)

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
