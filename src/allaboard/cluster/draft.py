"""The steps every written document takes between a request's body and the store: who owns which field, what
admission makes of it, what the server itself fills in, and whether it may be."""

from __future__ import annotations

from allaboard.api.documents import Document, Key
from allaboard.api.errors import Cause
from allaboard.api.kinds import EVENT, EVENT_V1
from allaboard.api.meta import name_of, stamp
from allaboard.cluster import refusals
from allaboard.cluster.admission import Chain, Request
from allaboard.cluster.ask import Ask, Place, Unheard
from allaboard.cluster.metadata import on_update
from allaboard.cluster.rules import Rules
from allaboard.cluster.world import World

# What only the server may say; on a create it is dropped, on an update it is kept as it was.
SERVER_ONLY = ("uid", "creationTimestamp", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def request_for(place: Place, ask: Ask, new: Document | None, old: Document | None) -> Request:
    """What admission is asked about a write."""
    operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
    key = place.key if place.key.name or new is None else Key(place.key.namespace, name_of(new))
    return Request(
        operation, place.rules, key, new, old, place.subresource, ask.user, ask.dry_run, ask.options, ask.warnings
    )


async def mutated(chain: Chain, request: Request) -> Document:
    """The document as mutating admission wants it, with defaults filled in again where somebody amended it."""
    before, rules = request.new, request.rules
    result = await chain.mutate(request)
    after = result.new
    if after is before or after is None:
        return before or {}
    if not result.amended:
        return after
    # Our own hooks hand back whole documents; others, and the schema of a custom kind, need their defaults filled in.
    if rules.custom or chain.asks_outside():
        after = rules.structure.default(after)
    return rules.default(after)


async def permitted(chain: Chain, request: Request, new: Document) -> None:
    """Raise unless the document keeps its kind's rules and validating admission agrees."""
    rules, old = request.rules, request.old
    causes = broken(rules, new, old, request.subresource)
    if causes:
        # Upstream validates both groups of events as the core kind.
        raise refusals.invalid(EVENT if rules.kind == EVENT_V1 else rules.kind, name_of(new), causes)
    if not isinstance(request.warnings, Unheard):
        request.warnings.extend(rules.warnings(new, old))
    request.new = new
    await chain.validate(request)


def broken(rules: Rules, new: Document, old: Document | None, subresource: str) -> list[Cause]:
    causes = rules.validate(new, old, subresource)
    if not rules.custom:
        return causes
    found = rules.structure.validate(new, old, subresource=subresource, known=causes if old is None else ())
    if old is None:
        return causes + found
    # Upstream: what is wrong with the metadata of a custom resource is said twice
    return found + causes + on_update(new, old) if causes else found


def without_server_words(metadata: Document) -> Document:
    """A copy of the metadata of a new document, without what only the server may say."""
    if metadata.keys().isdisjoint(SERVER_ONLY):
        return dict(metadata)
    return {name: value for name, value in metadata.items() if name not in SERVER_ONLY}


def newborn(rules: Rules, document: Document, world: World) -> Document:
    """A document about to be created, with what only the server can say in its metadata."""
    metadata = without_server_words(document["metadata"])
    metadata["uid"] = world.uid()
    metadata["creationTimestamp"] = stamp(world.now())
    if rules.generation:
        metadata["generation"] = 1
    return {**document, "metadata": metadata}


def renewed(document: Document, old: Document) -> Document:
    """A document about to replace another: what the request leaves out or may not change stays."""
    metadata, was = dict(document["metadata"]), old["metadata"]
    for field in KEPT:
        if field in was and (field != "uid" or not metadata.get(field)):
            metadata[field] = was[field]
    metadata.pop("selfLink", None)
    metadata.pop("generation", None)
    if "generation" in was:
        metadata["generation"] = was["generation"]
    metadata["resourceVersion"] = was["resourceVersion"]
    return {**document, "metadata": metadata}


def advanced(rules: Rules, document: Document, old: Document) -> Document:
    """The document with its generation raised if what was asked for changed."""
    if not rules.generation or not rules.spec_changed(document, old):
        return document
    generation = (old["metadata"].get("generation") or 0) + 1
    return {**document, "metadata": {**document["metadata"], "generation": generation}}


def same(new: Document, old: Document) -> bool:
    """Whether a write would change nothing; when only the times in managedFields differ, it would not."""
    if new == old:
        return True
    plain = [{**d, "metadata": {k: v for k, v in d["metadata"].items() if k != "managedFields"}} for d in (new, old)]
    return plain[0] == plain[1] and _untimed(new) == _untimed(old)


def _untimed(document: Document) -> list[Document]:
    entries = document["metadata"].get("managedFields") or []
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
