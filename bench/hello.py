"""What a newcomer feels: how long a plane takes to start, the whole of `aboard run hello`, and our part of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from allaboard.node import records
from bench.rows import Row


def measure() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "ABOARD_HOME": home}
        start = _aboard(environment, "up", "--port=0")
        try:
            running = _aboard(environment, "run", "hello")
            overhead = running - _own_time(Path(home))
        finally:
            _aboard(environment, "down")
        whole = _aboard(environment, "run", "hello")
    return [
        Row("`aboard up`", start, "s"),
        Row("`aboard run hello`, plane included", whole, "s", 15),
        Row("`aboard run hello`: wall minus the two processes' own time", overhead, "s", 1.5),
    ]


def _own_time(home: Path) -> float:
    """From the first process's start to the last one's end, as their inits wrote it down."""
    found = [records.read(path) for path in home.glob("node/pods/*/*/record")]
    return max(_at(record, "exit") for record in found) - min(_at(record, "started") for record in found)


def _at(record: records.Record, word: str) -> float:
    return float((record.get(word) or {})["at"])


def _aboard(environment: dict[str, str], *words: str) -> float:
    """Run a command; how long it took."""
    command, began = [sys.executable, "-m", "allaboard", *words], time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began
