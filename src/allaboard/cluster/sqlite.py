"""The durable journal: one SQLite file of current state, one commit thread, many transactions in one commit."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from allaboard.api.documents import Key
from allaboard.api.errors import AboardError, NoSpace
from allaboard.cluster.store import Happening, Row, Transaction

VERSION = 1  # of the tables below; MIGRATIONS[n] brings a file from version n to n + 1
MIGRATIONS: dict[int, Sequence[str]] = {
    0: (
        "CREATE TABLE obj (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, rv INTEGER NOT NULL, val BLOB NOT NULL)",
        "CREATE TABLE meta (k TEXT PRIMARY KEY, v INTEGER NOT NULL)",
        "INSERT INTO meta VALUES ('ceiling', 0)",
    ),
}
GROUP = 512  # transactions in one commit
# Revisions are reserved in blocks, so that a restart goes on above every number ever handed out, also those of
# objects that are not stored (events).
BLOCK = 100_000
PATIENCE = 5.0  # seconds the commit thread waits for a loop that may be ending
CHECKPOINT = 2_000  # rows written between checkpoints
VOLATILE = frozenset({"events"})  # tables that live in memory only
SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

PUT = """INSERT INTO obj (key, rv, val) VALUES {}
         ON CONFLICT (key) DO UPDATE SET rv = excluded.rv, val = excluded.val"""
DROP = "DELETE FROM obj WHERE key IN ({})"
# Rows go in as few statements as possible: each one gives the interpreter's lock away and has to win it back from a
# loop that is busy, and both wait for a wake-up. What does not fill a statement of these sizes repeats its last row.
AT_ONCE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
RAISE = "UPDATE meta SET v = ? WHERE k = 'ceiling'"


class StoreUnusable(AboardError):
    """The database cannot be opened: another plane holds it, a newer version wrote it, or it is no database."""


class _Pending(msgspec.Struct, frozen=True):
    transaction: Transaction
    answer: asyncio.Future[None]


class Sqlite:
    """A journal in one file. `durability` is `full` (every commit on disk) or `normal` (safe against a crash)."""

    def __init__(self, path: Path, durability: str = "full") -> None:
        self.path = path
        self._lock = _take(path)
        self._database = _connect(path, SYNCHRONOUS[durability])
        self._ceiling = 0
        self._unchecked = 0  # rows written since the last checkpoint
        self._gathered: list[_Pending] = []  # what this turn of the loop submitted so far
        self._queue: queue.SimpleQueue[list[_Pending] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._publish: Callable[[Transaction], None] = lambda transaction: None
        self._undo: Callable[[], None] = lambda: None

    def load(self) -> tuple[int, Iterable[Row]]:
        (self._ceiling,) = self._database.execute("SELECT v FROM meta WHERE k = 'ceiling'").fetchone()
        rows = self._database.execute("SELECT key, rv, val FROM obj")
        return self._ceiling, [_row(key, revision, data) for key, revision, data in rows]

    def open(self, publish: Callable[[Transaction], None], undo: Callable[[], None]) -> None:
        self._publish, self._undo = publish, undo
        self._thread.start()

    def submit(self, transaction: Transaction) -> Awaitable[None]:
        """The transactions of one turn of the loop are handed over at its end, at once: waking a thread is dear."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._hand_over)
        self._gathered.append(_Pending(transaction, answer))
        return answer

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    def close(self) -> None:
        """Everything submitted is committed first."""
        self._hand_over()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._database.close()
        os.close(self._lock)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            group: list[_Pending] = []
            entries = self._queue.get()
            while entries is not None:
                group += entries
                if len(group) >= GROUP or self._queue.empty():
                    break
                entries = self._queue.get()
            stopping = entries is None
            if group:
                self._commit(group)
        with contextlib.suppress(sqlite3.Error):  # a full disk must not keep the plane from stopping
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _commit(self, group: list[_Pending]) -> None:
        loop = group[0].answer.get_loop()
        try:
            self._write([change for pending in group for change in pending.transaction])
        except sqlite3.Error as fault:
            settled = threading.Event()
            if _told(loop, self._lost, group, str(fault), settled):
                settled.wait(timeout=PATIENCE)
            return
        _told(loop, self._answer, group)
        if self._unchecked >= CHECKPOINT:
            self._unchecked = 0
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _write(self, changes: Sequence[Happening]) -> None:
        last = {_text(c.table, c.item.key): c for c in changes if c.table not in VOLATILE}
        drops: list[Sequence[object]] = [(text,) for text, c in last.items() if c.type == "DELETED"]
        puts: list[Sequence[object]] = [
            (text, c.item.revision, c.item.data) for text, c in last.items() if c.type != "DELETED"
        ]
        newest = changes[-1].item.revision if changes else 0
        full = bool(changes) and newest > self._ceiling - BLOCK // 2
        if not (drops or puts or full):
            return
        with self._database:  # one transaction, rolled back on an error
            self._database.execute("BEGIN IMMEDIATE")
            if full:
                self._database.execute(RAISE, (newest + BLOCK,))
            for statement, parameters in (*_statements(DROP, "?", drops), *_statements(PUT, "(?, ?, ?)", puts)):
                self._database.execute(statement, parameters)
        self._ceiling = newest + BLOCK if full else self._ceiling
        self._unchecked += len(puts) + len(drops)

    def _answer(self, group: Sequence[_Pending]) -> None:
        for pending in group:
            self._publish(pending.transaction)
        for pending in group:
            if not pending.answer.done():  # whoever asked may have gone away
                pending.answer.set_result(None)

    def _lost(self, group: list[_Pending], fault: str, settled: threading.Event) -> None:
        """Refuse the group and all that was queued since: writers built it on what is now lost."""
        self._hand_over()
        while not self._queue.empty():
            if (entries := self._queue.get()) is not None:
                group += entries
        self._undo()
        for pending in group:
            if not pending.answer.done():
                pending.answer.set_exception(NoSpace(_sentence(self.path, fault)))
        settled.set()


def _told(loop: asyncio.AbstractEventLoop, tell: Callable[..., None], *facts: object) -> bool:
    """Whether the loop could be told; a loop that has ended waits for no answer."""
    try:
        loop.call_soon_threadsafe(tell, *facts)
    except RuntimeError:
        return False
    return True


def _statements(form: str, row: str, rows: list[Sequence[object]]) -> Iterator[tuple[str, list[object]]]:
    """The statements that write these rows, in a few sizes: a statement is prepared once and kept by its text."""
    for start in range(0, len(rows), AT_ONCE[-1]):
        part = rows[start : start + AT_ONCE[-1]]
        size = AT_ONCE[bisect_left(AT_ONCE, len(part))]
        part += part[-1:] * (size - len(part))
        yield form.format(", ".join([row] * size)), [value for values in part for value in values]


def _sentence(path: Path, fault: str) -> str:
    return f'the store cannot write to "{path}": {fault}; free some space or make it writable, then try again'


def _text(table: str, key: Key) -> str:
    return f"{table}/{key.namespace}/{key.name}"


def _row(text: str, revision: int, data: bytes) -> Row:
    table, namespace, name = text.split("/", 2)
    return Row(table, Key(namespace, name), revision, data)


def _take(path: Path) -> int:
    """Hold the database for this process alone; a second plane on one file would lose writes."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        raise StoreUnusable(f'the store "{path}" is in use by another plane; stop that one first') from fault
    except OSError as fault:
        raise StoreUnusable(_sentence(path, str(fault))) from fault
    return lock


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "wal_autocheckpoint=0", "busy_timeout=5000"):
            database.execute(f"PRAGMA {pragma}")
        _migrate(database, path)
    except (OSError, sqlite3.Error) as fault:
        raise StoreUnusable(
            f'the store "{path}" cannot be opened: {fault}; check the file, or choose another'
        ) from fault
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreUnusable(
            f'the store "{path}" has version {version}; this program reads up to {VERSION}; use the newer program'
        )
    for step in range(version, VERSION):
        with database:
            database.execute("BEGIN IMMEDIATE")
            for statement in MIGRATIONS[step]:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {step + 1}")
