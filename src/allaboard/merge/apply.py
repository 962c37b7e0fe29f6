"""Server-side apply: a configuration laid over a live document, and who owns what afterwards.

`apply` answers an apply request, `track` records what any other write changed. Both return the whole new document,
managedFields included, and neither fills in defaults: those come after, and belong to nobody.
Upstream: structured-merge-diff (merge/update.go) and apimachinery's managedfields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


_NO_CHANGES = Comparison({}, {}, {})


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
    stated = _stated(config, node, actor)
    live = live if live is not None else blank(structure)
    try:
        owners = owners_of(live.get("metadata", {}).get("managedFields"), trusted=True)
        owners = owners if structure.lasting else reconciled(owners, node)
    except BadEntries as problem:
        raise Unmergeable(f"failed to decode managed fields: {problem}") from None
    try:
        laid = _Apply(live, config, node, actor, stated, difference(stated, _NEVER_OWNED))
        return _synced(config, laid.result(owners, force=force), actor)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None


def _stated(config: Document, node: Node, actor: Actor) -> Fields:
    """The fields a configuration states; one that cannot be merged is refused before anything else is looked at."""
    metadata = config.get("metadata") or {}
    owners = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if isinstance(owners, list) and all(isinstance(entry, dict) for entry in owners):
        raise BadRequest("metadata.managedFields must be nil")
    try:
        return without_trees(field_set(config, node, strict=True), actor.reset)
    except Misfit:
        found = list(complaints(config, node))
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    words = found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {complaint}" for complaint in found)])
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = actor.api_version.rpartition("/")
    named = [name if isinstance(name := metadata.get(part), str) else "" for part in ("namespace", "name")]
    where = f"{'/'.join(named)}; {group}/{version}, Kind={config.get('kind')}"
    raise Unmergeable(f"failed to create typed patch object ({where}): {words}")


@dataclass(frozen=True, slots=True)
class _Apply:
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
        alone = not owners.keys() - {identity}
        changes = _NO_CHANGES if alone else _seen(compare(bare, merged, self.node), self.actor)
        if not force:
            self.check_conflicts(bare, owners, identity, changes)
        owners = _released(owners, identity, changes)
        owners[identity] = self.owner(last, changed=merged is not bare and not is_same(merged, bare))
        return _with_entries(self.live, merged, {key: owner for key, owner in owners.items() if owner.fields})

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


def _seen(changes: Comparison, actor: Actor) -> Comparison:
    """The changes as this door sees them."""
    return Comparison(*(without_trees(part, actor.reset) for part in changes)) if actor.reset else changes


def _conflicts(owners: Owners, identity: str, changes: Comparison) -> list[tuple[Owner, Fields]]:
    touched = union(changes.modified, changes.added)
    if not touched:
        return []
    others = [owner for key, owner in owners.items() if key != identity]
    return [(owner, common) for owner in others if (common := intersection(owner.fields, touched))]


def _released(owners: Owners, identity: str, changes: Comparison) -> Owners:
    """Everybody else loses what was changed, and everybody what is gone."""
    lost = union(union(changes.modified, changes.added), changes.removed)
    if not lost:
        return dict(owners)
    return {
        key: owner if key == identity else replace(owner, fields=difference(owner.fields, lost))
        for key, owner in owners.items()
    }


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
        owners = _believed(known, sent, actor)
        bare, tracked = _without_entries(new), bool(owners)
        if not ours and actor.versions:
            owners = {key: owner for key, owner in owners.items() if owner.api_version in actor.versions}
        if old is None and not owners:
            owners = _first(bare, structure, actor)
        elif tracked or old is None:
            before = _without_entries(old) if old is not None else blank(structure)
            owners = owners if ours and structure.lasting else reconciled(owners, structure.root)
            owners = capped(_tracked(before, bare, structure.root, actor, owners))
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    return _with_entries(new, bare, owners)


_LAST: dict[tuple[Structure, bool], tuple[Document, Owners]] = {}  # of each kind and door, what was tracked last
_MOST_KINDS = 1024


def _first(new: Document, structure: Structure, actor: Actor) -> Owners:
    """The owner of a new document; one that follows its twin (an event, a pod of one template) is owned as that is."""
    if actor.subresource:
        return _tracked(blank(structure), new, structure.root, actor, {})
    door = (structure, bool(actor.reset))
    last, owners = _LAST.get(door, (None, {}))
    if last is None or not _are_twins(new, last):
        owners = _tracked(blank(structure), new, structure.root, actor, {})
        if len(_LAST) >= _MOST_KINDS:
            _LAST.clear()
    _LAST[door] = (new, owners)
    return {mine.identity: mine for owner in owners.values() if (mine := actor.owner(UPDATE, owner.fields, actor.now))}


def _are_twins(one: Document, other: Document) -> bool:
    """Whether two documents have the same places: they differ in plain texts at most, and in no list."""
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        there = other[name]
        if value is there or (type(value) is str and type(there) is str and value and there):
            continue
        if not (_are_twins(value, there) if type(value) is dict and type(there) is dict else value == there):
            return False
    return True


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
    changes = _seen(compare(old, new, node), actor)
    gained = _ownable(union(changes.modified, changes.added))
    owners = {key: owner for key, owner in _released(owners, "", changes).items() if owner.fields}
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
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


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
    metadata = new.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if actor.manager != "kubectl" or not annotations.get(LAST_APPLIED):
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
