"""Update: a document replaces its predecessor, if it still is the one the writer had in mind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause, Invalid
from allaboard.api.meta import is_leaving, name_of
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.create import MOST_REVISIONS, create, placed
from allaboard.cluster.draft import advanced, mutated, permitted, renewed, request_for, same
from allaboard.cluster.intake import accept, check_kind, single_owners
from allaboard.cluster.ownership import track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import table_of
from allaboard.cluster.store import Item, encode
from allaboard.cluster.versions import kept, ready, served, stored

TRIES = 8  # how often a write starts over because another came between

# What a write makes of the current document; it may be called again when another write came between.
Build = Callable[[Document], Document]


async def update(
    cluster: Cluster, place: Place, document: Document, ask: Ask, duplicates: Sequence[str] = ()
) -> tuple[Item, bool]:
    """Replace a document (PUT); the second value says whether it is new, which some kinds allow."""
    rules = place.rules
    document = single_owners(_accepted(cluster, place, check_kind(rules, document, ask), ask, duplicates), ask)
    if not name_of(document):
        raise refusals.nameless(place.key.name)
    if name_of(document) != place.key.name:
        raise BadRequest(
            f"the name of the object ({name_of(document)}) does not match the name on the URL ({place.key.name})"
        )
    if cluster.latest(place) is None and rules.create_on_update and not place.subresource:
        return await create(cluster, place, document, ask), True

    def build(old: Document) -> Document:
        check_revision(place, document, old, required=not rules.unconditional_update)
        check_uid(place, document["metadata"].get("uid"), old)
        return track(place, document, old, ask, cluster.world.now())

    return await change(cluster, place, build, ask), False


def _accepted(cluster: Cluster, place: Place, document: Document, ask: Ask, duplicates: Sequence[str]) -> Document:
    """A body on its way in, at home in its place."""
    before = cluster.latest(place) if place.subresource == "status" else None
    known = handed_back(document, cluster.store.document(before)) if before is not None else {}
    if "metadata" not in known:  # which is at home already
        document = placed(place, document)
    return {**accept(place.rules, {**document, **{part: {} for part in known}}, ask, duplicates), **known}


def handed_back(document: Document, old: Document) -> Document:
    """The parts of a body that say what is stored, in the very same values. A controller that writes a status hands
    back the spec and the metadata it was given, but for the owners of fields: they need not be looked through again."""
    parts = {}
    if document.get("spec") and document["spec"] is old.get("spec"):
        parts["spec"] = document["spec"]
    given, stored = document.get("metadata"), old["metadata"]
    if type(given) is dict and _is_part_of(given, stored) and given.get("namespace") == stored.get("namespace"):
        parts["metadata"] = given
    return parts


def _is_part_of(given: Document, stored: Document) -> bool:
    return given.keys() <= stored.keys() and all(map(is_, given.values(), map(stored.get, given)))


async def change(cluster: Cluster, place: Place, build: Build, ask: Ask) -> Item:
    """Build on the newest state, admit, and store; start over when another write came between."""
    for _ in range(TRIES):
        before = cluster.latest(place)
        if before is None:
            raise refusals.not_found(place.rules.kind, place.key.name)
        await ready(place.rules, (before,), cluster.store)
        old = served(place.rules, before, cluster.store)
        draft = await drafted(cluster, place, build(cluster.store.document(old)), cluster.store.document(old), ask)
        written = Written(draft, await kept(place.rules, draft))
        if cluster.latest(place) is before:
            return await _stored(cluster, place, written, before, ask)
    raise refusals.conflict(place.rules.kind, place.key.name)


async def rewrite(cluster: Cluster, place: Place, build: Build, ask: Ask) -> Item:
    """Write what was built without asking anybody: for what the server itself does to an object."""
    before = cluster.latest(place)
    if before is None:
        raise refusals.not_found(place.rules.kind, place.key.name)
    built = build(cluster.store.document(before))
    return await _stored(cluster, place, Written(built, built), before, ask)


async def drafted(cluster: Cluster, place: Place, new: Document, old: Document, ask: Ask) -> Document:
    """The document as it would be stored, admitted and valid."""
    rules = place.rules
    request = request_for(place, ask, renewed(new, old), old)
    draft = await mutated(cluster.chain, request)
    draft = advanced(rules, rules.prepare(draft, old, place.subresource), old)
    await permitted(cluster.chain, request, draft)
    return draft


class Written(NamedTuple):
    """A document about to be stored: as its writer sees it, and in the version that is kept."""

    shown: Document
    kept: Document


async def _stored(cluster: Cluster, place: Place, written: Written, before: Item, ask: Ask) -> Item:
    store, table, draft = cluster.store, table_of(place.rules), written.shown
    old = cluster.store.document(served(place.rules, before, store))
    if ask.dry_run:
        return Item(before.key, before.revision, encode(draft), draft)
    if same(draft, old) and before.uid not in cluster.incomplete:
        if store.table(table).head.get(before.key) is not None:
            await store.commit()  # what we answer with must be durable first
        return served(place.rules, before, store)
    if leaves(draft):
        # Upstream: watchers see the object as it last was, the writer what it wrote.
        await store.commit(store.remove(table, before))
        return Item(before.key, before.revision, encode(draft), draft)
    cluster.incomplete.discard(before.uid)
    change = store.put(table, stored(place.rules, written.kept), before)
    await store.commit(change)
    await ready(place.rules, (change.item,), store)
    return served(place.rules, change.item, store)


def leaves(document: Document) -> bool:
    """Deletion was asked for, and nothing holds the object any longer."""
    return is_leaving(document) and not held(document) and not document["metadata"].get("deletionGracePeriodSeconds")


def held(document: Document) -> bool:
    """Whether finalizers keep an object; a namespace has some in its spec too."""
    if document["kind"] == "Namespace" and document["apiVersion"] == "v1" and document["spec"].get("finalizers"):
        return True
    return bool(document["metadata"].get("finalizers"))


def check_revision(place: Place, document: Document, old: Document, *, required: bool = False) -> None:
    """Refuse a write that was meant for another revision."""
    stated = document["metadata"].get("resourceVersion")
    stated = "" if stated is None else stated
    if not isinstance(stated, str):
        return  # whoever reads the types will complain
    if stated and not (stated.isdecimal() and int(stated) < MOST_REVISIONS):
        raise refusals.bare(500, unparsed(stated))
    if stated in ("", "0"):
        if required:
            raise _unconditional(place)
    elif stated != old["metadata"]["resourceVersion"]:
        raise refusals.conflict(place.rules.kind, place.key.name)


def unparsed(revision: str) -> str:
    """What Go says of a text that names no revision."""
    why = "value out of range" if revision.isdecimal() else "invalid syntax"
    return f'strconv.ParseUint: parsing "{revision}": {why}'


def _unconditional(place: Place) -> Invalid:
    """Upstream names the resource here, not the kind."""
    words = "Invalid value: 0: must be specified for an update"
    kind = replace(place.rules.kind, kind=place.rules.kind.plural)
    return refusals.invalid(kind, place.key.name, [Cause("FieldValueInvalid", "metadata.resourceVersion", words)])


def check_uid(place: Place, stated: str | None, old: Document) -> None:
    """Refuse a write that was meant for a namesake."""
    found = old["metadata"]["uid"]
    if stated and stated != found:
        raise refusals.uid_differs(place.rules.kind, registry_path(place), stated, found)


def registry_path(place: Place) -> str:
    """Where upstream would keep the object, as some of its errors say."""
    kind = place.rules.kind
    parts = [kind.group] if place.rules.custom else []
    parts += [kind.plural, place.key.namespace, place.key.name]
    return "/".join(filter(None, parts))
