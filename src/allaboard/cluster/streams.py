"""A watch over HTTP: what is there, then every change, as lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from allaboard.api.documents import Document
from allaboard.api.errors import Gone, TimedOut
from allaboard.cluster import refusals
from allaboard.cluster.answers import Shaper
from allaboard.cluster.ask import Place
from allaboard.cluster.memory import Store
from allaboard.cluster.options import ListOptions, no_revision
from allaboard.cluster.read import acceptor
from allaboard.cluster.registry import table_of
from allaboard.cluster.store import Item, encode
from allaboard.cluster.versions import ready
from allaboard.cluster.watch import Seen, Watcher

MINUTE = 60.0
LONGEST = 3600.0  # seconds; Upstream: a watch that says nothing ends after half an hour to an hour
INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Stream:
    """One watch over HTTP: what is there (if asked for), then every change, as lines."""

    def __init__(self, store: Store, place: Place, wanted: ListOptions, shaper: Shaper) -> None:
        self.store, self.place, self.wanted, self.shaper = store, place, wanted, shaper
        self.table = store.table(table_of(place.rules))
        self.accept = acceptor(place.rules, wanted.query, store)
        self.first = True  # a table's columns are sent once
        if words := no_revision(wanted.query.revision):
            raise refusals.bare(500, words)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Chunks of whole lines, until the time is up or the watcher falls behind."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + (self.wanted.timeout or LONGEST)
        try:
            position = self._position()
        except (Gone, TimedOut) as refusal:
            yield framed("ERROR", encode(refusal.status()))
            return
        items = self._present()
        await ready(self.place.rules, items, self.store)
        opening = self._opening(items)
        if opening:
            yield b"".join(opening)
        watcher = Watcher(self.store, self.table, position, self.place.key.namespace, self.accept)
        try:
            async for chunk in self._follow(watcher, ends):
                yield chunk
        except Gone as gone:
            yield framed("ERROR", encode(gone.status()))
        finally:
            watcher.close()

    def _position(self) -> int:
        revision = int(self.wanted.query.revision or 0)
        if self.wanted.initial and revision > self.store.committed:
            raise refusals.from_the_future(revision, self.store.committed)
        if self.wanted.initial or not revision:
            return self.table.ring.end
        return self.table.ring.position(revision)

    @property
    def _begins(self) -> bool:
        """Whether the watch begins with what is there already; one from no revision does, too."""
        return self.wanted.initial or (self.wanted.query.revision in ("", "0") and not self.wanted.silent)

    def _present(self) -> list[Item]:
        """What is there already, where the watch asks for it."""
        return list(self.table.items(self.place.key.namespace)) if self._begins else []

    def _opening(self, items: Sequence[Item]) -> list[bytes]:
        """What is there already, as ADDED; a marked bookmark ends it."""
        lines = [self._line("ADDED", item) for item in items if self.accept is None or self.accept(item)]
        if self._begins and self.wanted.bookmarks:
            lines.append(self._bookmark(INITIAL_END))
        return lines

    async def _follow(self, watcher: Watcher, ends: float) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        due = loop.time() + MINUTE
        floor, watched_from = int(self.wanted.query.revision or 0), self.store.committed + 1
        now = 0.0
        while now < ends:  # looked at once in a round: what ends late has its last bookmark all the same
            await watcher.ready(min(ends, due) if self.wanted.bookmarks else ends)
            since, seen = watcher.position, watcher.take()
            if self.place.rules.converter is not None:
                await ready(self.place.rules, [each.item for each in seen], self.store)
            now = loop.time()
            if floor > self.store.committed:
                continue
            if seen and watched_from > floor:
                yield self._shared((since, watcher.position), seen)
            elif seen:
                yield b"".join([self._line(each.type, each.item) for each in seen if each.item.revision > floor])
            if self.wanted.bookmarks and now >= min(due, ends):
                due = now + MINUTE
                yield self._bookmark({})

    def _shared(self, span: tuple[int, int], seen: Sequence[Seen]) -> bytes:
        """The lines of some changes; watchers of everything in a namespace share them."""
        if self.accept is not None or self.shaper.form.shape:
            return b"".join([self._line(each.type, each.item) for each in seen])
        what = (*span, self.place.key.namespace, self.place.rules.kind)
        if self.table.lines[0] != what:
            self.table.lines = (what, b"".join([self._line(each.type, each.item) for each in seen]))
        return self.table.lines[1]

    def _line(self, type_: str, item: Item) -> bytes:
        data = self.shaper.bytes_of(item, headers=self.first)
        self.first = False
        return framed(type_, data)

    def _bookmark(self, annotations: Document) -> bytes:
        body = self.shaper.bookmark(self.store.committed, annotations, headers=self.first)
        self.first = False
        return framed("BOOKMARK", encode(body))


def framed(type_: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), data)
