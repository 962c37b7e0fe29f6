"""One request as it came in, and the parts of it that every verb reads alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, UnsupportedMedia
from allaboard.cluster import body
from allaboard.cluster.access import User
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.options import WriteOptions
from allaboard.schema import builtin
from allaboard.schema.structure import Structure

APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")
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
    ask = Ask(call.user, manager, wanted.dry_run, wanted.validation, wanted.force)
    ask.warnings = call.warnings
    return ask


def read_body(call: Call, place: Place) -> tuple[Document, list[str]]:
    """The document in the body; custom kinds have no protobuf form."""
    if place.rules.custom and call.content_type.startswith(body.PROTOBUF):
        accepted = f"{body.JSON}, {body.YAML}"
        what = "the body of the request was in an unknown format - accepted media types include: "
        raise UnsupportedMedia(what + accepted)
    return body.read(call.data, call.content_type, place.rules.kind.kind)


def read_typed(call: Call, version: str, kind: str) -> Document:
    """A body of a kind that is not stored, checked against its type."""
    document, _ = body.read(call.data, call.content_type, kind)
    metadata = document.get("metadata")
    document = {**document, "metadata": {} if metadata is None else metadata}
    structure = typed(version, kind)
    admitted = structure.admit(document)
    if admitted.malformed:
        short = version.rpartition("/")[2]
        raise BadRequest(f'{kind} in version "{short}" cannot be handled as a {kind}: {admitted.malformed}')
    return admitted.document


@cache
def typed(version: str, kind: str) -> Structure:
    return Structure({"$ref": builtin.type_of(version, kind)})


def read_delete_options(call: Call) -> Document:
    document, _ = body.read(call.data, call.content_type, "DeleteOptions")
    version, kind = document.get("apiVersion", ""), document.get("kind", "")
    if kind not in ("", "DeleteOptions"):
        where = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise BadRequest(f'no kind "{kind}" is registered for version "{version}" in scheme "{where}"')
    return read_typed(call, "v1", "DeleteOptions")


def check_patch_type(media: str, place: Place) -> None:
    if media not in (*APPLY, *PATCHES):
        raise UnsupportedMedia("415: Unsupported Media Type", details={})
    if place.rules.custom and media == PATCHES[2]:
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{PATCHES[0]}, {PATCHES[1]}, {APPLY[0]}"
        )


def read_patch(data: bytes) -> tuple[object, list[str]]:
    try:
        return body.read_json(data)
    except body.Unreadable as fault:
        raise BadRequest("invalid JSON patch") from fault


def read_apply(data: bytes, ask: Ask) -> tuple[Document, list[str]]:
    """The stated configuration; a key said twice is an error or a warning."""
    try:
        value, twice = body.read_yaml(data)
    except body.Unreadable as fault:
        raise BadRequest(f"error encoding patch: {fault}") from fault
    if twice and ask.validation == "Strict":
        lines = "\n  ".join(twice)
        raise BadRequest(
            f"error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
        )
    if twice and ask.validation == "Warn":
        ask.warnings.extend(twice)
    if value is not None and not isinstance(value, dict):
        raise BadRequest("error decoding YAML: an object is needed")
    return value or {}, twice


def warning_headers(warnings: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Warnings as headers, each said once."""
    lines = []
    for text in dict.fromkeys(warnings):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append((b"warning", f'299 - "{escaped}"'.encode()))
    return lines
