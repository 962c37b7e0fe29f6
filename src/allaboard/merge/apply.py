"""Server-side apply: a configuration laid over a live document, and who owns what afterwards.

`apply` answers an apply request, `track` records what any other write changed. Both return the whole new document,
managedFields included, and neither fills in defaults: those come after, and belong to nobody.
Upstream: structured-merge-diff (merge/update.go) and apimachinery's managedfields.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest
from allaboard.merge.conform import complaints
from allaboard.merge.fields import (
    Fields,
    difference,
    from_paths,
    intersection,
    is_subset,
    union,
    without_trees,
)
from allaboard.merge.likeness import Sets, found_once
from allaboard.merge.managers import APPLY, UPDATE, BadEntries, Owner, Owners, capped, conflict, entries_of, owners_of
from allaboard.merge.reconcile import reconciled
from allaboard.merge.refusals import Unmergeable
from allaboard.merge.trees import Comparison, Misfit, compare, field_set, is_same, merge, remove, with_structs
from allaboard.schema.nodes import LIST, MAP, Node
from allaboard.schema.structure import TOO_DEEP, Structure

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_ANNOTATIONS = 256 * 1024
BEFORE = "before-first-apply"
NOTHING: Fields = {}
# What a write to one door never owns: the main door leaves the status alone, the status door the spec, and that of
# a custom resource the metadata too.
STATUS = from_paths([("status",)])
SPEC = from_paths([("spec",)])
SPEC_AND_METADATA = from_paths([("spec",), ("metadata",)])
_NEVER_OWNED = from_paths(
    [("apiVersion",), ("kind",), ("metadata",)]
    + [
        ("metadata", name)
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
            "resourceVersion",
        )
    ]
)  # fmt: skip

_UNOWNED = ("f:apiVersion", "f:kind")


class Actor(msgspec.Struct, frozen=True):
    """Who writes: the field manager, the version of the API it speaks, the door it comes through, and the time."""

    manager: str
    api_version: str
    now: str
    subresource: str = ""
    reset: Fields = {}  # fields this door ignores
    versions: frozenset[str] = frozenset()  # of the kind: who owns fields in another is forgotten

    def owner(self, operation: str, fields: Fields, time: str = "") -> Owner:
        return Owner(self.manager or "unknown", operation, self.api_version, fields, time, self.subresource)


def apply(live: Document | None, config: Document, structure: Structure, actor: Actor, *, force: bool) -> Document:
    """The document after an apply; the live one itself where nothing changed at all, ownership included."""
    node = structure.root
    stated, owned = _stated(config, structure, actor)
    live = live if live is not None else blank(structure)
    try:
        owners = owners_of(live.get("metadata", {}).get("managedFields"), trusted=True)
        owners = reconciled(owners, node) if owners and not structure.lasting else owners
    except BadEntries as problem:
        raise Unmergeable(f"failed to decode managed fields: {problem}") from None
    try:
        laid = _Apply(live, config, node, actor, stated, owned)
        return _synced(config, laid.result(owners, force=force), actor)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None


def _stated(config: Document, structure: Structure, actor: Actor) -> Sets:
    """The fields a configuration states, and those of them that it will own; one that cannot be merged is refused
    before anything else is looked at."""
    metadata = config.get("metadata") or {}
    owners = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if isinstance(owners, list) and all(isinstance(entry, dict) for entry in owners):
        raise BadRequest("metadata.managedFields must be nil")
    try:
        return _fields_of(config, structure, actor.reset)
    except Misfit:
        found = list(complaints(config, structure.root))
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    words = found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {complaint}" for complaint in found)])
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = actor.api_version.rpartition("/")
    named = [name if isinstance(name := metadata.get(part), str) else "" for part in ("namespace", "name")]
    where = f"{'/'.join(named)}; {group}/{version}, Kind={config.get('kind')}"
    raise Unmergeable(f"failed to create typed patch object ({where}): {words}")


@found_once
def _fields_of(config: Document, structure: Structure, reset: Fields) -> Sets:
    stated = without_trees(field_set(config, structure.root, strict=True), reset)
    return stated, _ownable(stated)


class _Apply(msgspec.Struct, frozen=True):
    """One apply on its way: the live document, the configuration, the fields it states and those it will own."""

    live: Document
    config: Document
    node: Node
    actor: Actor
    stated: Fields
    owned: Fields

    def result(self, owners: Owners, *, force: bool) -> Document:
        bare = _without_entries(self.live)
        if not owners and self.live.get("metadata", {}).get("uid"):
            # What was there before anybody applied belongs to a manager of its own.
            first = replace(self.actor, manager=BEFORE, reset=NOTHING)
            owners = _tracked({}, bare, self.node, first, owners)
        identity = self.actor.owner(APPLY, NOTHING).identity
        last = owners.get(identity)
        merged = self.merged(bare, owners, last)
        if owners.keys() - {identity}:
            changes = _seen(compare(bare, merged, self.node), self.actor.reset)
            if not force:
                self.check_conflicts(bare, owners, identity, changes)
            owners = _released(owners, changes)
        mine = self.owner(last, changed=merged is not bare and not is_same(merged, bare))
        left = {key: owner for key, owner in (owners | {identity: mine}).items() if owner.fields}
        return _with_entries(self.live, merged, left)

    def merged(self, bare: Document, owners: Owners, last: Owner | None) -> Document:
        """The live document with the configuration laid over it, and without what it no longer states."""
        merged: Document = merge(bare, self.config, self.node)
        if last is None or last.fields == self.owned or is_subset(last.fields, self.stated):
            return merged
        others = [owner.fields for owner in owners.values() if owner is not last]
        return _pruned(merged, last.fields, [*others, self.stated], self.node)

    def check_conflicts(self, bare: Document, owners: Owners, identity: str, changes: Comparison) -> None:
        taken = _conflicts(owners, identity, changes)
        waived = _waived(bare, self.node, self.actor) if taken else NOTHING
        left = [(owner, rest) for owner, fields in taken if (rest := difference(fields, waived))]
        if left:
            raise conflict(left)

    def owner(self, last: Owner | None, *, changed: bool) -> Owner:
        fields, time = self.owned, self.actor.now if changed else last.time if last else ""
        # The set that is stored already is kept, so that an unchanged document stays the very same.
        return self.actor.owner(APPLY, last.fields if last and last.fields == fields else fields, time)


def _seen(changes: Comparison, reset: Fields) -> Comparison:
    """The changes as a door sees them."""
    if not reset:
        return changes
    removed, modified, added = changes
    return Comparison(without_trees(removed, reset), without_trees(modified, reset), without_trees(added, reset))


def _conflicts(owners: Owners, identity: str, changes: Comparison) -> list[tuple[Owner, Fields]]:
    touched = union(changes.modified, changes.added)
    if not touched:
        return []
    others = [owner for key, owner in owners.items() if key != identity]
    return [(owner, common) for owner in others if (common := intersection(owner.fields, touched))]


def _released(owners: Owners, changes: Comparison) -> Owners:
    """Everybody loses what was changed or is gone; whoever has nothing left is no owner."""
    lost = union(union(changes.modified, changes.added), changes.removed)
    left: Owners = {}
    for key, owner in owners.items():
        fields = difference(owner.fields, lost)
        if fields:
            left[key] = owner if fields is owner.fields else replace(owner, fields=fields)
    return left


def _waived(live: Document, node: Node, actor: Actor) -> Fields:
    """Conflicts that kubectl may ignore: fields that still are what its client-side apply last wrote."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    if actor.manager != "kubectl" or not text:
        return NOTHING
    try:
        last = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return NOTHING
    if not isinstance(last, dict) or last.get("apiVersion") != actor.api_version or any(complaints(last, node)):
        return NOTHING
    found = field_set(last, node)
    for part in compare(last, live, node):
        found = difference(found, part)
    return found


def _pruned(merged: Document, last: Fields, owned: Iterable[Fields], node: Node) -> Document:
    """The merged document without what the applier stated last time and no longer does, unless somebody owns it.

    Three passes, as upstream: take out what was stated; put back what any owner holds; put back what was never the
    applier's. Structs count as owned through what they hold, so that an emptied one disappears.
    """
    stated = with_structs(last, node)
    held = with_structs(field_set(merged, node), node)
    rest = remove(merged, stated, node) or {}
    kept: Fields = with_structs(field_set(rest, node), node)
    for fields in owned:
        kept = union(kept, with_structs(fields, node))
    rest = remove(merged, difference(held, kept), node) or {}
    gone = difference(held, with_structs(field_set(rest, node), node))
    found: Document = remove(merged, intersection(gone, stated), node) or {}
    return found


def track(old: Document | None, new: Document, structure: Structure, actor: Actor) -> Document:
    """The new document with its owners: the actor owns what it changed, everybody else loses it.

    An object that nobody tracks yet is left alone, unless this write creates it. Entries that a client sends back
    count (it may edit them); `[]` and `[{}]` forget them all.
    """
    sent = new.get("metadata", {}).get("managedFields")
    known = old["metadata"].get("managedFields") if old is not None else None
    ours = known is not None and (sent is None or bool(actor.subresource))
    try:
        owners = _believed(known, sent, actor) if known or sent else {}
        bare, tracked = _without_entries(new), bool(owners)
        if tracked and not ours and actor.versions:
            owners = {key: owner for key, owner in owners.items() if owner.api_version in actor.versions}
        if old is None and not owners:
            return _born(bare, structure, actor)
        if tracked:
            before = _without_entries(old) if old is not None else blank(structure)
            owners = owners if ours and structure.lasting else reconciled(owners, structure.root)
            owners = capped(_tracked(before, bare, structure.root, actor, owners))
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    return _with_entries(new, bare, owners)


def _born(new: Document, structure: Structure, actor: Actor) -> Document:
    """A new document with its only owner: whoever wrote it."""
    (fields,) = _written(new, structure, actor.reset)
    if not fields:
        return new
    entry = actor.owner(UPDATE, fields, actor.now).entry()
    return {**new, "metadata": {**(new.get("metadata") or {}), "managedFields": [entry]}}


@found_once
def _written(new: Document, structure: Structure, reset: Fields) -> Sets:
    changes = _seen(compare(blank(structure), new, structure.root), reset)
    return (_ownable(union(changes.modified, changes.added)),)


def _believed(known: Any, sent: Any, actor: Actor) -> Owners:
    """The entries to go on from: those the client sent, if they can be read, else those of the live document."""
    if not actor.subresource and sent is not None:
        if sent in ([], [{}]):
            return {}
        found = _readable(sent, trusted=sent == known)
        if found:
            return found
    return _readable(known, trusted=True)


def _readable(entries: Any, *, trusted: bool) -> Owners:
    try:
        return owners_of(entries, trusted=trusted)
    except BadEntries:
        return {}


def _tracked(old: Document, new: Document, node: Node, actor: Actor, owners: Owners) -> Owners:
    changes = _seen(compare(old, new, node), actor.reset)
    gained = _ownable(union(changes.modified, changes.added))
    owners = _released(owners, changes)
    if gained:
        mine = actor.owner(UPDATE, gained, actor.now)
        before = owners.get(mine.identity)
        owners[mine.identity] = replace(mine, fields=union(gained, before.fields)) if before else mine
    return owners


def _ownable(fields: Fields) -> Fields:
    """`difference(fields, _NEVER_OWNED)`, which every write asks, and nearly always about leaves."""
    found = {step: place for step, place in fields.items() if place or step not in _NEVER_OWNED}
    if metadata := found.get("f:metadata"):
        never = _NEVER_OWNED["f:metadata"]
        found["f:metadata"] = rest = {step: place for step, place in metadata.items() if place or step not in never}
        if not rest.keys().isdisjoint(never):
            return difference(fields, _NEVER_OWNED)
        if not rest:
            del found["f:metadata"]
    return found if found.keys().isdisjoint(_UNOWNED) else difference(fields, _NEVER_OWNED)


def _without_entries(document: Document) -> Document:
    metadata = document.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return document
    metadata = dict(metadata)
    del metadata["managedFields"]
    return {**document, "metadata": metadata}


def _with_entries(document: Document, bare: Document, owners: Owners) -> Document:
    """The document with these owners; the one that was given where both are what they were."""
    entries = entries_of(owners)
    metadata = document.get("metadata") or {}
    if (entries or None) == metadata.get("managedFields") and is_same(_without_entries(document), bare):
        return document
    stated = bare.get("metadata") or {}
    return {**bare, "metadata": {**stated, "managedFields": entries} if entries else dict(stated)}


def _synced(config: Document, new: Document, actor: Actor) -> Document:
    """kubectl keeps the annotation of its client-side apply in step, where there is one."""
    if actor.manager != "kubectl":
        return new
    metadata = new.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return new
    own = dict(config.get("metadata") or {})
    if own.get("annotations"):
        own["annotations"] = {key: value for key, value in own["annotations"].items() if key != LAST_APPLIED}
    text = msgspec.json.encode({**config, "metadata": own}, order="sorted").decode() + "\n"
    if annotations[LAST_APPLIED] == text:
        return new
    synced = {**annotations, LAST_APPLIED: text}
    if sum(len(key) + len(value) for key, value in synced.items()) > LONGEST_ANNOTATIONS:
        del synced[LAST_APPLIED]
    return {**new, "metadata": {**metadata, "annotations": synced}}


@lru_cache(maxsize=256)
def blank(structure: Structure) -> Document:
    """The document before it was created: what Go prints of an empty object of a built-in kind, nothing for others."""
    return _blank(structure.root) if structure.is_builtin else {}


def _blank(node: Node) -> Document:
    found: Document = {}
    for name, schema in (node.schema.get("properties") or {}).items():
        if "default" in schema:
            child = node.fields[name]
            found[name] = _blank(child) if child.shape == MAP and child.fields else schema["default"]
        elif name in (node.schema.get("required") or ()) and node.fields[name].shape in (LIST, MAP):
            found[name] = None
    return found


def ignoring_times(old: Document, new: Document) -> Document:
    """The old document where a write changed nothing but the times of managedFields: such a write is none."""
    if old.keys() != new.keys() or any(old[part] != new[part] for part in old if part != "metadata"):
        return new
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    same = {key: value for key, value in before.items() if key not in _MOVING} == {
        key: value for key, value in after.items() if key not in _MOVING
    }
    return old if same and _timeless(before) == _timeless(after) else new


_MOVING = frozenset({"managedFields", "resourceVersion"})


def _timeless(metadata: Document) -> Any:
    """The entries without their times and without an order."""
    entries = metadata.get("managedFields") or []
    names = ("manager", "operation", "apiVersion", "subresource")
    return {tuple(entry.get(name) for name in names): entry.get("fieldsV1") for entry in entries}


__all__ = ["LAST_APPLIED", "SPEC", "SPEC_AND_METADATA", "STATUS", "Actor", "apply", "blank", "ignoring_times", "track"]
