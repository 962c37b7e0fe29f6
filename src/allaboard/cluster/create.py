"""Create: a new document gets a name, an identity and its first revision."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.documents import Document, Key
from allaboard.api.errors import AlreadyExists, BadRequest
from allaboard.api.meta import is_leaving, name_of
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.body import NAMES
from allaboard.cluster.draft import mutated, newborn, permitted, request_for, without_server_words
from allaboard.cluster.intake import accept_new, check_kind, single_owners
from allaboard.cluster.ownership import track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.siblings import Siblings
from allaboard.cluster.store import Happening, Item, encode
from allaboard.cluster.versions import kept, ready, served, stored

TRIES = 8  # Upstream: how often a generated name may turn out to be taken
LONGEST_PREFIX = 58
MOST_REVISIONS = 2**64


async def create(cluster: Cluster, place: Place, document: Document, ask: Ask, duplicates: Sequence[str] = ()) -> Item:
    """Store a new document; the answer is what was stored."""
    return await born(cluster, place, owned(cluster, place, accepted(place, document, ask, duplicates), ask), ask)


async def begin(cluster: Cluster, place: Place, document: Document, ask: Ask, siblings: Siblings) -> Happening:
    """Admit one document of a batch; the change is not committed yet, which the caller does at once."""
    if (draft := await sibling(cluster, place, document, ask, siblings)) is not None:
        return put_ready(cluster, place, draft)
    change = await put_admitted(cluster, place, owned(cluster, place, accepted(place, document, ask), ask), ask)
    if is_model(cluster, place, document, ask):
        siblings.note(place.rules, document, cluster.store.document(change.item))
    return change


async def begin_draft(cluster: Cluster, place: Place, document: Document, ask: Ask, siblings: Siblings) -> Document:
    """One document of a batch as it would be stored, admitted and valid."""
    draft = await sibling(cluster, place, document, ask, siblings)
    if draft is None:
        tracked = owned(cluster, place, accepted(place, document, ask), ask)
        draft = stored(place.rules, await kept(place.rules, await drafted(cluster, place, tracked, ask)))
        if is_model(cluster, place, document, ask):
            siblings.note(place.rules, document, draft)
    return draft


async def sibling(cluster: Cluster, place: Place, document: Document, ask: Ask, siblings: Siblings) -> Document | None:
    """What becomes of a document that says what the last of its batch said, but for its words; None of any other."""
    draft = siblings.like_the_last(place.rules, document, cluster.world)
    if draft is not None:
        await cluster.chain.validate(request_for(place, ask, draft, None))
    return draft


def is_model(cluster: Cluster, place: Place, document: Document, ask: Ask) -> bool:
    """Whether the next document of a batch may be made after this one."""
    if not place.rules.apart or place.rules.converter is not None or not name_of(document):
        return False
    return cluster.chain.treats_alike(request_for(place, ask, document, None))


def owned(cluster: Cluster, place: Place, document: Document, ask: Ask) -> Document:
    return track(place, document, None, ask, cluster.world.now())


def accepted(place: Place, document: Document, ask: Ask, duplicates: Sequence[str] = ()) -> Document:
    """A body that shall become a new object: read, defaulted, and without what only the server may say."""
    document = accept_new(place.rules, placed(place, check_kind(place.rules, document, ask)), ask, duplicates)
    metadata = without_server_words(document["metadata"])
    if metadata.get("resourceVersion") and not ask.dry_run and is_revision(metadata["resourceVersion"]):
        raise refusals.bare(500, "resourceVersion should not be set on objects to be created")
    return single_owners({**document, "metadata": metadata}, ask)


def is_revision(text: str) -> bool:
    """Whether a text names a state of an object; upstream overlooks others in what is new."""
    return text.isdecimal() and 0 < int(text) < MOST_REVISIONS


async def born(cluster: Cluster, place: Place, document: Document, ask: Ask) -> Item:
    """Admit and store a document that has no predecessor."""
    if ask.dry_run:
        return _rehearsed(cluster, place, await drafted(cluster, place, document, ask))
    change = await put_admitted(cluster, place, document, ask)
    await cluster.store.commit(change)
    await ready(place.rules, (change.item,), cluster.store)
    return served(place.rules, change.item, cluster.store)


async def put_admitted(cluster: Cluster, place: Place, document: Document, ask: Ask) -> Happening:
    """Admit a document and put it ahead of what is committed; generated names are tried until one is free."""
    for attempt in range(TRIES):
        draft = await kept(place.rules, await drafted(cluster, place, document, ask))
        try:
            return put_new(cluster, place, draft)
        except AlreadyExists:
            if name_of(document) or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def drafted(cluster: Cluster, place: Place, document: Document, ask: Ask) -> Document:
    """The document as it would be stored, admitted and valid."""
    rules, named = place.rules, named_by(cluster, document)
    request = request_for(place, ask, newborn(rules, named, cluster.world), None)
    draft = rules.prepare(await mutated(cluster.chain, request), None, place.subresource)
    await permitted(cluster.chain, request, draft)
    return draft


def named_by(cluster: Cluster, document: Document) -> Document:
    """The document with a name made from its generateName, if it has only that."""
    metadata = document["metadata"]
    if metadata.get("name") or not metadata.get("generateName"):
        return document
    name = metadata["generateName"][:LONGEST_PREFIX] + cluster.world.suffix()
    return {**document, "metadata": {**metadata, "name": name}}


def _no_metadata(rules: Rules, found: object) -> str:
    """What Go says of metadata that is no object."""
    kind, name = rules.kind, NAMES.get(type(found), "number")
    where = "Go value" if rules.custom else f"Go struct field {kind.kind}.metadata"
    why = f"json: cannot unmarshal {name} into {where} of type v1.ObjectMeta"
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def placed(place: Place, document: Document) -> Document:
    """The document in the namespace of the request; another namespace in the body is refused."""
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadRequest(_no_metadata(place.rules, metadata))
    metadata = dict(metadata or {})
    stated, wanted = metadata.get("namespace"), place.key.namespace
    if stated is not None and not isinstance(stated, str):
        return document  # whoever reads the types will complain
    if stated and wanted and stated != wanted:  # what lies in no namespace may name any
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata.pop("namespace", None)
    if wanted:
        metadata["namespace"] = wanted
    return {**document, "metadata": metadata}


def put_new(cluster: Cluster, place: Place, draft: Document) -> Happening:
    """The change that stores a new document; AlreadyExists where the name is taken."""
    return put_ready(cluster, place, stored(place.rules, draft))


def put_ready(cluster: Cluster, place: Place, draft: Document) -> Happening:
    """The same, of a document that is in order."""
    table, name = table_of(place.rules), name_of(draft)
    before = cluster.store.table(table).latest(Key(place.key.namespace, name))
    if before is not None:
        raise _taken(cluster, place, before, name)
    if place.rules.incomplete is not None and place.rules.incomplete(draft):
        cluster.incomplete.add(draft["metadata"]["uid"])
    return cluster.store.put(table, draft, None)


def _taken(cluster: Cluster, place: Place, before: Item, name: str) -> AlreadyExists:
    error = refusals.already_exists(place.rules.kind, name)
    if is_leaving(cluster.store.document(before)):
        return AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    return error


def _rehearsed(cluster: Cluster, place: Place, draft: Document) -> Item:
    key = Key(place.key.namespace, name_of(draft))
    if (before := cluster.store.table(table_of(place.rules)).latest(key)) is not None:
        raise _taken(cluster, place, before, key.name)
    return Item(key, 0, encode(draft), draft)
