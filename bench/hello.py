"""What a newcomer feels: how long a plane takes to start, and the whole of `aboard run hello`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

from bench.rows import Row


def measure() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "ABOARD_HOME": home}
        began = time.perf_counter()
        _aboard(environment, "up", "--port=0")
        start = time.perf_counter() - began
        _aboard(environment, "down")
        began = time.perf_counter()
        _aboard(environment, "run", "hello")
        hello = time.perf_counter() - began
    return [Row("`aboard up`", start, "s"), Row("`aboard run hello`, plane included", hello, "s", 15)]


def _aboard(environment: dict[str, str], *words: str) -> None:
    command = [sys.executable, "-m", "allaboard", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
