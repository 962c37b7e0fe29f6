"""A writer killed with -9 at random moments, again and again: `python -m tests.cluster.chaos 1000`.

Everything it was told is stored is there afterwards, no revision comes twice, and the file stays whole.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

WRITER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from allaboard.api.documents import Key
    from allaboard.cluster.memory import Store
    from allaboard.cluster.sqlite import Sqlite

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
            print(change.revision, key.name, "-" if change.type == "DELETED" else change.item.uid, flush=True)

    async def main():
        store = Store(Sqlite(Path(sys.argv[1])))
        print("from", store.revision, flush=True)
        await asyncio.gather(*(write(store, who) for who in range(8)))

    asyncio.run(main())
""")


def kill(path: Path, *, kills: int, seed: int) -> int:
    """Start a writer, kill it, look; how many writes were acknowledged in all."""
    chance, acknowledged = random.Random(seed), dict[str, tuple[int, str]]()
    highest = count = 0
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline().split()
            assert int(first[1]) >= highest, "a revision was reused"
            lines = [writer.stdout.readline() for _ in range(chance.randrange(1, 400))]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().splitlines()
        for line in lines:
            _note(acknowledged, line)
        count += len(lines)
        highest = max(revision for revision, _ in acknowledged.values())
        _check(path, acknowledged)
    return count


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
