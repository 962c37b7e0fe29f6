"""One request as it came in, and the parts of it that every verb reads alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, UnsupportedMedia
from allaboard.api.kinds import Kind
from allaboard.cluster import body
from allaboard.cluster.access import User
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.intake import cannot_handle, complain, other_kind
from allaboard.cluster.options import WriteOptions
from allaboard.merge.patch import unknown_words
from allaboard.schema import builtin
from allaboard.schema.structure import Structure

APPLY = ("application/apply-patch+yaml",)
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json")


@dataclass(slots=True)
class Call:
    """One request as it came in; who asks is known already."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    data: bytes
    user: User
    warnings: list[str] = field(default_factory=list)  # told beside the answer, whatever it is

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


def asked(call: Call, wanted: WriteOptions) -> Ask:
    """Who asks and how; the field manager is the first word of the user agent where none is named."""
    manager = wanted.manager or call.headers.get("user-agent", "").partition("/")[0] or "unknown"
    ask = Ask(call.user, manager, wanted.dry_run, wanted.validation, wanted.force, wanted.document)
    ask.warnings = call.warnings
    return ask


def read_body(call: Call, place: Place) -> tuple[Document, list[str]]:
    """The document in the body; custom kinds have no protobuf form."""
    if place.rules.custom and call.content_type.startswith(body.PROTOBUF):
        accepted = f"{body.JSON}, {body.YAML}"
        what = "the body of the request was in an unknown format - accepted media types include: "
        raise UnsupportedMedia(what + accepted)
    document, twice = body.read(call.data, call.content_type, place.rules.kind.kind)
    if place.rules.custom:
        body.check_kind_is_said(document, place.rules.kind.kind, call.data, call.content_type)
    return document, twice


def read_typed(call: Call, kind: Kind, ask: Ask | None = None, namespace: str = "") -> Document:
    """A body of a kind that is not stored, checked against its type; `ask` is told of fields nobody knows."""
    document, twice = body.read(call.data, call.content_type, kind.kind)
    metadata, said = document.get("metadata"), document.get("kind")
    if ask is not None and said not in (None, "", kind.kind):
        raise BadRequest(other_kind(kind, document.get("apiVersion") or kind.api_version, str(said)))
    admitted = typed(kind).admit({**document, "metadata": {} if metadata is None else metadata})
    if admitted.malformed:
        raise BadRequest(cannot_handle(kind, admitted.malformed))
    if ask is not None:
        complain(kind, ask, twice, admitted.unknown)
    if namespace and (admitted.document["metadata"].get("namespace") or namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    return admitted.document


DELETE_OPTIONS = Kind("", "v1", "DeleteOptions", "")
UNRECOGNIZED = f"{body.unrecognized('DeleteOptions')}: "
UNREADABLE = 'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: '


@cache
def typed(kind: Kind) -> Structure:
    return Structure({"$ref": builtin.type_of(kind.api_version, kind.kind)})


def read_delete_options(call: Call) -> Document:
    """Upstream says of these no more than what is wrong."""
    try:
        return _delete_options(call)
    except BadRequest as fault:
        words = fault.message
        for before in (UNRECOGNIZED, UNREADABLE):
            if words.startswith(before):
                words = words.removeprefix(before)
                words = re.sub(r" \([^()]*\)$", "", words) if before is UNRECOGNIZED else words
        raise BadRequest(words) from fault


def _delete_options(call: Call) -> Document:
    document, _ = body.read(call.data, call.content_type, "DeleteOptions")
    version, kind = document.get("apiVersion", "") or "meta.k8s.io/v1", document.get("kind", "")
    if kind not in ("", "DeleteOptions"):
        where = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise BadRequest(f'no kind "{kind}" is registered for version "{version}" in scheme "{where}"')
    return read_typed(call, DELETE_OPTIONS)


def check_patch_type(media: str, place: Place) -> None:
    if media not in (*APPLY, *PATCHES):
        raise UnsupportedMedia("415: Unsupported Media Type", details={})
    if place.rules.custom and media == PATCHES[2]:
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{PATCHES[0]}, {PATCHES[1]}, {APPLY[0]}"
        )


def read_patch(data: bytes, media: str) -> tuple[object, list[str]]:
    """The patch, and what it says twice or to nobody."""
    try:
        value, twice = body.read_json(data)
    except body.Unreadable as fault:
        raise BadRequest("invalid JSON patch") from fault
    if media == PATCHES[0]:
        twice = [f"json patch {said}" for said in (*twice, *unknown_words(value))]
    return value, twice


def read_apply(data: bytes) -> tuple[Document, list[str]]:
    """The stated configuration, and the keys it says twice."""
    try:
        value, twice = body.read_yaml(data)
    except body.Unreadable as fault:
        # Upstream takes whatever begins like JSON for JSON at first.
        what = "decoding patch: error converting YAML to JSON" if data.lstrip()[:1] == b"{" else "encoding patch"
        raise BadRequest(f"error {what}: {fault}") from fault
    if value is not None and not isinstance(value, dict):
        found = body.NAMES.get(type(value), "number")
        why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {why}")
    return value or {}, twice


def warning_headers(warnings: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Warnings as headers, each said once."""
    lines = []
    for text in dict.fromkeys(warnings):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append((b"warning", f'299 - "{escaped}"'.encode()))
    return lines
