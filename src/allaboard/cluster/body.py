"""The body of a request, read: JSON, YAML or protobuf into a document, with the keys it says twice."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import msgspec
import yaml

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, UnsupportedMedia
from allaboard.cluster import jsonwords, wire
from allaboard.cluster.store import encode

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_SPACED = re.compile(rb'"[ \t\r\n]+:')


class Unreadable(Exception):
    """Text that is no JSON or YAML, in the words of the reference implementation's decoder."""


def read_json(data: bytes) -> tuple[object, list[str]]:
    """The value, and the paths of keys that were said more than once."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as fault:
        if (mended := data.decode("utf-8", "replace").encode()) != data:  # Upstream reads what is no UTF-8 as U+FFFD
            return read_json(mended)
        raise Unreadable(_words(data, fault)) from fault
    # Counting is cheaper than reading twice: written again, a text without duplicates has as many keys as before.
    if data.count(b'":') == encode(value).count(b'":') and not _SPACED.search(data):
        return value, []
    return value, list(_duplicates(json.loads(data, object_pairs_hook=_Pairs)))


def _words(data: bytes, fault: Exception) -> str:
    """What is wrong with a text, as clients know it."""
    return jsonwords.complaint(data) or ("exceeded max depth" if isinstance(fault, RecursionError) else str(fault))


class _Pairs(list[tuple[str, object]]):
    """An object as the pairs it was written as."""


def _duplicates(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, each in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield f'duplicate field "{here}"'
            seen.add(name)
            yield from _duplicates(each, here)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _duplicates(each, f"{path}[{index}]")


class _Loader(yaml.CSafeLoader):
    """YAML as kubectl reads it: timestamps and such stay text."""


_BOOLEAN = "tag:yaml.org,2002:bool"
for _letter, _resolvers in list(_Loader.yaml_implicit_resolvers.items()):
    _Loader.yaml_implicit_resolvers[_letter] = [
        (tag, pattern) for tag, pattern in _resolvers if tag != "tag:yaml.org,2002:timestamp"
    ]
_Loader.add_implicit_resolver(_BOOLEAN, re.compile("^(?:y|Y|n|N)$"), list("yYnN"))
_Loader.add_multi_constructor("", lambda loader, tag, node: getattr(node, "value", None))
_Loader.add_constructor(_BOOLEAN, lambda loader, node: str(node.value).lower() in ("y", "yes", "true", "on"))


def _plain(value: object) -> object:
    """YAML as JSON: keys are text, whatever they look like."""
    if isinstance(value, dict):
        return {_key(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def read_yaml(data: bytes) -> tuple[object, list[str]]:
    """YAML, or JSON (which is YAML) read the quick way."""
    if data.lstrip()[:1] in (b"{", b"["):
        with contextlib.suppress(Unreadable):
            value, twice = read_json(data)
            if not twice:
                return value, twice
    try:
        node = yaml.compose(data, Loader=_Loader)
        value = _plain(yaml.load(data, Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as fault:
        raise Unreadable(_yaml_words(fault)) from fault
    twice = list(_twice(node)) if node is not None else []
    return value, twice


def _yaml_words(fault: Exception) -> str:
    """Upstream counts a scanner's lines from one, a parser's from zero, and says nothing of line zero."""
    mark, context = getattr(fault, "problem_mark", None), getattr(fault, "context_mark", None)
    problem = getattr(fault, "problem", None) or "could not be read"
    if alias := re.match("found undefined alias '(.*)'", problem):
        return f"yaml: unknown anchor '{alias[1]}' referenced"
    line = mark.line if mark else 0
    if line:
        line += isinstance(fault, yaml.scanner.ScannerError)
    elif context:
        line = context.line
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


def _twice(node: yaml.Node) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
            seen.add(key.value)
            yield from _twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _twice(value)


def yaml_complaint(lines: list[str]) -> list[str]:
    """Keys said twice in YAML, as one complaint."""
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(lines)] if lines else []


def read(data: bytes, content_type: str, kind: str) -> tuple[Document, list[str]]:
    """The document in a body, by its content type; `kind` is what it should be."""
    media = content_type.split(";")[0].strip().lower()
    try:
        if media in ("", JSON):
            value, twice = read_json(data)
        elif media in (YAML, "application/yml"):
            value, twice = read_yaml(data)
            twice = yaml_complaint(twice) if twice and twice[0].startswith("line") else twice
        elif media == PROTOBUF:
            return read_protobuf(data, kind), []
        else:
            raise UnsupportedMedia(
                "the body of the request was in an unknown format - accepted media types include: "
                f"{JSON}, {YAML}, {PROTOBUF}"
            )
    except Unreadable as fault:
        words = str(fault) if media != JSON and media else f"couldn't get version/kind; json parse error: {fault}"
        raise BadRequest(f"{unrecognized(kind)}: {words} ({summary(data)})") from fault
    if value is None:
        return {}, twice
    if not isinstance(value, dict):
        raise BadRequest(_not_an_object(value, kind, data))
    _check_head(value, kind, data)
    return value, twice


def _check_head(document: Document, kind: str, data: bytes) -> None:
    """Refuse a version or a kind that is no text, and a version with more than one slash."""
    why = ""
    for name in ("kind", "apiVersion"):
        if not isinstance(found := document.get(name, ""), str) and found is not None:
            shape = NAMES.get(type(found), "object")
            why = f"couldn't get version/kind; json parse error: json: cannot unmarshal {shape} into "
            why += f"Go struct field .{name} of type string"
    if not why and (document.get("apiVersion") or "").count("/") > 1:
        why = f"unexpected GroupVersion string: {document['apiVersion']}"
    if why:
        raise BadRequest(f"{unrecognized(kind)}: {why} ({summary(data)})")


def unrecognized(kind: str) -> str:
    return f"the object provided is unrecognized (must be of type {kind})"


def check_kind_is_said(document: Document, kind: str, data: bytes, content_type: str) -> None:
    """Refuse a body that leaves out its kind; upstream quotes it as JSON, however it was written."""
    if document.get("kind"):
        return
    plain = content_type.startswith(JSON) or not content_type or data.lstrip()[:1] == b"{"
    text = (data if plain else msgspec.json.encode(document, order="sorted")).decode("utf-8", "replace")
    raise BadRequest(f"{unrecognized(kind)}: Object 'Kind' is missing in '{text}' ({summary(data)})")


def read_protobuf(data: bytes, kind: str) -> Document:
    try:
        return wire.read(data)
    except (wire.Malformed, RecursionError) as fault:
        raise BadRequest(f"{unrecognized(kind)}: {fault} ({summary(data)})") from fault


SHOWN = 30  # Upstream: so many bytes of what it could not read


def summary(data: bytes) -> str:
    """The beginning of a body, as a refusal quotes it."""
    if not data:
        return "<empty>"
    shown, cut = data[:SHOWN], " ..." if len(data) > SHOWN else ""
    return (shown.decode("utf-8", "replace") if data[:1] == b"{" else shown.hex()) + cut


NAMES: dict[type, str] = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def _not_an_object(value: object, kind: str, data: bytes) -> str:
    shape = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    why = f"json: cannot unmarshal {NAMES.get(type(value), 'null')} into Go value of type {shape}"
    return f"{unrecognized(kind)}: couldn't get version/kind; json parse error: {why} ({summary(data)})"
