"""Patch: part of a document changes; server-side apply: a manager states what it wants, and owns what it stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest, Cause, Invalid
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.create import born
from allaboard.cluster.intake import accept
from allaboard.cluster.ownership import applied, track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import Item, encode
from allaboard.cluster.update import change, check_revision
from allaboard.merge.patch import json_patch, merge_patch, strategic_merge

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
        accepted = accept_patched(place, patched, ask, patch.duplicates)
        check_revision(place, accepted, old)
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


def accept_patched(place: Place, patched: Document, ask: Ask, duplicates: Sequence[str]) -> Document:
    """Upstream: what a patch makes is decoded strictly too, but refused as invalid, quoting the whole result."""
    rules = place.rules
    metadata = patched.get("metadata")
    if not isinstance(metadata, dict):
        patched = {**patched, "metadata": {}}
    try:
        return accept(rules, patched, ask, duplicates)
    except BadRequest as error:
        marker = "strict decoding error: "
        if marker not in error.message:
            raise
        text = encode(patched).decode().replace("\\", "\\\\").replace('"', '\\"')
        words = f'Invalid value: "{text}": {marker}{error.message.partition(marker)[2]}'
        raise _invalid_patch(place, words) from error


def _invalid_patch(place: Place, words: str) -> Invalid:
    return refusals.invalid(place.rules.kind, place.key.name, [Cause("FieldValueInvalid", "patch", words)])


async def apply(cluster: Cluster, place: Place, config: Document, ask: Ask) -> tuple[Item, bool]:
    """Server-side apply; the second value says whether the object is new."""
    config = stated(place, config)
    if cluster.latest(place) is None:
        if place.subresource:
            raise refusals.not_found(place.rules.kind, place.key.name)
        return await _create(cluster, place, config, ask), True

    def build(old: Document) -> Document:
        check_revision(place, config, old)
        merged = applied(place, config, old, ask, cluster.world.now())
        return old if merged is old else accept(place.rules, merged, ask)

    return await change(cluster, place, build, ask), False


async def _create(cluster: Cluster, place: Place, config: Document, ask: Ask) -> Item:
    metadata = {name: value for name, value in config["metadata"].items() if name != "resourceVersion"}
    merged = applied(place, {**config, "metadata": metadata}, None, ask, cluster.world.now())
    document = accept(place.rules, merged, ask)
    return await born(cluster, place._replace(key=Key(place.key.namespace, "")), document, ask)


def stated(place: Place, config: Document) -> Document:
    """The configuration of the object at this place; another kind or name is refused."""
    kind = place.rules.kind
    version, name = config.get("apiVersion") or "", config.get("kind") or ""
    if (version, name) != (kind.api_version, kind.kind):
        group = version if "/" in version else f"/{version}"
        raise BadRequest(f"invalid object type: {group}, Kind={name}")
    metadata = config.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    named = metadata.setdefault("name", place.key.name)
    if named != place.key.name:
        raise BadRequest(f"the name of the object ({named}) does not match the name on the URL ({place.key.name})")
    if place.key.namespace:
        where = metadata.setdefault("namespace", place.key.namespace)
        if where != place.key.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    return {**config, "metadata": metadata}
