"""A kind's schema, compiled: prune, default and validate in one pass, and the tree of nodes that merging reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.schema.findings import BLOCKING, DUPLICATE, INVALID, NOWHERE, Finding, MapKey, Run, bracketed, steps
from allaboard.schema.nodes import DEDUCED, LIST, Node, node_of
from allaboard.schema.rules import broken_rules
from allaboard.schema.walking import walk_of

_UNCHECKED = Cause(
    INVALID,
    NOWHERE,
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
TOO_DEEP = "the object is nested too deeply to be read"


class Admitted(NamedTuple):
    """A document as it will be stored, what was dropped from it, and what is wrong with it.

    `malformed` is Go's sentence about the first value that cannot be decoded (built-in kinds only): a 400, not a 422;
    `unconvertible` is what it says of the same value when it came by a strategic merge patch.
    """

    document: Document
    unknown: list[str]
    causes: list[Cause]
    malformed: str = ""
    unconvertible: str = ""


@dataclass(frozen=True, eq=False)
class Structure:
    """The compiled schema of one kind."""

    schema: Document

    @cached_property
    def root(self) -> Node:
        """The tree of nodes: fields, map values, list items and keys, patch facts."""
        if self.is_builtin:
            return node_of(self.schema)
        facts = {"type": "object", **self.schema, "x-kubernetes-embedded-resource": True, "x-aboard-root": True}
        return Node(facts)

    @property
    def is_builtin(self) -> bool:
        return "$ref" in self.schema

    def admit(self, document: Document) -> Admitted:
        """Prune, default and check a document, in one pass; rules (CEL) are `validate`'s."""
        run = self._run(document)
        unknown = run.unknown if self.is_builtin else sorted(run.unknown)
        causes = [finding.cause() for finding in run.findings]
        if not run.malformed:
            return Admitted(run.document, unknown, causes)
        first = run.malformed[0]
        return Admitted(run.document, unknown, causes, first.decoding, first.converting)

    def prune(self, document: Document) -> tuple[Document, list[str]]:
        """The document without what its schema does not know, and what that was. Defaults are filled in too."""
        admitted = self.admit(document)
        return admitted.document, admitted.unknown

    def default(self, document: Document) -> Document:
        """The document with its defaults."""
        return self.admit(document).document

    def validate(self, document: Document, old: Document | None = None, *, subresource: str = "") -> list[Cause]:
        """Everything wrong with a document: types and bounds, lists that must be unique, then rules.

        With an old document, what was wrong before and did not change is tolerated. A write to `status` is judged
        by the schema of the status alone, and by every rule.
        """
        part, prefix = ("status", "status") if subresource == "status" else ("", "")
        findings = self._findings(document, old, part)
        findings += self._duplicates(document, old)
        causes = [_cause(finding, prefix) for finding in findings]
        if not self.root.is_ruled:
            return causes
        if any(finding.reason in BLOCKING for finding in findings):
            return [*causes, _UNCHECKED]
        return causes + broken_rules(self.root, document, old)

    def _findings(self, document: Document, old: Document | None, part: str) -> list[Finding]:
        node, value = self.root, document
        before: Any = old
        if part:
            node, before = self.root.child(part) or DEDUCED, (old or {}).get(part)
            if part not in document:
                return []
            value = document[part]
        run = _walked(node, value)
        found = [finding for finding in run.findings if finding.reason != DUPLICATE]
        if before is None or not found:
            return found
        return [finding for finding in found if not _is_unchanged(node, finding, value, before)]

    def _duplicates(self, document: Document, old: Document | None) -> list[Finding]:
        found = [finding for finding in self._run(document).findings if finding.reason == DUPLICATE]
        tolerated = found and old is not None and any(f.reason == DUPLICATE for f in self._run(old).findings)
        return [] if tolerated else found

    def _run(self, document: Document) -> _Walked:
        return _walked(self.root, document)


class _Walked(Run):
    """A run, and the document that came out of it."""

    __slots__ = ("document",)
    document: Any


def _walked(node: Node, value: Any) -> _Walked:
    run = _Walked()
    try:
        run.document = walk_of(node)(value, None, run)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    return run


def _cause(finding: Finding, prefix: str) -> Cause:
    if finding.reason == DUPLICATE:
        return Cause(DUPLICATE, bracketed(finding.path), finding.words)
    return finding.cause(prefix)


def _is_unchanged(node: Node, finding: Finding, new: Any, old: Any) -> bool:
    """Whether the value that breaks a rule is the one that was stored. Upstream: ratcheting."""
    if finding.nowhere and "schema" in finding.words:
        return False
    for step in steps(finding.subject):
        if new == old:
            return True
        if isinstance(step, int):
            old = _counterpart(node, new[step], old)
            node, new = node.items, new[step]
        else:
            old = old.get(step) if isinstance(old, dict) else None
            node, new = node.child(step) or DEDUCED, new.get(step) if isinstance(new, dict) else None
        if old is None:
            return False
    return bool(new == old)


def _counterpart(node: Node, item: Any, old: Any) -> Any:
    """The old item with the same keys; items of other lists have none."""
    if node.shape != LIST or node.list_type != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return None
    keys = {key: item.get(key) for key in node.keys}
    return next((o for o in old if isinstance(o, dict) and {key: o.get(key) for key in node.keys} == keys), None)


def compile(schema: Document) -> Structure:
    """The structure of a kind: an `openAPIV3Schema`, or `{"$ref": "core.v1.Pod"}` for a built-in kind."""
    return Structure(schema)


__all__ = ["Admitted", "MapKey", "Structure", "compile"]
