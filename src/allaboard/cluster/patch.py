"""Patch: part of a document changes; server-side apply: a manager states what it wants, and owns what it stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from allaboard.api.documents import Document, Key, without
from allaboard.api.errors import BadRequest, Cause, Invalid
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.body import NAMES
from allaboard.cluster.create import MOST_REVISIONS, born, placed, put_admitted
from allaboard.cluster.intake import Malformed, accept, check_kind, single_owners
from allaboard.cluster.ownership import applied, track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import Happening, Item
from allaboard.cluster.update import change, check_revision, handed_back, unparsed
from allaboard.cluster.versions import ready, served
from allaboard.merge.patch import json_patch, merge_patch
from allaboard.merge.strategic import strategic_merge

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch and how to read it."""

    type: str
    body: object
    duplicates: Sequence[str] = ()


async def patch(cluster: Cluster, place: Place, patch: Patch, ask: Ask) -> Item:
    """Change part of a document."""

    def build(old: Document) -> Document:
        patched = patched_document(place, patch, old)
        known = handed_back(patched, old) if place.subresource == "status" else {}
        accepted = single_owners(accept_patched(place, patched, ask, patch, known), ask, patched=True)
        check_revision(place, accepted, old, required=not place.rules.unconditional_update)
        return track(place, accepted, old, ask, cluster.world.now())

    return await change(cluster, place, build, ask)


def patched_document(place: Place, patch: Patch, old: Document) -> Document:
    """The document with the patch laid over it."""
    body: Any = patch.body
    if patch.type == JSON:
        patched = json_patch(old, body)
    elif patch.type == STRATEGIC:
        patched = strategic_merge(old, body, place.rules.structure.root)
    else:
        patched = merge_patch(old, body)
    if not isinstance(patched, dict):
        raise BadRequest("the patch leaves no object")
    return patched


def accept_patched(place: Place, patched: Document, ask: Ask, patch: Patch, known: Document) -> Document:
    """Upstream: what a patch makes is decoded too, but refused as invalid, quoting the whole result.

    Parts that are `known` are as they were stored."""
    rules = place.rules
    version, kind = patched.get("apiVersion") or rules.kind.api_version, patched.get("kind") or rules.kind.kind
    metadata = {} if patched.get("metadata") is None else patched["metadata"]
    if not isinstance(metadata, dict):
        raise _no_metadata(place, patch, patched)
    if metadata.get("namespace") in (None, "") and place.key.namespace:
        metadata = {**metadata, "namespace": place.key.namespace}
    if patch.type != STRATEGIC and not rules.custom and patched.get("kind") and not patched.get("apiVersion"):
        # Upstream: without a version no field is known, not even the name.
        fields = sorted(name for name in patched if name not in ("apiVersion", "kind"))
        if ask.validation == "Warn":
            ask.warnings.extend(f'unknown field "{name}"' for name in fields)
        check_names(place, {"metadata": {}})
    patched = {**patched, "apiVersion": version, "kind": kind, "metadata": metadata}
    try:
        check_type(place, patched, ask)
        decoded = accept(rules, {**patched, **{part: {} for part in known}}, ask, patch.duplicates, ordered=True)
    except Malformed as error:
        if patch.type == STRATEGIC:
            raise _invalid_patch(_printed(patch.body), error.unconvertible) from error
        raise _invalid_patch(_quoted(place, patched, patch), error.message) from error
    except BadRequest as error:
        raise _invalid_patch(_quoted(place, patched, patch), error.message) from error
    accepted = {**decoded, **known}
    check_names(place, accepted)
    return accepted if place.key.namespace else _nowhere(accepted)


def _nowhere(document: Document) -> Document:
    """What lies in no namespace says so."""
    metadata = document["metadata"]
    return {**document, "metadata": without(metadata, "namespace")} if "namespace" in metadata else document


_GO_KINDS: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice"}


def _no_metadata(place: Place, patch: Patch, patched: Document) -> Invalid:
    """A patch that leaves something else than a map where metadata was."""
    found = patched["metadata"]
    if patch.type == STRATEGIC:
        return _invalid_patch(_printed(patch.body), f"cannot restore struct from: {_GO_KINDS[type(found)]}")
    where = "value" if place.rules.custom else f"struct field {place.rules.kind.kind}.metadata"
    why = f"json: cannot unmarshal {NAMES[type(found)]} into Go {where} of type v1.ObjectMeta"
    return _invalid_patch(_quoted(place, patched, patch), why)


def check_type(place: Place, patched: Document, ask: Ask) -> None:
    """A patch may not make another kind of an object."""
    kind, named = place.rules.kind, patched["kind"]
    if not place.rules.custom:
        check_kind(place.rules, patched, ask)
    elif named != kind.kind:
        words = f'Invalid value: "{named}": must be {kind.kind}'
        other = replace(kind, kind=str(named))
        raise refusals.invalid(other, place.key.name, [Cause("FieldValueInvalid", "kind", words)])
    elif patched["apiVersion"] != kind.api_version:
        words = f'Invalid value: "{patched["apiVersion"]}": must be {kind.api_version}'
        raise refusals.invalid(kind, place.key.name, [Cause("FieldValueInvalid", "apiVersion", words)])


def check_names(place: Place, patched: Document) -> None:
    metadata, key = patched["metadata"], place.key
    if not metadata.get("name"):
        raise refusals.nameless(key.name)
    if metadata["name"] != key.name:
        raise BadRequest(f"the name of the object ({metadata['name']}) does not match the name on the URL ({key.name})")
    if key.namespace and (metadata.get("namespace") or key.namespace) != key.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _quoted(place: Place, patched: Document, patch: Patch) -> str:
    """What the refusal of a patch quotes: the patched object, or the patch where that was the trouble."""
    if patch.type == STRATEGIC:
        return _printed(patch.body)
    if place.rules.custom:
        return msgspec.json.encode(patched, order="sorted").decode().replace("\\", "\\\\").replace('"', '\\"')
    touched = patch.body if patch.type == MERGE else _touched(patch.body)
    return msgspec.json.encode(_sorted_along(patched, touched)).decode().replace("\\", "\\\\").replace('"', '\\"')


def _sorted_along(value: object, touched: object) -> object:
    """Upstream: what a patch went through has its keys by the alphabet, everything else as it was kept."""
    if not isinstance(value, dict) or not isinstance(touched, dict):
        return value
    return {key: _sorted_along(value[key], touched.get(key)) for key in sorted(value)}


def _touched(operations: object) -> Document:
    """The places that a JSON patch names, as a tree."""
    tree: Document = {}
    for operation in operations if isinstance(operations, list) else ():
        at = tree
        for step in str(operation.get("path", "")).split("/")[1:-1]:
            at = at.setdefault(step.replace("~1", "/").replace("~0", "~"), {})
    return tree


def _printed(body: object) -> str:
    return msgspec.json.encode(go_text(body)).decode()[1:-1]


def go_text(value: object) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def _invalid_patch(quoted: str, message: str) -> Invalid:
    """Upstream knows no kind and no name here."""
    _, handled, why = message.partition(" cannot be handled as a ")
    why = why.partition(": ")[2] if handled else message
    words = f'Invalid value: "{quoted}": {why}'
    return Invalid(f' "" is invalid: patch: {words}', causes=[Cause("FieldValueInvalid", "patch", words)])


def _said_twice(twice: Sequence[str], ask: Ask) -> None:
    """Refuse or warn about keys that a configuration says twice; upstream does so once everything else is well."""
    if twice and ask.validation == "Strict":
        lines = "\n  ".join(twice)
        what = "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:"
        raise BadRequest(f"{what}\n  {lines}")
    if twice and ask.validation == "Warn":
        ask.warnings.extend(twice)


async def apply(
    cluster: Cluster, place: Place, config: Document, ask: Ask, twice: Sequence[str] = ()
) -> tuple[Item, bool]:
    """Server-side apply; the second value says whether the object is new."""
    config = stated(place, config)
    before = cluster.latest(place)
    memory = (place, ask.manager, ask.force)
    if before is not None and cluster.repeats(memory, config, before):
        await ready(place.rules, (before,), cluster.store)
        return served(place.rules, before, cluster.store), False
    if before is None:
        if place.subresource:
            raise refusals.not_found(place.rules.kind, place.key.name)
        return await _create(cluster, place, config, ask, twice), True

    def build(old: Document) -> Document:
        unsaid = place.rules.unconditional_update or "resourceVersion" not in config["metadata"]
        check_revision(place, config, old, required=not unsaid)
        merged = applied(place, config, old, ask, cluster.world.now())
        merged = _at_home(place, config, merged, old)
        _said_twice(twice, ask)
        return old if merged is old else _accepted(place, merged, ask, config)

    item = await change(cluster, place, build, ask)
    if item is before and not ask.warnings:
        cluster.remember(memory, config, before)
    return item, False


async def begin_apply(cluster: Cluster, place: Place, config: Document, ask: Ask) -> Happening:
    """The change that an apply is whose object does not exist yet; the caller commits it at once."""
    document = _first_state(cluster, place, stated(place, config), ask, ())
    return await put_admitted(cluster, _unnamed(place), document, ask)


async def _create(cluster: Cluster, place: Place, config: Document, ask: Ask, twice: Sequence[str]) -> Item:
    return await born(cluster, _unnamed(place), _first_state(cluster, place, config, ask, twice), ask)


def _unnamed(place: Place) -> Place:
    """The collection an object is created in."""
    return place._replace(key=Key(place.key.namespace, ""))


def _first_state(cluster: Cluster, place: Place, config: Document, ask: Ask, twice: Sequence[str]) -> Document:
    metadata, revision = config["metadata"], config["metadata"].get("resourceVersion")
    if isinstance(revision, str):  # another type is the merge's to refuse
        metadata = without(metadata, "resourceVersion")
        if revision and not (revision.isdecimal() and int(revision) < MOST_REVISIONS):
            raise refusals.bare(500, unparsed(revision))
    merged = applied(place, {**config, "metadata": metadata}, None, ask, cluster.world.now())
    check_names(place, merged)
    if uid := metadata.get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise refusals.conflict(place.rules.kind, place.key.name, why)
    _said_twice(twice, ask)
    return _accepted(place, placed(place, merged), ask, config)


# What an apply of a custom kind may say as it likes: upstream does not read it.
_UNREAD = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def _accepted(place: Place, merged: Document, ask: Ask, config: Document) -> Document:
    """What an apply makes, decoded; upstream converts what was merged, and gives up where that does not go."""
    try:
        return accept(place.rules, merged, ask, applied=True)
    except Malformed as error:
        if not place.rules.custom:
            kind, metadata = place.rules.kind, config["metadata"]
            name = f"{_group_of(kind.api_version)}, Kind={kind.kind}"
            said = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
            what = f"failed to convert new object ({said}; {name})"
            why = f"unable to convert unstructured object to {name}: {error.unconvertible}"
            raise refusals.bare(500, f"{what} to proper version: {why}") from error
        readable = {key: value for key, value in merged["metadata"].items() if key not in _UNREAD}
        return accept(place.rules, {**merged, "metadata": readable}, ask, applied=True)


def _group_of(version: str) -> str:
    return version if "/" in version else f"/{version}"


def stated(place: Place, config: Document) -> Document:
    """The configuration of an object of this kind; another is refused."""
    kind = place.rules.kind
    version, name = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if (version, name) != (kind.api_version, kind.kind):
        raise BadRequest(f"invalid object type: {_group_of(version)}, Kind={name}")
    metadata = {} if config.get("metadata") is None else config["metadata"]
    if not isinstance(metadata, dict):
        what = f"failed to create typed patch object (/; {_group_of(version)}, Kind={name})"
        raise refusals.bare(500, f"{what}: .metadata: expected map, got &{{{go_text(metadata)}}}")
    if metadata.get("namespace", "") is None:
        metadata = without(metadata, "namespace")
    if place.rules.custom:
        unread = {name for name in _UNREAD[:2] if isinstance(metadata.get(name, ""), int | float)}
        metadata = {name: value for name, value in metadata.items() if name not in unread} if unread else metadata
    return {**config, "metadata": metadata}


def _at_home(place: Place, config: Document, merged: Document, old: Document) -> Document:
    """What an apply makes, where it is the object of this place; upstream looks at that after the conflicts."""
    if config["metadata"].get("generateName") and not config["metadata"].get("name"):
        check_names(place, config)
    if merged is old:
        return old
    if merged["metadata"].get("namespace") == "" and place.key.namespace:
        merged = {**merged, "metadata": {**merged["metadata"], "namespace": place.key.namespace}}
    check_names(place, merged)
    return merged if place.key.namespace else _nowhere(merged)
