"""The durable journal: what was acknowledged stays, whatever happens to the process or the disk."""

import asyncio
import os
import sqlite3
import stat
import subprocess

import pytest

from allaboard.api.documents import Key
from allaboard.api.errors import Gone, NoSpace
from allaboard.cluster.memory import Store
from allaboard.cluster.sqlite import BLOCK, VERSION, Sqlite, StoreUnusable
from tests.cluster.chaos import kill


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


def test_what_was_submitted_in_the_last_turn_is_on_disk_after_closing(tmp_path):
    async def story():
        store = Store(Sqlite(tmp_path / "plane.db"))
        for number in range(150):  # more than one statement takes
            store.commit(store.put("configmaps", document(f"n{number}"), None))
        store.journal.close()

    asyncio.run(story())
    store = Store(Sqlite(tmp_path / "plane.db"))
    assert store.table("configmaps").count() == 150
    store.journal.close()


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


def test_kill_9_at_random_moments_loses_no_acknowledged_write(tmp_path):
    """Fifty times; `make chaos` does it a thousand times."""
    assert kill(tmp_path / "plane.db", kills=50, seed=7) > 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte, as whoever may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"may not mount a tmpfs: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_disk_that_is_really_full_refuses_writes_and_goes_on_when_there_is_room(small_disk):
    async def story():
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * 300_000)
        store = Store(Sqlite(small_disk / "plane.db"))
        table, refused, stored = store.table("configmaps"), [], []
        for index in range(40):
            try:
                await store.commit(store.put("configmaps", document(f"n{index}", "y" * 50_000), None))
                stored.append(f"n{index}")
            except NoSpace as fault:
                refused.append(fault)
        assert stored and refused and refused[0].code == 507
        assert {item.key.name for item in table.items()} == set(stored)
        ballast.unlink()
        await store.commit(store.put("configmaps", document("after", "z" * 1000), None))
        store.journal.close()
        return [*stored, "after"]

    names = asyncio.run(story())
    (health,) = sqlite3.connect(small_disk / "plane.db").execute("PRAGMA integrity_check").fetchone()
    held = {
        key.rpartition("/")[2] for (key,) in sqlite3.connect(small_disk / "plane.db").execute("SELECT key FROM obj")
    }
    assert (health, held) == ("ok", set(names))


def test_after_a_restart_a_watch_from_before_is_told_to_list_again(tmp_path):
    async def story(old):
        store = Store(Sqlite(tmp_path / "plane.db"))
        table = store.table("configmaps")
        if old is not None:
            with pytest.raises(Gone):
                table.ring.position(old)
            assert table.ring.position(store.committed) == table.ring.end
        await store.commit(store.put("configmaps", document(f"after{old}"), None))
        store.journal.close()
        return store.committed

    first = asyncio.run(story(None))
    assert asyncio.run(story(first)) > first
