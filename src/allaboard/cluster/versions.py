"""One stored form, several served ones: versions of a custom kind, and Events in their two groups."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from allaboard.api.documents import Document
from allaboard.cluster.memory import Store
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Item, encode
from allaboard.schema import builtin
from allaboard.schema.structure import Structure

# events.k8s.io names the same facts otherwise; core names on the right.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_CORE_FIELDS = {core: new for new, core in _EVENT_FIELDS.items()}
_NEW_EVENTS = "events.k8s.io"
_METADATA = ("name", "generateName", "namespace", "uid")
_LATER = (
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_CORE_EVENT = Structure({"$ref": builtin.type_of("v1", "Event")})


def served(rules: Rules, item: Item, store: Store) -> Item:
    """An item as this version of its kind shows it; the item itself where that is how it is stored."""
    if item.revision >= rules.since and item.starts_with(prefix_of(rules)):
        return item
    document = shown(rules, store.document(item))
    return Item(item.key, item.revision, encode(document), document)


async def ready(rules: Rules, items: Iterable[Item], store: Store) -> None:
    """Before items are shown: what only a conversion webhook can tell is asked for."""
    if rules.converter is not None:
        await rules.converter.ready(rules.kind.api_version, map(store.document, items))


async def translated(rules: Rules, document: Document) -> Document:
    """A document in this version of its kind."""
    if rules.converter is None:
        return shown(rules, document)
    return rules.structure.trimmed(await rules.converter.convert(rules.kind.api_version, document))


async def kept(rules: Rules, document: Document) -> Document:
    """A document in the version in which its kind is stored."""
    return document if rules.converter is None else await rules.converter.stored(document)


def shown(rules: Rules, document: Document) -> Document:
    """A stored document as this version of its kind shows it."""
    if document["apiVersion"] == rules.kind.api_version:
        if rules.since and int(document["metadata"].get("resourceVersion") or rules.since) < rules.since:
            return rules.structure.default(document)  # Upstream: what a schema no longer knows is not shown
        return document
    if rules.converter is not None:
        known = rules.converter.known(rules.kind.api_version, document)
        return rules.structure.trimmed(known or {**document, "apiVersion": rules.kind.api_version})
    if rules.kind.group == _NEW_EVENTS:
        document = rules.structure.default({**_renamed(document, _CORE_FIELDS), "apiVersion": rules.kind.api_version})
    converted = {**document, "apiVersion": rules.kind.api_version}
    if rules.custom:
        converted = rules.structure.default(rules.structure.prune(converted)[0])
    return converted


def stored(rules: Rules, document: Document) -> Document:
    """A document as it is stored, its first fields in the order a Kubernetes server prints them."""
    if rules.kind.group == _NEW_EVENTS:
        document = _CORE_EVENT.default({**_renamed(document, _EVENT_FIELDS), "apiVersion": "v1"})
    version, kind, given = document["apiVersion"], document["kind"], document["metadata"]
    metadata = {name: given[name] for name in _METADATA if name in given}
    metadata["resourceVersion"] = ""  # its place; the store knows its value
    metadata |= {name: given[name] for name in _LATER if name in given}
    if rules.custom:
        ordered = {"apiVersion": version, "kind": kind, "metadata": metadata}
    else:
        ordered = {"kind": kind, "apiVersion": version, "metadata": metadata}
    return {**ordered, **document, "metadata": metadata}


def _renamed(document: Document, names: dict[str, str]) -> Document:
    return {names.get(name, name): value for name, value in document.items()}


@lru_cache(maxsize=1024)
def prefix_of(rules: Rules) -> bytes:
    """How the bytes of every item of this kind and version begin."""
    version, kind = rules.kind.api_version, rules.kind.kind
    text = (
        f'{{"apiVersion":"{version}","kind":"{kind}",'
        if rules.custom
        else f'{{"kind":"{kind}","apiVersion":"{version}",'
    )
    return text.encode()
