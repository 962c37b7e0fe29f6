"""Draw docs/hello.svg from a real run: `python tools/picture.py`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).parent.parent / "docs" / "hello.svg"
RANKS = {"r0": "cyan", "r1": "magenta"}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="aboard-") as home:
        environment = {**os.environ, "ABOARD_HOME": home, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "allaboard", "run", "hello"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(done.stdout)
    console = Console(record=True, width=92, file=io.StringIO())
    console.print(Text("$ make run", style="bold"))
    for line in done.stdout.splitlines():
        console.print(coloured(line))
    TARGET.write_text(console.export_svg(title="All Aboard"))


def coloured(line: str) -> Text:
    """As a terminal shows it: marks green, ranks in their colours."""
    text = Text(line)
    if line.startswith("✓"):
        text.stylize("green", 0, 1)
    for rank, colour in RANKS.items():
        if line.startswith(f"{rank} "):
            text.stylize(colour, 0, 4)
    return text


if __name__ == "__main__":
    main()
