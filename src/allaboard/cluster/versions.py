"""One stored form, several served ones: versions of a custom kind, and Events in their two groups."""

from __future__ import annotations

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
_CORE_EVENT = Structure({"$ref": builtin.type_of("v1", "Event")})


def served(rules: Rules, item: Item, store: Store) -> Item:
    """An item as this version of its kind shows it; the item itself where that is how it is stored."""
    if item.data.startswith(prefix_of(rules)):
        return item
    document = shown(rules, store.document(item))
    return Item(item.key, item.revision, encode(document), document)


def shown(rules: Rules, document: Document) -> Document:
    """A stored document as this version of its kind shows it."""
    if document["apiVersion"] == rules.kind.api_version:
        return document
    if rules.kind.group == _NEW_EVENTS:
        document = rules.structure.default({**_renamed(document, _CORE_FIELDS), "apiVersion": rules.kind.api_version})
    converted = {**document, "apiVersion": rules.kind.api_version}
    if rules.custom:
        converted = rules.structure.default(rules.structure.prune(converted)[0])
    return converted


def stored(rules: Rules, document: Document) -> Document:
    """A document as it is stored."""
    if rules.kind.group == _NEW_EVENTS:
        return _CORE_EVENT.default({**_renamed(document, _EVENT_FIELDS), "apiVersion": "v1"})
    return document


def _renamed(document: Document, names: dict[str, str]) -> Document:
    return {names.get(name, name): value for name, value in document.items()}


def prefix_of(rules: Rules) -> bytes:
    """How the bytes of every item of this kind and version begin."""
    return b'{"apiVersion":"%s","kind":"%s",' % (rules.kind.api_version.encode(), rules.kind.kind.encode())
