"""Owners gone, children gone: what happens to dependents when an object is deleted, decided and carried out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from allaboard.api.documents import Document, Key
from allaboard.api.errors import Conflict, Invalid, NotFound
from allaboard.api.meta import is_leaving, owners_of
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.delete import FOREGROUND, ORPHAN, Wish, delete
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import Registry
from allaboard.cluster.store import Item, Transaction
from allaboard.cluster.update import change

MANAGER = "kube-controller-manager"


class Fate(Enum):
    """What becomes of a dependent."""

    STAYS = "stays"
    LOSES_REFERENCES = "loses references"
    GOES = "goes"


@dataclass(frozen=True, slots=True)
class Ties:
    """A dependent's owners, sorted: those alive, those waiting for it to go, and those that are gone."""

    solid: tuple[Document, ...]
    waiting: tuple[Document, ...]
    gone: tuple[Document, ...]
    unknown: bool = False  # an owner's kind is not served: nobody can say whether it lives

    def fate(self) -> Fate:
        if self.unknown:
            return Fate.STAYS
        if self.solid:
            return Fate.LOSES_REFERENCES if self.gone or self.waiting else Fate.STAYS
        return Fate.GOES if self.gone or self.waiting else Fate.STAYS


class Collector:
    """Looks after deletions: queued places are judged one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.due: dict[tuple[str, Key], None] = {}  # places to judge, in order
        cluster.store.listeners.append(self.notice)

    def notice(self, transaction: Transaction) -> None:
        """Queue what changes may concern."""
        for happening in transaction:
            item, before = happening.item, happening.before
            if happening.type == "DELETED":
                for place in sorted(self.cluster.store.owned.get(item.uid, ())):
                    self.due[place] = None
                self._wake_waiting(item.owners)
            elif before is not None:
                self._notice_changed(happening.table, item, before)
            elif item.owners and not self._is_safe(item):
                self.due[happening.table, item.key] = None

    def _notice_changed(self, table: str, item: Item, before: Item) -> None:
        finalizers = self.cluster.store.document(item)["metadata"].get("finalizers") or ()
        if item.owners != before.owners or ORPHAN in finalizers or FOREGROUND in finalizers:
            self.due[table, item.key] = None
            self._wake_waiting([owner for owner in before.owners if owner not in item.owners])

    def _wake_waiting(self, owners: Iterable[str]) -> None:
        """These have one dependent less, for which they may be waiting."""
        store = self.cluster.store
        for owner in owners:
            place = store.living.get(owner)
            if place is not None and (item := store.table(place[0]).get(place[1])) is not None and item.is_leaving:
                self.due[place] = None

    def _is_safe(self, item: Item) -> bool:
        """Whether an object stays; nearly always because every owner is there and stays itself."""
        document = self.cluster.store.document(item)
        for reference in owners_of(document):
            owner = self._owner(reference, item.key.namespace)
            if owner is None or owner.is_leaving:
                return self.ties(document).fate() is Fate.STAYS
        return True

    def notice_all(self) -> None:
        """Queue everything that has owners or waits for dependents: at the start."""
        for table in self.cluster.store.tables.values():
            for item in table.items():
                if item.owners or b'"finalizers"' in item.data:
                    self.due[table.name, item.key] = None

    async def collect(self) -> None:
        """Judge everything that is due; what a judgement leads to is due in turn."""
        while self.due:
            table, key = next(iter(self.due))
            del self.due[table, key]
            item = self.cluster.store.table(table).get(key)
            rules = self.cluster.registry.at_table(table)
            if item is not None and rules is not None:
                try:
                    await self._judge(Place(rules, key), item)
                except (NotFound, Conflict, Invalid):
                    continue  # somebody else was quicker; the change that tells will bring it back

    async def _judge(self, place: Place, item: Item) -> None:
        document = self.cluster.store.document(item)
        if is_leaving(document):
            finalizers = document["metadata"].get("finalizers") or ()
            if FOREGROUND in finalizers:
                await self._await_dependents(place, item)
            elif ORPHAN in finalizers:
                await self._release_dependents(place, item)
            return
        ties = self.ties(document)
        match ties.fate():
            case Fate.GOES:
                await self._remove(place, item, ties)
            case Fate.LOSES_REFERENCES:
                await self._drop_references(place, [owner["uid"] for owner in (*ties.gone, *ties.waiting)])

    async def _remove(self, place: Place, item: Item, ties: Ties) -> None:
        """A dependent of owners that wait goes in the foreground too, if it has dependents of its own."""
        cascade = "Background"
        if ties.waiting and self.cluster.store.owned.get(item.uid):
            cascade = "Foreground"
        wish = Wish(propagation=cascade, uid=item.uid)
        await delete(self.cluster, place, wish, Ask(manager=MANAGER))

    async def _await_dependents(self, place: Place, item: Item) -> None:
        """Foreground: the owner goes when no dependent blocks it any longer."""
        dependents = self._dependents(item)
        blocking = [(where, held) for where, held in dependents if _blocks(self.cluster.store.document(held), item.uid)]
        for where, _ in dependents:
            self.due[where] = None
        if not blocking:
            await self._drop_finalizer(place, FOREGROUND)

    async def _release_dependents(self, place: Place, item: Item) -> None:
        """Orphan: dependents forget their owner, then it goes."""
        for (table, key), _ in self._dependents(item):
            rules = self.cluster.registry.at_table(table)
            if rules is not None:
                await self._drop_references(Place(rules, key), [item.uid])
        await self._drop_finalizer(place, ORPHAN)

    def _dependents(self, item: Item) -> Sequence[tuple[tuple[str, Key], Item]]:
        store = self.cluster.store
        places = sorted(store.owned.get(item.uid, ()))
        return [(place, held) for place in places if (held := store.table(place[0]).get(place[1])) is not None]

    async def _drop_references(self, place: Place, uids: Sequence[str]) -> None:
        def build(old: Document) -> Document:
            kept = [owner for owner in owners_of(old) if owner.get("uid") not in uids]
            metadata = {**old["metadata"], "ownerReferences": kept}
            if not kept:
                del metadata["ownerReferences"]
            return {**old, "metadata": metadata}

        await change(self.cluster, place, build, Ask(manager=MANAGER))

    async def _drop_finalizer(self, place: Place, finalizer: str) -> None:
        def build(old: Document) -> Document:
            kept = [name for name in old["metadata"].get("finalizers") or () if name != finalizer]
            metadata = {**old["metadata"], "finalizers": kept}
            if not kept:
                del metadata["finalizers"]
            return {**old, "metadata": metadata}

        await change(self.cluster, place, build, Ask(manager=MANAGER))

    def ties(self, document: Document) -> Ties:
        """Every owner of a document, by whether it lives."""
        solid, waiting, gone, unknown = [], [], [], False
        for reference in owners_of(document):
            namespace = document["metadata"].get("namespace", "")
            owner = self._owner(reference, namespace)
            if owner is None:
                gone.append(reference)
                unknown = unknown or not _may_be_judged(self.cluster.registry, reference, namespace)
            elif self._waits(owner):
                waiting.append(reference)
            else:
                solid.append(reference)
        return Ties(tuple(solid), tuple(waiting), tuple(gone), unknown)

    def _waits(self, owner: Item) -> bool:
        """Whether it goes as soon as its dependents have gone."""
        return owner.is_leaving and FOREGROUND in (
            self.cluster.store.document(owner)["metadata"].get("finalizers") or ()
        )

    def _owner(self, reference: Document, namespace: str) -> Item | None:
        """The owner a reference means; an owner in another namespace is no owner."""
        place = self.cluster.store.living.get(reference.get("uid", ""))
        if place is None:
            return None
        table, key = place
        if key.name != reference.get("name") or key.namespace not in ("", namespace):
            return None
        return self.cluster.store.table(table).get(key)


def _blocks(dependent: Document, uid: str) -> bool:
    return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners_of(dependent))


def _may_be_judged(registry: Registry, reference: Document, namespace: str) -> bool:
    """Whether we can tell that an owner is gone: its kind is known, and it could own what is in this namespace."""
    rules = registry.named(reference.get("apiVersion", ""), reference.get("kind", ""))
    return rules is not None and (bool(namespace) or not rules.kind.namespaced)
