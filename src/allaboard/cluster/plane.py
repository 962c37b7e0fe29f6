"""The cluster, put together: store, served kinds, admission and the world it takes time and chance from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.kinds import Kind
from allaboard.api.meta import name_of
from allaboard.cluster.admission import Chain, Webhooks
from allaboard.cluster.ask import Place
from allaboard.cluster.kinds import BUILTIN
from allaboard.cluster.memory import Store
from allaboard.cluster.registry import Registry, table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Happening, Item
from allaboard.cluster.world import World

DEFINITIONS = kinds.CRD.resource


class Head:
    """Documents as writers see them: committed or about to be."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, kind: Kind, key: Key) -> Document | None:
        item = self.store.table(kind.resource).latest(key)
        return None if item is None else self.store.document(item)

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        return [self.store.document(item) for item in self.store.table(kind.resource).latest_items(namespace)]


class Cluster:
    """What every verb works on; main puts it together once."""

    def __init__(
        self,
        store: Store,
        hooks: Sequence[object] = (),
        world: World | None = None,
        webhooks: Webhooks | None = None,
        rules: Iterable[Rules] = BUILTIN,
    ) -> None:
        self.store = store
        self.world = world or World()
        self.registry = Registry(rules)
        self.head = Head(store)
        self.chain = Chain(hooks, self.head, webhooks)
        for item in store.table(DEFINITIONS).items():
            self.registry.learn(store.document(item))
        store.listeners.append(self._notice)

    def latest(self, place: Place) -> Item | None:
        """What a writer builds on."""
        return self.store.table(table_of(place.rules)).latest(place.key)

    def _notice(self, change: Happening) -> None:
        if change.table != DEFINITIONS:
            return
        if change.type == "DELETED":
            self.registry.forget(name_of(self.store.document(change.item)))
        else:
            self.registry.learn(self.store.document(change.item))
