"""One place of a schema as a node: its type, its children, and the facts that pruning, merging and patching need.

Children are made when first asked for, so a schema may refer to itself (`JSONSchemaProps`) and a kind of 350 KB costs
nothing until a document visits it. Types of the built-in catalogue are shared by every kind that refers to them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from allaboard.api.documents import Document
from allaboard.schema import builtin

MAP, LIST, SCALAR, ANY = "map", "list", "scalar", "any"
_OWN = ("default", "nullable", "x-omit-empty")
_SHARED: dict[str, Node] = {}
# A schema without a type says by its other words what it is about.
_MAP_WORDS = frozenset({"properties", "required", "minProperties", "maxProperties", "x-kubernetes-embedded-resource"})
_LIST_WORDS = frozenset({"items", "minItems", "maxItems", "uniqueItems"})


class Node:
    """What a schema says about one place of a document."""

    def __init__(self, schema: Document, *, name: str = "", built_in: bool = False) -> None:
        self.schema = schema
        self.name = name
        self.builtin = built_in
        self.type: str = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
        self.open = (
            bool(schema.get("x-kubernetes-preserve-unknown-fields")) or schema.get("additionalProperties") is True
        )
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.shape = self._shape()
        self.list_type: str = schema.get("x-kubernetes-list-type") or "atomic"
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        together = self.list_type if self.shape == LIST else schema.get("x-kubernetes-map-type")
        self.atomic = together == "atomic"
        self.patch_strategy: frozenset[str] = frozenset(
            filter(None, str(schema.get("x-kubernetes-patch-strategy", "")).split(","))
        )
        self.patch_key: str = schema.get("x-kubernetes-patch-merge-key", "")
        self.walk: Any = None
        self.programs: Any = None
        self.merging: Any = None
        self.ruled: dict[str, Node] | None = None
        self.ruled_new: dict[str, Node] | None = None
        self.closed: bool | None = None

    def _shape(self) -> str:
        if self.type == "object" or (not self.type and not _MAP_WORDS.isdisjoint(self.schema)):
            return MAP
        if self.type == "array" or (not self.type and not _LIST_WORDS.isdisjoint(self.schema)):
            return LIST
        return SCALAR if self.type else ANY

    # What is made late is read hundreds of times per write afterwards: then it is an attribute like any other.
    @cached_property
    def fields(self) -> dict[str, Node]:
        """The declared fields of a struct."""
        declared = self.schema.get("properties") or {}
        found = {name: node_of(schema, built_in=self.builtin) for name, schema in declared.items()}
        if self.embedded:
            metadata = declared.get("metadata", {})
            found |= {"apiVersion": STRING, "kind": STRING, "metadata": metadata_of(metadata)}
        return found

    @cached_property
    def values(self) -> Node | None:
        """What every undeclared key holds, where undeclared keys are allowed."""
        schema = self.schema.get("additionalProperties")
        if isinstance(schema, dict):
            return node_of(schema, built_in=self.builtin)
        return DEDUCED if self.open or self.shape == ANY else None

    @cached_property
    def items(self) -> Node:
        schema = self.schema.get("items")
        return node_of(schema, built_in=self.builtin) if isinstance(schema, dict) else DEDUCED

    @cached_property
    def key_defaults(self) -> dict[str, Any]:
        """Defaults of the fields that identify an item of this list (`protocol: TCP`)."""
        properties = self.items.schema.get("properties") or {}
        return {key: properties[key]["default"] for key in self.keys if "default" in properties.get(key, {})}

    def child(self, name: str) -> Node | None:
        """The node of a field or map key, None where the schema declares none."""
        return self.fields.get(name) or self.values

    @property
    def rules(self) -> list[Document]:
        return self.schema.get("x-kubernetes-validations") or []

    @cached_property
    def is_ruled(self) -> bool:
        """Whether a rule stands here or anywhere below (built-in types have none)."""
        return not self.builtin and _mentions_rules(self.schema)

    @cached_property
    def is_ruled_new(self) -> bool:
        """Whether a rule stands here or below that has something to say of what was not there before."""
        return self.is_ruled and _speaks_of_new(self.schema)

    @cached_property
    def is_steady(self) -> bool:
        """Whether no rule here or below could have anything against a value that stays the very same.

        What other rules say of such a value is tolerated; those about the change itself mostly forbid one.
        """
        return self.builtin or not _minds_staying(self.schema)


def is_closed(node: Node) -> bool:
    """Whether every value below has a declared type, so that plain equality of Python tells equal from different."""
    if node.closed is None:
        # A type that contains itself is judged by the rest of it.
        node.closed = True
        below = [*node.fields.values(), node.values, node.items if node.shape == LIST else None]
        typed = all(is_closed(child) for child in below if child is not None)
        node.closed = typed and node.shape != ANY and not node.open
    return node.closed


def _mentions_rules(schema: Document) -> bool:
    return bool(schema.get("x-kubernetes-validations")) or any(map(_mentions_rules, _below(schema)))


def _speaks_of_new(schema: Document) -> bool:
    rules = schema.get("x-kubernetes-validations") or ()
    speaks = any(str(rule.get("rule")).strip() != _STAYS or rule.get("optionalOldSelf") for rule in rules)
    return speaks or any(map(_speaks_of_new, _below(schema)))


_STAYS = "self == oldSelf"


def _minds_staying(schema: Document) -> bool:
    rules = [str(rule.get("rule")).strip() for rule in schema.get("x-kubernetes-validations") or ()]
    about_change = any("oldSelf" in rule and rule != _STAYS for rule in rules)
    return about_change or any(map(_minds_staying, _below(schema)))


def _below(schema: Document) -> list[Document]:
    parts = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [part for part in parts if isinstance(part, dict)]


def node_of(schema: Document, *, built_in: bool = False) -> Node:
    """The node a schema stands for; a reference without facts of its own shares the node of its type."""
    reference = schema.get("$ref")
    if reference is None:
        return Node(schema, built_in=built_in)
    own = {key: value for key, value in schema.items() if key not in _OWN and key != "$ref"}
    if own:
        return Node(builtin.schema(reference) | own, name=reference, built_in=True)
    if reference not in _SHARED:
        _SHARED[reference] = Node(builtin.schema(reference), name=reference, built_in=True)
    return _SHARED[reference]


def metadata_of(own: Document) -> Node:
    """Object metadata; a custom resource may narrow it (a pattern for the name) but never widen or drop it."""
    if not own.get("properties"):
        return node_of({"$ref": "meta.v1.ObjectMeta"})
    standard = builtin.schema("meta.v1.ObjectMeta")
    declared = standard["properties"]
    narrowed = {name: declared.get(name, {}) | schema for name, schema in own["properties"].items()}
    return Node(standard | {"properties": declared | narrowed}, name="meta.v1.ObjectMeta", built_in=True)


STRING = Node({"type": "string"})
# Where nothing is declared, types are deduced: maps are granular, lists are atomic. Upstream: structured-merge-diff.
DEDUCED = Node({"x-kubernetes-preserve-unknown-fields": True})
