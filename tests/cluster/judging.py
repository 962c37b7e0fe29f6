"""What the rules of a kind say about a document: how it is stored, or what is wrong with it."""

from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.cluster.kinds import rules_for

BORN = {"uid": "11111111-2222-3333-4444-555555555555", "creationTimestamp": "2024-01-01T00:00:00Z"}


def document(kind: Kind, name: str = "x", **parts: object) -> Document:
    """A document as a client sends it."""
    metadata: Document = {"name": name} | ({"namespace": "ns"} if kind.namespaced else {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}


def stored(kind: Kind, sent: Document) -> Document:
    """The document as a create would store it, but for admission."""
    rules = rules_for(kind)
    decoded = rules.default(rules.structure.admit(sent).document)
    return rules.prepare({**decoded, "metadata": {**decoded["metadata"], **BORN}}, None, "")


def changed(kind: Kind, old: Document, sent: Document, door: str = "") -> Document:
    """The document as an update through a door would store it."""
    rules = rules_for(kind)
    decoded = rules.default(
        rules.structure.admit({**sent, "metadata": {**old["metadata"], **sent["metadata"]}}).document
    )
    return rules.prepare(decoded, old, door)


def complaints(kind: Kind, sent: Document) -> list[str]:
    """Every objection to a new document, as a refusal lists them."""
    return [f"{c.field}: {c.message}" for c in rules_for(kind).validate(stored(kind, sent), None, "")]


def objections(kind: Kind, old: Document, sent: Document, door: str = "") -> list[str]:
    """Every objection to a change."""
    return [f"{c.field}: {c.message}" for c in rules_for(kind).validate(changed(kind, old, sent, door), old, door)]
