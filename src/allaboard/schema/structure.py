"""A kind's schema, compiled: prune, default and validate in one pass, and the tree of nodes that merging reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.schema.findings import (
    BLOCKING,
    DUPLICATE,
    INVALID,
    NOWHERE,
    REQUIRED,
    Finding,
    MapKey,
    Path,
    Run,
    bracketed,
    shown,
    steps,
)
from allaboard.schema.nodes import DEDUCED, LIST, MAP, Node, node_of
from allaboard.schema.rules import broken_rules, counterpart
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
    """The compiled schema of one kind. `lasting` says that its kind never had another: what was made of documents that
    are stored still holds."""

    schema: Document
    lasting: bool = False

    @cached_property
    def root(self) -> Node:
        """The tree of nodes: fields, map values, list items and keys, patch facts."""
        if self.is_builtin:
            return node_of(self.schema)
        facts = {"type": "object", **self.schema, "x-kubernetes-embedded-resource": True, "x-aboard-root": True}
        return Node(facts)

    @cached_property
    def is_builtin(self) -> bool:
        return "$ref" in self.schema

    @cached_property
    def _walked_last(self) -> dict[str, tuple[Any, list[Finding]]]:
        """What the last admitted document was found to be, field by field: it is usually validated next."""
        return {}

    def admit(self, document: Document, *, sent: bool = True) -> Admitted:
        """Prune, default and check a document, in one pass; rules (CEL) are `validate`'s.

        In what a client sent, null stands for absence; what an apply put together (`sent=False`) keeps its nulls.
        """
        run = _walked(self.root, document, sent=sent)
        if not self.is_builtin:  # built-in kinds are judged by rules of their own
            self._remember(run)
        unknown = run.unknown if self.is_builtin else sorted(run.unknown)
        causes = [_cause(finding) for finding in run.findings] if run.findings else []
        if not run.malformed:
            return Admitted(run.document, unknown, causes)
        first = run.malformed[0]
        path = steps(first.path)
        words = first.decoding.replace("{}", _struct_of(self.root, path))
        if self.is_builtin and (detours := _detours(self.root, path)):
            plain = ".".join(step for step in path if isinstance(step, str) and not isinstance(step, MapKey))
            words = words.replace(f".{plain} ", f".{detours} ", 1)
        words = words if self.is_builtin else _of_metadata(words, steps(first.path), document)
        return Admitted(run.document, unknown, causes, words, first.converting)

    def _remember(self, run: _Walked) -> None:
        found: dict[str, list[Finding]] = {}
        for finding in run.findings:
            found.setdefault(str((steps(finding.path) or [""])[0]), []).append(finding)
        for name, value in run.document.items() if isinstance(run.document, dict) else ():
            self._walked_last[name] = (value, found.get(name, []))

    def _findings_of(self, document: Document) -> list[Finding]:
        """Every finding of a document; fields that were just admitted are not walked again."""
        known = self._walked_last
        fresh = {name: item for name, item in document.items() if name not in known or known[name][0] is not item}
        if "metadata" in fresh and "metadata" in known and self._has_plain_metadata:
            fresh["metadata"] = _beyond(fresh["metadata"], *known["metadata"])
        findings = [
            finding
            for finding in _walked(self.root, fresh).findings
            if finding.path is None or finding.reason != REQUIRED or finding.path[0] or finding.path[1] not in document
        ]
        kept = [name for name in document if name not in fresh and name in known and known[name][0] is document[name]]
        return findings + [finding for name in kept for finding in known[name][1]]

    def _findings_in(self, name: str, value: Any) -> list[Finding]:
        """The findings of one part of a document; one that was just admitted is not walked again."""
        known = self._walked_last.get(name)
        if known is not None and known[0] is value:
            return known[1]
        return _walked(self.root.child(name) or DEDUCED, value, (None, name)).findings

    def _findings_at_status(self, document: Document, old: Document | None) -> tuple[list[Finding], list[Finding]]:
        """What is wrong with the status, its paths beginning there, and the items that occur twice anywhere.

        What already was there twice is tolerated, so what did not change need not be looked through; nor need the
        metadata, which is of a built-in type and has no such lists.
        """
        changed = [
            name for name in document if name != "metadata" and (old is None or old.get(name) is not document[name])
        ]
        twice = [f for name in changed for f in self._findings_in(name, document[name]) if f.reason == DUPLICATE]
        if "status" not in document or not self._findings_in("status", document["status"]):
            return [], twice
        return _others(_walked(self.root.child("status") or DEDUCED, document["status"]).findings), twice

    @cached_property
    def _has_plain_metadata(self) -> bool:
        """Whether each field of the metadata is judged by itself."""
        declared = (self.schema.get("properties") or {}).get("metadata") or {}
        return not self.is_builtin and declared.keys() <= {"type", "description", "properties"}

    def prune(self, document: Document) -> tuple[Document, list[str]]:
        """The document without what its schema does not know, and what that was. Defaults are filled in too."""
        admitted = self.admit(document)
        return admitted.document, admitted.unknown

    def trimmed(self, document: Document) -> Document:
        """The document without what its schema does not know; nothing is filled in."""
        kept = {name: document[name] for name in ("apiVersion", "kind", "metadata") if name in document}
        known: Document = _trimmed(self.root, document)
        return kept | {name: value for name, value in known.items() if name not in kept}

    def default(self, document: Document) -> Document:
        """The document with its defaults."""
        return self.admit(document).document

    def validate(
        self, document: Document, old: Document | None = None, *, subresource: str = "", known: Sequence[Cause] = ()
    ) -> list[Cause]:
        """Everything wrong with a document: types and bounds, lists that must be unique, then rules.

        With an old document, what was wrong before and did not change is tolerated. A write to `status` is judged
        by the schema of the status alone, and by every rule. What is `known` to be wrong already may keep rules from
        being asked.
        """
        if subresource == "status":  # nothing is said about the other parts of an object
            findings, twice = self._findings_at_status(document, old)
        else:
            whole = self._findings_of(document)
            findings, twice = _others(whole), [finding for finding in whole if finding.reason == DUPLICATE]
        if old is not None and findings:
            prefix = ["status"] if subresource == "status" else []
            findings = [f for f in findings if not _is_unchanged(self.root, prefix, f, document, old)]
        if twice and not (old is not None and self._has_doubles(old)):
            findings += twice
        causes = [_cause(finding, subresource) for finding in findings]
        if not self.root.is_ruled:
            return causes
        reasons = {cause.reason for cause in known} | {finding.reason for finding in findings}
        if reasons & BLOCKING:
            return [*causes, _UNCHECKED]
        return causes + broken_rules(self.root, document, old)

    def _has_doubles(self, old: Document) -> bool:
        """Whether some items occurred twice before: then others may."""
        return any(finding.reason == DUPLICATE for finding in _walked(self.root, old).findings)


def _beyond(metadata: Any, known: Any, findings: list[Finding]) -> Any:
    """Metadata without what was admitted and found good a moment ago; the owners of fields are our own words."""
    if findings or not isinstance(metadata, dict) or not isinstance(known, dict):
        return metadata
    return {name: v for name, v in metadata.items() if name != "managedFields" and known.get(name) is not v}


def _of_metadata(words: str, path: list[Any], document: Any) -> str:
    """Of a custom object only metadata is decoded, by itself; that of an embedded one is named and shown."""
    if "metadata" not in path:
        return words
    place = path[: path.index("metadata") + 1]
    words = words.replace(".".join(step for step in place if isinstance(step, str)) + ".", "", 1)
    if len(place) == 1:
        return words
    for step in place:
        document = document[step]
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return f"{where.removeprefix('.')}: Invalid value: {shown(document)}: {words}"


# Structs that Go keeps inside of another without a name in JSON: its decoder names them all the same.
_INSIDE: dict[str, tuple[str, tuple[str, ...]]] = {
    "core.v1.Probe": ("ProbeHandler", ("exec", "httpGet", "tcpSocket", "grpc")),
    "core.v1.EphemeralContainer": ("EphemeralContainerCommon", ()),
    "core.v1.Volume": ("VolumeSource", ()),
}
_REFERRING: tuple[str, ...] = ("SecretKeySelector", "ConfigMapKeySelector", "SecretEnvSource", "ConfigMapEnvSource")
_REFERRING += ("SecretProjection", "ConfigMapProjection", "ConfigMapVolumeSource")
_INSIDE |= {f"core.v1.{name}": ("LocalObjectReference", ("name",)) for name in _REFERRING}
_OUTSIDE = ("name", "targetContainerName")


def _detours(node: Node, path: list[Any]) -> str:
    """The names on the way to a value, with those of embedded structs; nothing where there are none."""
    names: list[str] = []
    plain = 0
    for step in path:
        if isinstance(step, str) and not isinstance(step, MapKey):
            inner, fields = _INSIDE.get(node.name, ("", ()))
            if inner and (step in fields if fields else step not in _OUTSIDE):
                names.append(inner)
            names.append(step)
            plain += 1
        node = node.items if isinstance(step, int) else node.child(step) or DEDUCED
    return ".".join(names) if len(names) > plain else ""


def _struct_of(node: Node, path: list[Any]) -> str:
    """The Go struct that holds the value at a path: `Container` for `spec.containers[0].name`."""
    name = ""
    for step in path:
        if not isinstance(step, int) and node.fields:
            name = node.name.rpartition(".")[2]
        node = node.items if isinstance(step, int) else node.child(step) or DEDUCED
    return name


def _others(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.reason != DUPLICATE]


class _Walked(Run):
    """A run, and the document that came out of it."""

    __slots__ = ("document",)
    document: Any


def _walked(node: Node, value: Any, path: Path = None, *, sent: bool = False) -> _Walked:
    run = _Walked(sent)
    try:
        run.document = (node.walk or walk_of(node))(value, path, run)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    return run


def _cause(finding: Finding, prefix: str = "") -> Cause:
    if finding.reason == DUPLICATE:
        return Cause(DUPLICATE, bracketed(finding.path), finding.words)
    return finding.cause(prefix)


def _is_unchanged(node: Node, prefix: list[Any], finding: Finding, new: Any, old: Any) -> bool:
    """Whether the value that breaks a rule is the one that was stored. Upstream: ratcheting."""
    if finding.nowhere and "schema" in finding.words:
        return False
    for step in (*prefix, *steps(finding.subject)):
        if new == old:
            return True
        if isinstance(step, int):
            old = counterpart(node, new[step], old)
            node, new = node.items, new[step]
        else:
            old = old.get(step) if isinstance(old, dict) else None
            node, new = node.child(step) or DEDUCED, new.get(step) if isinstance(new, dict) else None
        if old is None:
            return False
    return bool(new == old)


def compile(schema: Document) -> Structure:
    """The structure of a kind: an `openAPIV3Schema`, or `{"$ref": "core.v1.Pod"}` for a built-in kind."""
    return Structure(schema)


__all__ = ["Admitted", "MapKey", "Structure", "compile"]


def _trimmed(node: Node, value: Any) -> Any:
    if isinstance(value, list):
        return [_trimmed(node.items, item) for item in value] if node.shape == LIST else value
    if not isinstance(value, dict) or node.shape != MAP:
        return value
    pairs = [(name, node.child(name), item) for name, item in value.items()]
    return {name: _trimmed(child, item) for name, child, item in pairs if child is not None}
