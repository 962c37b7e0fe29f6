"""The durable journal: what was acknowledged stays, whatever happens to the process or the disk."""

import asyncio
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap

import pytest

from allaboard.api.documents import Key
from allaboard.api.errors import NoSpace
from allaboard.cluster.memory import Store
from allaboard.cluster.sqlite import BLOCK, VERSION, Sqlite, StoreUnusable


def document(name: str, text: str = "x") -> dict:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def test_the_file_is_for_its_owner_alone(tmp_path):
    Sqlite(tmp_path / "plane.db").close()
    assert stat.S_IMODE(os.stat(tmp_path / "plane.db").st_mode) == 0o600


def test_a_second_plane_on_one_file_is_refused(tmp_path):
    first = Sqlite(tmp_path / "plane.db")
    with pytest.raises(StoreUnusable, match="in use by another plane"):
        Sqlite(tmp_path / "plane.db")
    first.close()
    Sqlite(tmp_path / "plane.db").close()


def test_a_newer_file_is_refused_with_both_versions(tmp_path):
    Sqlite(tmp_path / "plane.db").close()
    database = sqlite3.connect(tmp_path / "plane.db")
    database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    with pytest.raises(StoreUnusable, match=f"has version {VERSION + 1}; this program reads up to {VERSION}"):
        Sqlite(tmp_path / "plane.db")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "plane.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        Sqlite(tmp_path / "plane.db")


def test_many_writers_share_a_commit_and_all_are_answered(tmp_path):
    async def story():
        store = Store(Sqlite(tmp_path / "plane.db"))
        answers = [store.commit(store.put("configmaps", document(f"n{i}"), None)) for i in range(2000)]
        await asyncio.gather(*answers)
        assert store.table("configmaps").count() == 2000
        assert store.committed == store.revision
        store.journal.close()

    asyncio.run(story())


def test_events_live_in_memory_only(tmp_path):
    async def write():
        store = Store(Sqlite(tmp_path / "plane.db"))
        await store.commit(store.put("events", document("e"), None), store.put("configmaps", document("c"), None))
        assert store.table("events").count() == 1
        store.journal.close()

    async def read():
        store = Store(Sqlite(tmp_path / "plane.db"))
        assert [store.table(name).count() for name in ("events", "configmaps")] == [0, 1]
        store.journal.close()

    asyncio.run(write())
    asyncio.run(read())


def test_a_revision_is_never_handed_out_twice_even_for_what_is_not_stored(tmp_path):
    async def story(first: int) -> int:
        store = Store(Sqlite(tmp_path / "plane.db"))
        assert store.revision >= first
        for _ in range(3):
            await store.commit(store.put("events", document(f"e{store.revision}"), None))
        store.journal._thread.join(0)  # the process ends without a word: nothing is closed
        return store.revision

    revision = asyncio.run(story(0))
    database = sqlite3.connect(tmp_path / "plane.db")
    (ceiling,) = database.execute("SELECT v FROM meta WHERE k = 'ceiling'").fetchone()
    assert revision < ceiling <= revision + BLOCK


FAULTS = {
    "a full disk": ("PRAGMA max_page_count = 1", "database or disk is full"),
    "a read-only database": ("PRAGMA query_only = ON", "attempt to write a readonly database"),
}


@pytest.mark.parametrize(("pragma", "words"), FAULTS.values(), ids=FAULTS)
def test_writes_are_refused_and_reads_go_on(tmp_path, pragma, words):
    async def story():
        store = Store(Sqlite(tmp_path / "plane.db"))
        table = store.table("configmaps")
        await store.commit(store.put("configmaps", document("before"), None))
        store.journal._database.execute(pragma)
        changes = [store.put("configmaps", document(f"big{i}", "y" * 100_000), None) for i in range(8)]
        answers = await asyncio.gather(*(store.commit(c) for c in changes), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, NoSpace)]
        assert refused, "a disk without room must be noticed"
        assert words in str(refused[0]) and refused[0].code == 507
        assert table.get(Key("default", "before")) is not None
        assert not table.head, "nothing that was refused may be built on"
        for undo in ("PRAGMA query_only = OFF", "PRAGMA max_page_count = 1073741823"):
            store.journal._database.execute(undo)
        await store.commit(store.put("configmaps", document("after"), None))
        names = {item.key.name for item in table.items()}
        store.journal.close()
        return names

    names = asyncio.run(story())

    async def again():
        store = Store(Sqlite(tmp_path / "plane.db"))
        assert {item.key.name for item in store.table("configmaps").items()} == names
        store.journal.close()

    asyncio.run(again())


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


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_no_acknowledged_write(tmp_path):
    """Fifty times: everything a writer was told is stored is there afterwards, and no revision comes twice."""
    path, chance = tmp_path / "plane.db", random.Random(7)
    acknowledged: dict[str, tuple[int, str]] = {}
    highest = 0
    for _ in range(50):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        first = writer.stdout.readline().split()
        assert int(first[1]) >= highest, "a revision was reused"
        for _ in range(chance.randrange(1, 400)):
            _note(acknowledged, writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout.read().splitlines():
            _note(acknowledged, line)
        writer.wait()
        highest = max(revision for revision, _ in acknowledged.values())
        _check(path, acknowledged)


def _note(acknowledged: dict[str, tuple[int, str]], line: str) -> None:
    parts = line.split()
    if len(parts) == 3:
        revision, name, uid = int(parts[0]), parts[1], parts[2]
        acknowledged[name] = max(acknowledged.get(name, (0, "")), (revision, uid))


def _check(path, acknowledged: dict[str, tuple[int, str]]) -> None:
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    held = {key.rpartition("/")[2]: revision for key, revision in database.execute("SELECT key, rv FROM obj")}
    database.close()
    for name, (revision, uid) in acknowledged.items():
        if uid == "-":  # removed; a later write that was not acknowledged may have brought it back
            assert held.get(name, revision + 1) > revision
        else:  # there, or replaced (or, past the first twenty, removed) by a later write that was not acknowledged
            assert held.get(name, 0 if int(name[1:]) < 20 else revision) >= revision
