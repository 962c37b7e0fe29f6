"""The in-process client: the same verbs as the server, no wire. It has the shape of `kube.client.Client`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError, NotFound
from allaboard.api.kinds import CRD, POD, Kind
from allaboard.api.meta import key_of, namespace_of, uid_of
from allaboard.api.queries import EVERYTHING, Change, Listing, Select
from allaboard.api.selectors import parse_fields, parse_labels
from allaboard.cluster import refusals
from allaboard.cluster.access import SYSTEM, User
from allaboard.cluster.ask import Ask, Place, Unheard
from allaboard.cluster.create import accepted, begin, create, drafted, put_new
from allaboard.cluster.delete import Wish, delete
from allaboard.cluster.ownership import track
from allaboard.cluster.patch import Patch, apply, patch
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import bind
from allaboard.cluster.read import Query, acceptor, get, listed
from allaboard.cluster.registry import table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Happening, Item
from allaboard.cluster.update import update
from allaboard.cluster.versions import shown
from allaboard.cluster.watch import Watcher

Answers = list[Document | ApiError]
Begun = list[Happening | ApiError]


class Inside:
    """A client of the cluster in its own process; `user` is who admission sees."""

    def __init__(self, cluster: Cluster, user: User = SYSTEM) -> None:
        self.cluster, self.user = cluster, user

    async def get(self, kind: Kind, key: Key) -> Document | None:
        try:
            return self.cluster.store.document(get(self.cluster, self._place(kind, key)))
        except NotFound:
            return None

    async def list(self, kind: Kind, select: Select = EVERYTHING) -> Documents:
        return (await self.listing(kind, select)).items

    async def owned(self, kind: Kind, owner: Document) -> Documents:
        """By the store's index of owners; only what the owner controls."""
        rules, store, uid = self._rules(kind), self.cluster.store, uid_of(owner)
        table, namespace = store.table(table_of(rules)), namespace_of(owner)
        places = sorted(key for name, key in store.owned.get(uid, ()) if name == table.name)
        found = [store.document(item) for key in places if (item := table.get(key)) is not None]
        mine = [document for document in found if _controls(uid, document)]
        return [shown(rules, document) for document in mine if namespace in ("", namespace_of(document))]

    async def listing(self, kind: Kind, select: Select = EVERYTHING) -> Listing:
        place = self._place(kind, Key(select.namespace, ""))
        page = listed(self.cluster, place, _query(select))
        document = self.cluster.store.document
        return Listing([shown(place.rules, document(item)) for item in page.items], str(page.revision))

    async def watch(self, kind: Kind, since: str, select: Select = EVERYTHING) -> AsyncIterator[Sequence[Change]]:
        rules, store = self._rules(kind), self.cluster.store
        table = store.table(table_of(rules))
        position = table.ring.position(int(since or 0))
        watcher = Watcher(store, table, position, select.namespace, acceptor(rules, _query(select), store))
        async for seen in watcher.batches():
            yield [Change(type_, shown(rules, store.document(item))) for type_, item in seen]

    async def create(self, kind: Kind, document: Document, *, manager: str) -> Document:
        place = self._place(kind, Key(namespace_of(document), ""))
        return await self._established(kind, await create(self.cluster, place, document, self._ask(manager)))

    async def update(self, kind: Kind, document: Document, *, manager: str, subresource: str = "") -> Document:
        place = self._place(kind, key_of(document), subresource)
        item, _ = await update(self.cluster, place, document, self._ask(manager))
        return self._told(item)

    async def patch(
        self, kind: Kind, key: Key, body: object, *, type: str, manager: str, subresource: str = ""
    ) -> Document:
        place = self._place(kind, key, subresource)
        return self._told(await patch(self.cluster, place, Patch(str(type), body), self._ask(manager)))

    async def apply(
        self, kind: Kind, document: Document, *, manager: str, force: bool = True, subresource: str = ""
    ) -> Document:
        ask = self._ask(manager)
        ask.force = force
        place = self._place(kind, key_of(document), subresource)
        item, _ = await apply(self.cluster, place, document, ask)
        return await self._established(kind, item)

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", propagation: str = "", grace: int | None = None
    ) -> None:
        wish = Wish(propagation=propagation, grace=grace, uid=uid)
        await delete(self.cluster, self._place(kind, key), wish, self._ask("unknown"))

    async def together(self, documents: Sequence[Document], *, manager: str) -> Documents:
        """Everything is admitted before anything is stored, and stored in one transaction."""
        ask = self._ask(manager)
        drafts = [(place, await self._draft(place, document, ask)) for place, document in map(self._at, documents)]
        head = {(table_of(place.rules), key_of(draft)) for place, draft in drafts}
        for place, draft in drafts:
            if self.cluster.latest(place._replace(key=key_of(draft))) is not None:
                raise refusals.already_exists(place.rules.kind, key_of(draft).name)
        if len(head) != len(drafts):
            raise refusals.already_exists(drafts[0][0].rules.kind, key_of(drafts[0][1]).name)
        changes = [put_new(self.cluster, place, draft) for place, draft in drafts]
        await self.cluster.store.commit(*changes)
        return [self._told(change.item) for change in changes]

    async def many(self, writes: Sequence[tuple[Kind, Document]], *, manager: str) -> Answers | None:
        """Create each of these, with one commit for all; the answer to each is its document or its refusal.

        None where webhooks have a say: no write may wait for what another's webhook answers.
        """
        if self.cluster.chain.asks_outside():
            return None
        begun: Begun = []
        try:
            for kind, document in writes:
                begun.append(await self._begun(kind, document, manager))
        finally:  # whatever happens, what stands ahead of the store is committed
            committed = self.cluster.store.commit(*(change for change in begun if isinstance(change, Happening)))
        await committed
        return [self._told(change.item) if isinstance(change, Happening) else change for change in begun]

    async def _begun(self, kind: Kind, document: Document, manager: str) -> Happening | ApiError:
        try:
            place = self._place(kind, Key(namespace_of(document), ""))
            return await begin(self.cluster, place, document, self._ask(manager))
        except ApiError as error:
            return error

    async def bind(self, pod: Key, uid: str, node: str) -> None:
        await bind(self.cluster, self._place(POD, pod, "binding"), _binding(pod, uid, node), self._ask("unknown"))

    async def _draft(self, place: Place, document: Document, ask: Ask) -> Document:
        tracked = track(place, accepted(place, document, ask), None, ask, self.cluster.world.now())
        return await drafted(self.cluster, place, tracked, ask)

    def _at(self, document: Document) -> tuple[Place, Document]:
        rules = self.cluster.registry.named(document["apiVersion"], document["kind"])
        if rules is None:
            raise refusals.no_resource()
        return Place(rules, Key(namespace_of(document), "")), document

    async def _established(self, kind: Kind, item: Item) -> Document:
        """The answer to a write; a definition is answered for when what it defines is served."""
        if kind == CRD:
            await self.cluster.store.commit()  # the server's own write was queued before this one
        return self._told(item)

    def _told(self, item: Item) -> Document:
        return self.cluster.store.document(item)

    def _ask(self, manager: str) -> Ask:
        return Ask(self.user, manager, validation="Ignore", warnings=Unheard())

    def _rules(self, kind: Kind) -> Rules:
        rules = self.cluster.registry.find(kind.group, kind.version, kind.plural)
        if rules is None:
            raise refusals.no_resource()
        return rules

    def _place(self, kind: Kind, key: Key, subresource: str = "") -> Place:
        return Place(self._rules(kind), key, subresource)


def _query(select: Select) -> Query:
    return Query(parse_labels(select.labels), parse_fields(select.fields))


def _controls(uid: str, document: Document) -> bool:
    references = document["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("controller") for owner in references)


def _binding(pod: Key, uid: str, node: str) -> Document:
    metadata = {"name": pod.name, "namespace": pod.namespace} | ({"uid": uid} if uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
