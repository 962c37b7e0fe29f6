"""The in-process client: the same verbs as the server, no wire. It has the shape of `kube.client.Client`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError, NotFound
from allaboard.api.kinds import CRD, POD, Kind
from allaboard.api.meta import key_of, namespace_of, uid_of
from allaboard.api.queries import EVERYTHING, Change, Listing, Select
from allaboard.api.selectors import parse_fields, parse_labels
from allaboard.cluster import refusals
from allaboard.cluster.access import SYSTEM, User
from allaboard.cluster.ask import Ask, Place, Unheard
from allaboard.cluster.create import begin, begin_draft, create, put_ready
from allaboard.cluster.delete import Wish, begin_delete, delete
from allaboard.cluster.patch import Patch, apply, begin_apply, patch
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import begin_bind, bind
from allaboard.cluster.read import Query, acceptor, found, listed
from allaboard.cluster.registry import table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.siblings import Siblings
from allaboard.cluster.store import Happening, Item
from allaboard.cluster.update import update
from allaboard.cluster.versions import ready, shown
from allaboard.cluster.watch import Watcher

Answers = list[Document | ApiError]
Refusals = list[ApiError | None]
Begun = Sequence[Happening] | ApiError
Steps = list[Begun]


class Inside:
    """A client of the cluster in its own process; `user` is who admission sees."""

    def __init__(self, cluster: Cluster, user: User = SYSTEM) -> None:
        self.cluster, self.user = cluster, user

    async def get(self, kind: Kind, key: Key) -> Document | None:
        try:
            return self.cluster.store.document(await found(self.cluster, self._place(kind, key)))
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
        if rules.converter is not None:
            await rules.converter.ready(kind.api_version, mine)
        return [shown(rules, document) for document in mine if namespace in ("", namespace_of(document))]

    async def listing(self, kind: Kind, select: Select = EVERYTHING) -> Listing:
        place = self._place(kind, Key(select.namespace, ""))
        store, table = self.cluster.store, table_of(place.rules)
        if place.rules.converter is not None:
            await ready(place.rules, store.table(table).items(), store)
        page = listed(self.cluster, place, _query(select))
        document = store.document
        return Listing([shown(place.rules, document(item)) for item in page.items], str(page.revision))

    async def watch(self, kind: Kind, since: str, select: Select = EVERYTHING) -> AsyncIterator[Sequence[Change]]:
        rules, store = self._rules(kind), self.cluster.store
        table = store.table(table_of(rules))
        position = table.ring.position(int(since or 0))
        watcher = Watcher(store, table, position, select.namespace, acceptor(rules, _query(select), store))
        async for seen in watcher.batches():
            if rules.converter is not None:
                await ready(rules, [each.item for each in seen], store)
            yield [Change(each.type, shown(rules, store.document(each.item))) for each in seen]

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
        ask, siblings = self._ask(manager), Siblings()
        drafts = [
            (place, await begin_draft(self.cluster, place, document, ask, siblings))
            for place, document in map(self._at, documents)
        ]
        head = {(table_of(place.rules), key_of(draft)) for place, draft in drafts}
        for place, draft in drafts:
            if self.cluster.latest(place._replace(key=key_of(draft))) is not None:
                raise refusals.already_exists(place.rules.kind, key_of(draft).name)
        if len(head) != len(drafts):
            raise refusals.already_exists(drafts[0][0].rules.kind, key_of(drafts[0][1]).name)
        changes = [put_ready(self.cluster, place, draft) for place, draft in drafts]
        await self.cluster.store.commit(*changes)
        return [self._told(change.item) for change in changes]

    async def many(self, writes: Sequence[tuple[Kind, Document]], *, manager: str) -> Answers | None:
        """Create each of these, with one commit for all; the answer to each is its document or its refusal.

        None where webhooks have a say: no write may wait for what another's webhook answers.
        """
        if self.cluster.chain.asks_outside():
            return None
        ask, siblings = self._ask(manager), Siblings()
        begun = await self._committed(self._create_begun(kind, document, ask, siblings) for kind, document in writes)
        return [changes if isinstance(changes, ApiError) else self._told(changes[0].item) for changes in begun]

    async def apply_new(self, writes: Sequence[tuple[Kind, Document]], *, manager: str) -> Answers | None:
        """Apply each of these, with one commit for all, where none exists yet. None where one does, or webhooks have a
        say."""
        places = [self._place(kind, key_of(document)) for kind, document in writes]
        made_here = not self.cluster.chain.asks_outside() and all(kind != CRD for kind, _ in writes)
        if not made_here or len(set(places)) < len(places) or any(map(self.cluster.latest, places)):
            return None
        ask = self._ask(manager)
        ask.force = True
        begun = await self._committed(
            self._apply_begun(place, document, ask) for place, (_, document) in zip(places, writes, strict=True)
        )
        return [changes if isinstance(changes, ApiError) else self._told(changes[0].item) for changes in begun]

    async def bind_many(self, binds: Sequence[tuple[Key, str, str]]) -> Refusals:
        """Tell each pod its node, with one commit for all: the pods of a gang come to be bound at one moment."""
        begun = await self._committed(self._bind_begun(pod, uid, node) for pod, uid, node in binds)
        return [changes if isinstance(changes, ApiError) else None for changes in begun]

    async def delete_many(self, kind: Kind, deletions: Sequence[tuple[Key, str]]) -> Refusals | None:
        """Ask each of these, by key and uid, to go, with one commit for all. None where webhooks have a say."""
        if self.cluster.chain.asks_outside():
            return None
        begun = await self._committed(self._delete_begun(kind, key, uid) for key, uid in deletions)
        return [changes if isinstance(changes, ApiError) else None for changes in begun]

    async def _committed(self, steps: Iterable[Awaitable[Begun]]) -> Steps:
        """Take every step, then commit what they changed as one transaction."""
        begun: Steps = []
        try:
            for step in steps:
                begun.append(await step)
        finally:  # whatever happens, what stands ahead of the store is committed
            changes = [change for each in begun if not isinstance(each, ApiError) for change in each]
            committed = self.cluster.store.commit(*changes)
        await committed
        return begun

    async def _create_begun(self, kind: Kind, document: Document, ask: Ask, siblings: Siblings) -> Begun:
        try:
            place = self._place(kind, Key(namespace_of(document), ""))
            return (await begin(self.cluster, place, document, ask, siblings),)
        except ApiError as error:
            return error

    async def _apply_begun(self, place: Place, document: Document, ask: Ask) -> Begun:
        try:
            return (await begin_apply(self.cluster, place, document, ask),)
        except ApiError as error:
            return error

    async def _bind_begun(self, pod: Key, uid: str, node: str) -> Begun:
        try:
            return (begin_bind(self.cluster, self._place(POD, pod, "binding"), uid, node),)
        except ApiError as error:
            return error

    async def _delete_begun(self, kind: Kind, key: Key, uid: str) -> Begun:
        try:
            return (await begin_delete(self.cluster, self._place(kind, key), Wish(uid=uid), self._ask("unknown")))[1]
        except ApiError as error:
            return error

    async def bind(self, pod: Key, uid: str, node: str) -> None:
        await bind(self.cluster, self._place(POD, pod, "binding"), _binding(pod, uid, node), self._ask("unknown"))

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
