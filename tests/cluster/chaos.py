"""A writer killed with -9 at random moments, again and again: `python -m tests.cluster.chaos 1000`.

Everything it was told is stored is there afterwards, no revision comes twice, and the file stays whole. A seed process
imports once and forks each writer, so that several can be killed every second.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HANGS = 600  # seconds for one writer, however slow the disk

# For each path on its input: a fork that writes there until the next line says that it shall be killed.
SEED = textwrap.dedent("""
    import asyncio, os, signal, sys
    from pathlib import Path
    from allaboard.api.documents import Key
    from allaboard.cluster.memory import Store
    from allaboard.cluster.sqlite import Sqlite

    def say(*words):
        os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one piece: the next moment may be the last

    async def write(store, who):
        table = store.table("configmaps")
        for turn in range(10**9):
            key = Key("default", f"n{(who * 7 + turn) % 40}")
            before = table.latest(key)
            if before is not None and turn % 5 == 4 and int(key.name[1:]) >= 20:  # the first twenty are never removed
                change = store.remove("configmaps", before)
            else:
                metadata = {"name": key.name, "namespace": "default", "uid": f"{who}-{turn}"}
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"t": "z" * 2000}}
                change = store.put("configmaps", body, before)
            await store.commit(change)
            say(change.item.revision, key.name, "-" if change.type == "DELETED" else change.item.uid)

    async def main(path):
        store = Store(Sqlite(Path(path)))
        say("from", store.revision)
        await asyncio.gather(*(write(store, who) for who in range(8)))

    while path := sys.stdin.readline().strip():
        pid = os.fork()
        if not pid:
            asyncio.run(main(path))
        sys.stdin.readline()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        say("over")
""")


def kill(path: Path, *, kills: int, seed: int) -> int:
    """Start a writer, kill it, look; how many writes were acknowledged in all."""
    chance, acknowledged = random.Random(seed), dict[str, tuple[int, str]]()
    highest = count = 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SEED], text=True, **pipes) as seeds:
        for _ in range(kills):
            with _watched(seeds):
                start, lines = _round(seeds, path, chance.randrange(1, 400))
            assert start >= highest, "a revision was reused"
            for line in lines:
                _note(acknowledged, line)
            count += len(lines)
            highest = max(revision for revision, _ in acknowledged.values())
            _check(path, acknowledged)
        assert seeds.stdin is not None
        seeds.stdin.close()
    return count


@contextlib.contextmanager
def _watched(seeds: subprocess.Popen[str]) -> Iterator[None]:
    """A writer that hangs ends the run instead of holding it up."""
    watchdog = threading.Timer(HANGS, seeds.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def _round(seeds: subprocess.Popen[str], path: Path, patience: int) -> tuple[int, list[str]]:
    """One writer from its birth to its end: the revision it began with, and every write it was told is stored."""
    assert seeds.stdout is not None
    _tell(seeds, str(path))
    start, lines = 0, list[str]()
    for line in seeds.stdout:
        if line == "over\n":
            return start, lines
        if line.startswith("from "):
            start = int(line.split()[1])
            continue
        lines.append(line)
        if len(lines) == patience:
            _tell(seeds, "kill")
    raise AssertionError(f"the writers' parent is gone, with code {seeds.wait()}")


def _tell(seeds: subprocess.Popen[str], line: str) -> None:
    assert seeds.stdin is not None
    seeds.stdin.write(f"{line}\n")
    seeds.stdin.flush()


def _note(acknowledged: dict[str, tuple[int, str]], line: str) -> None:
    parts = line.split()
    if len(parts) == 3:
        revision, name, uid = int(parts[0]), parts[1], parts[2]
        acknowledged[name] = max(acknowledged.get(name, (0, "")), (revision, uid))


def _check(path: Path, acknowledged: dict[str, tuple[int, str]]) -> None:
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    held = {key.rpartition("/")[2]: revision for key, revision in database.execute("SELECT key, rv FROM obj")}
    database.close()
    for name, (revision, uid) in acknowledged.items():
        if uid == "-":  # removed; a later write that was not acknowledged may have brought it back
            assert held.get(name, revision + 1) > revision
        else:  # there, or replaced (or, past the first twenty, removed) by a later write that was not acknowledged
            assert held.get(name, 0 if int(name[1:]) < 20 else revision) >= revision


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        writes = kill(Path(folder) / "plane.db", kills=kills, seed=int(began))
    print(f"{kills} kills in {time.monotonic() - began:.0f} s: none of {writes} acknowledged writes was lost")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
