"""The cluster, put together: store, served kinds, admission and the world it takes time and chance from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.kinds import Kind
from allaboard.api.meta import is_leaving, is_true, name_of
from allaboard.cluster import definitions
from allaboard.cluster.admission import Chain
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.kinds import BUILTIN
from allaboard.cluster.memory import Store, Table
from allaboard.cluster.outside import Caller, Outside
from allaboard.cluster.ownership import track
from allaboard.cluster.registry import Registry, table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Happening, Item, Transaction
from allaboard.cluster.versions import stored, translated
from allaboard.cluster.webhooks import Webhooks
from allaboard.cluster.world import World

DEFINITIONS = kinds.CRD.resource
REPEATS = 4096  # applies remembered because they changed nothing
FEW = 64  # documents of a table that are kept listed


class Head:
    """Documents as writers see them: committed or about to be."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._listed: dict[tuple[str, str], tuple[int, Documents]] = {}  # small tables as they were at a position

    def get(self, kind: Kind, key: Key) -> Document | None:
        item = self.store.table(kind.resource).latest(key)
        return None if item is None else self.store.document(item)

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        table = self.store.table(kind.resource)
        if table.head:
            return [self.store.document(item) for item in table.latest_items(namespace)]
        # Quotas, limits and classes are asked for at every write, seldom change, and are mostly absent.
        return self._still(table, namespace) if table.spaces else []

    def _still(self, table: Table, namespace: str) -> Documents:
        position, found = self._listed.get((table.name, namespace), (-1, []))
        if position != table.ring.end:
            found = [self.store.document(item) for item in table.items(namespace)]
            if len(found) <= FEW:
                self._listed[table.name, namespace] = (table.ring.end, found)
        return found


class Cluster:
    """What every verb works on; main puts it together once."""

    def __init__(
        self,
        store: Store,
        hooks: Sequence[object] = (),
        world: World | None = None,
        rules: Iterable[Rules] = BUILTIN,
    ) -> None:
        self.store = store
        self.world = world or World()
        self.caller: Caller | None = None
        self.registry = Registry(rules, lambda: self.caller)
        self.head = Head(store)
        self.chain = Chain(hooks, self.head)
        self._repeated: dict[Hashable, tuple[Document, Item]] = {}
        self.incomplete: set[str] = set()  # uids of objects that were never written since, where that matters
        for item in store.table(DEFINITIONS).items():
            self.registry.learn(store.document(item))
        store.listeners.append(self._notice)

    def ask_outside(self, outside: Outside) -> None:
        """From now on webhooks that configurations in the store name are asked, through this."""
        self.caller = Caller(outside, self.head, self.world.uid)
        self.chain.webhooks = Webhooks(self.caller, self.head, self.registry.versions, translated)

    def repeats(self, who: Hashable, config: Document, item: Item) -> bool:
        """Whether this very apply, on this very state, was seen to change nothing."""
        known = self._repeated.get(who)
        return known is not None and known[1] is item and known[0] == config

    def remember(self, who: Hashable, config: Document, item: Item) -> None:
        """An apply changed nothing: said again on the same state, it need not be tried (webhooks may differ)."""
        if self.chain.asks_outside():
            return
        if len(self._repeated) >= REPEATS:
            self._repeated.clear()
        self._repeated[who] = (config, item)

    def latest(self, place: Place) -> Item | None:
        """What a writer builds on."""
        return self.store.table(table_of(place.rules)).latest(place.key)

    def _notice(self, transaction: Transaction) -> None:
        for change in transaction:
            if change.type == "DELETED":
                self.incomplete.discard(change.item.uid)
            if change.table == DEFINITIONS:
                self._redefine(change)

    def _redefine(self, change: Happening) -> None:
        document = self.store.document(change.item)
        if change.type == "DELETED":
            self.registry.forget(name_of(document))
            self._reconsider(document)
            return
        self.registry.learn(document)
        if not is_leaving(document) and not self._establish(change.item, document):
            self._reconsider(document)

    def _reconsider(self, definition: Document) -> None:
        """Names may be free again: whoever in the group waits for one gets it."""
        for item in list(self.store.table(DEFINITIONS).items()):
            other = self.store.document(item)
            mine = other["spec"]["group"] == definition["spec"]["group"] and name_of(other) != name_of(definition)
            if mine and not is_true(other, "NamesAccepted") and not is_leaving(other):
                self._establish(item, other)

    def _establish(self, item: Item, document: Document) -> bool:
        """Accept a definition's names right after it was stored; what it defines is served from then on.

        Says whether there was anything to write: the change comes back here when it is stored.
        """
        table, now = self.store.table(DEFINITIONS), self.world.now()
        settled = definitions.settled(document, map(self.store.document, table.items()), now)
        if settled == document or table.latest(item.key) is not item:
            return False
        place = Place(self.registry.of(kinds.CRD), item.key, "status")
        tracked = track(place, settled, document, Ask(manager=definitions.MANAGER), now)
        self.store.commit(self.store.put(DEFINITIONS, stored(place.rules, tracked), item))
        return True
