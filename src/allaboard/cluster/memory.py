"""The store: every object in memory, a head for writers, and a ring of recent changes for each table."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Protocol

from allaboard.api.documents import Document, Key
from allaboard.api.errors import Gone
from allaboard.cluster.packing import pack
from allaboard.cluster.store import ChangeType, Happening, Item, Journal, Transaction, decode

RING = 2048  # changes remembered for each table; older watches are told to list again
PAST = 2 << 20  # bytes kept in a ring for the sake of the past alone: what was superseded or deleted
RECENT = 2048  # objects whose current state is kept decoded
PASSING = 256  # documents kept decoded although nobody is likely to read them again: events, and what is deleted
SELDOM_READ = frozenset({"events"})


class Ring:
    """The last changes of a table; a watcher holds a position that only grows."""

    def __init__(self, floor: int, limit: int = RING, past: int = PAST) -> None:
        self.floor = floor  # changes at or below this revision are forgotten
        self.start = 0  # position of the first remembered change
        self.limit, self.past = limit, past
        self.weight = 0  # bytes that only this ring keeps
        self.changes: list[Happening] = []

    @property
    def end(self) -> int:
        return self.start + len(self.changes)

    def append(self, change: Happening) -> None:
        self.changes.append(change)
        if change.before is not None:  # else nothing is past yet
            self.weight += change.weight
        if len(self.changes) >= 2 * self.limit:
            self._forget(self.limit)

    def lighten(self, needed: int) -> None:
        """Forget the oldest changes until the past weighs half of what it may; from position `needed` on all stays."""
        count, weight = 0, self.weight
        while weight > self.past // 2 and self.start + count < needed:
            weight -= self.changes[count].weight
            count += 1
        if count:
            self._forget(count)

    def _forget(self, count: int) -> None:
        self.weight -= sum(change.weight for change in self.changes[:count])
        self.floor = self.changes[count - 1].item.revision
        del self.changes[:count]
        self.start += count

    def position(self, revision: int) -> int:
        """Where a watch that has seen this revision goes on."""
        if revision < self.floor:
            raise Gone(f"too old resource version: {revision} ({self.floor})")
        return self.start + bisect_right(self.changes, revision, key=lambda change: change.item.revision)

    def since(self, position: int) -> Sequence[Happening]:
        if position < self.start:
            raise Gone(f"too old resource version: the watch fell {self.start - position} changes behind")
        return self.changes[position - self.start :]


class Watching(Protocol):
    """Whoever follows a table."""

    position: int

    def wake(self) -> None: ...


class Table:
    """Every object of one stored kind: committed items by namespace and name, and the writers' head over them."""

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.spaces: dict[str, dict[str, Item]] = {}
        self.head: dict[Key, Happening] = {}  # the newest change of a key that is not committed yet
        self.ring = Ring(floor)
        self.watchers: set[Watching] = set()
        # The lines last made for watchers, and which they were: most watchers want the same ones.
        self.lines: tuple[Hashable, bytes] = (None, b"")

    def get(self, key: Key) -> Item | None:
        space = self.spaces.get(key.namespace)
        return None if space is None else space.get(key.name)

    def latest(self, key: Key) -> Item | None:
        """What a writer builds on: the newest state, committed or about to be."""
        if self.head and (pending := self.head.get(key)) is not None:
            return None if pending.type == "DELETED" else pending.item
        return self.get(key)

    def items(self, namespace: str = "") -> Iterator[Item]:
        """Committed items in the order of namespace and name."""
        for space in (namespace,) if namespace else sorted(self.spaces):
            held = self.spaces.get(space)
            if held:
                yield from map(held.__getitem__, sorted(held))

    def at(self, revision: int) -> list[Item]:
        """Items as they were at an earlier revision, told from the ring."""
        past = {item.key: item for item in self.items()}
        for change in reversed(self.ring.since(self.ring.position(revision))):
            if change.before is None:
                past.pop(change.item.key, None)
            else:
                past[change.item.key] = change.before
        return [past[key] for key in sorted(past)]

    def latest_items(self, namespace: str = "") -> Iterator[Item]:
        for item in self.items(namespace):
            if item.key not in self.head:
                yield item
        for key, pending in self.head.items():
            if pending.type != "DELETED" and namespace in ("", key.namespace):
                yield pending.item

    def count(self) -> int:
        return sum(map(len, self.spaces.values()))

    def put(self, item: Item) -> None:
        self.spaces.setdefault(item.key.namespace, {})[item.key.name] = item

    def drop(self, key: Key) -> None:
        held = self.spaces.get(key.namespace, {})
        held.pop(key.name, None)
        if not held:
            self.spaces.pop(key.namespace, None)


class Tables(dict[str, Table]):
    """Tables by name; one is there as soon as it is asked for."""

    def __init__(self, floor: int) -> None:
        self.floor = floor

    def __missing__(self, name: str) -> Table:
        table = self[name] = Table(name, self.floor)
        return table


class Store:
    """Every table, one revision counter, and who owns what."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.owned: dict[str, set[tuple[str, Key]]] = {}  # owner uid → what names it as its owner
        self.living: dict[str, tuple[str, Key]] = {}  # uid → where it lives
        self.listeners: list[Callable[[Transaction], None]] = []
        self._recent: OrderedDict[Item, None] = OrderedDict()
        self._passing: deque[Item] = deque()
        self.revision, rows = journal.load()
        self.committed = self.revision
        self.tables = Tables(self.revision)
        self.table: Callable[[str], Table] = self.tables.__getitem__
        for row in rows:
            item = Item(row.key, row.revision, row.data)
            self.table(row.table).put(item)
            self._link(row.table, item)
        journal.open(self._publish, self._undo)

    def document(self, item: Item) -> Document:
        """The decoded form of an item; the caller must not change it."""
        document = item.document
        if document is None:
            document = item.document = decode(item.data)
            self._keep(item)
        return document

    def put(self, table: str, document: Document, before: Item | None) -> Happening:
        """A change that writes this document over `before`, at a new revision; it still has to be committed."""
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        stamped = {**document, "metadata": metadata}
        key = before.key if before is not None else Key(metadata.get("namespace", ""), metadata["name"])
        item = Item(key, self.revision, pack(stamped), stamped)
        if table in SELDOM_READ:
            self._let_pass(item)
        else:
            self._keep(item)
        return self._happens("MODIFIED" if before else "ADDED", table, item, before)

    def remove(self, table: str, before: Item) -> Happening:
        """A change that removes an object; the event carries its last state with the revision of the removal."""
        self.revision += 1
        document = self.document(before)
        final = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.revision)}}
        item = before.moved_to(self.revision, final)
        self._let_pass(item)
        return self._happens("DELETED", table, item, before)

    def _happens(self, type: ChangeType, table: str, item: Item, before: Item | None) -> Happening:
        change = Happening(type, table, item, before)
        self.tables[table].head[item.key] = change
        return change

    def commit(self, *changes: Happening) -> Awaitable[None]:
        """All of these or none; awaiting the answer means: durable and visible."""
        return self.journal.submit(changes)

    def _publish(self, transaction: Transaction) -> None:
        for change in transaction:
            self._settle(change)
        self.committed = transaction[-1].item.revision if transaction else self.committed
        for listen in self.listeners:
            listen(transaction)
        for name in {change.table for change in transaction}:
            table = self.tables[name]
            if table.ring.weight > table.ring.past:
                table.ring.lighten(min([watcher.position for watcher in table.watchers], default=table.ring.end))
            for watcher in tuple(table.watchers):
                watcher.wake()

    def _settle(self, change: Happening) -> None:
        table, item, before = self.tables[change.table], change.item, change.before
        if table.head.get(item.key) is change:
            del table.head[item.key]
        goes = change.type == "DELETED"
        moved = goes or before is None or before.uid != item.uid or before.owners != item.owners
        if before is not None:
            before.document = None  # the past is seldom read; its bytes are kept
            self._recent.pop(before, None)
            if moved:
                self._unlink(change.table, before)
        if goes:
            table.drop(item.key)
        else:
            table.put(item)
            if moved:
                self._link(change.table, item)
        table.ring.append(change)

    def _undo(self) -> None:
        """What was pending is lost: the head is what is committed."""
        for table in self.tables.values():
            table.head.clear()

    def _link(self, table: str, item: Item) -> None:
        if table in SELDOM_READ and not item.owners:  # an event owns nothing
            return
        place = (table, item.key)
        self.living[item.uid] = place
        for owner in item.owners:
            self.owned.setdefault(owner, set()).add(place)

    def _unlink(self, table: str, item: Item) -> None:
        place = (table, item.key)
        if self.living.get(item.uid) == place:
            del self.living[item.uid]
        for owner in item.owners:
            held = self.owned.get(owner, set())
            held.discard(place)
            if not held:
                self.owned.pop(owner, None)

    def _keep(self, item: Item) -> None:
        """Keep the decoded form of an item for now, and let go of the one that was kept longest."""
        self._recent[item] = None
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)[0].document = None

    def _let_pass(self, item: Item) -> None:
        self._passing.append(item)
        if len(self._passing) > PASSING:
            self._passing.popleft().document = None
