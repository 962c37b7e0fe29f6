"""Documents made alike have the same places: which fields one of them states holds for the next as well.

What controllers write comes from templates: the pods of a Job, the Jobs of a runtime. Such documents differ in plain
values and in the uid of their owner, and only that uid names a place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import msgspec

from allaboard.api.documents import Document
from allaboard.merge.fields import Fields
from allaboard.merge.trees import ABSENT, child_of, step_of
from allaboard.schema.nodes import DEDUCED, LIST, Node
from allaboard.schema.structure import Structure

Sets = tuple[Fields, ...]
Find = Callable[[Document, Structure, Fields], Sets]
MOST_FORMS, MOST_KINDS = 4, 256


class _Form(msgspec.Struct):
    """A document that was looked through, at which door, the uid of its only owner, and the sets that were found."""

    document: Document
    door: Fields
    uid: str
    sets: Sets


class _Kind:
    """The last documents of one kind, and where in it owners are named."""

    __slots__ = ("by_uid", "forms", "metadata", "owners", "root")

    def __init__(self, root: Node) -> None:
        self.root, self.metadata = root, child_of(root, "metadata")
        self.owners = child_of(self.metadata, "ownerReferences")
        self.by_uid = self.owners.list_type == "map" and self.owners.keys == ("uid",)
        self.forms: list[_Form] = []

    def uid(self, document: Document) -> str:
        """The uid of the only owner, by which a path names it; "" where there is no such thing."""
        metadata = document.get("metadata")
        owners = metadata.get("ownerReferences") if type(metadata) is dict else None
        if type(owners) is not list or len(owners) != 1 or not self.by_uid:
            return ""
        uid = owners[0].get("uid") if type(owners[0]) is dict else ""
        return uid if type(uid) is str else ""

    def is_like(self, document: Document, uid: str, form: _Form) -> bool:
        """Whether every walk of a document finds what it found of the form: the same names, as many items of the same
        keys, and everywhere a value of the same type, both empty or both not. The uid of an only owner may differ."""
        if not uid or not form.uid:
            return _like_maps(document, form.document, self.root)
        mine, theirs = document["metadata"], form.document["metadata"]
        (owner,), (other,) = mine["ownerReferences"], theirs["ownerReferences"]
        return (
            _like_maps({**document, "metadata": theirs}, form.document, self.root)
            and _like_maps({**mine, "ownerReferences": theirs["ownerReferences"]}, theirs, self.metadata)
            and _like_maps(owner, other, self.owners.items)
        )

    def sets(self, form: _Form, uid: str) -> Sets:
        """What was found of the form, for another owner."""
        if uid == form.uid:
            return form.sets
        before, now = step_of(self.owners, {"uid": form.uid}), step_of(self.owners, {"uid": uid})
        return tuple([with_owner(fields, before, now) for fields in form.sets])


def found_once(find: Find) -> Find:
    """Remember the sets found of the last documents of each kind: those of documents like them are the same."""
    known: dict[Structure, _Kind] = {}

    @wraps(find)
    def remembering(document: Document, structure: Structure, door: Fields) -> Sets:
        kind = known.get(structure) or _kind(known, structure)
        forms, uid = kind.forms, kind.uid(document)
        for at, form in enumerate(forms):
            if form.door == door and kind.is_like(document, uid, form):
                sets = kind.sets(form, uid)
                del forms[at]
                break
        else:
            sets = find(document, structure, door)
            del forms[MOST_FORMS - 1 :]
        forms.insert(0, _Form(document, door, uid, sets))
        return sets

    return remembering


def _kind(known: dict[Structure, _Kind], structure: Structure) -> _Kind:
    if len(known) >= MOST_KINDS:
        known.clear()
    known[structure] = found = _Kind(structure.root)
    return found


def with_owner(fields: Fields, before: str, now: str) -> Fields:
    """A set in which an owner reference is named by another step."""
    metadata = fields.get("f:metadata", {})
    owners = metadata.get("f:ownerReferences", {})
    if before not in owners:
        return fields
    renamed = {now if step == before else step: place for step, place in owners.items()}
    return {**fields, "f:metadata": {**metadata, "f:ownerReferences": renamed}}


def _like_maps(one: dict[str, Any], other: dict[str, Any], node: Node, keys: tuple[str, ...] = ()) -> bool:
    """The same of two maps; what stands at the keys of a list must be equal as well."""
    if len(one) != len(other):
        return False
    for name, value in one.items():
        there = other.get(name, ABSENT)
        if value is there:
            continue
        kind = type(value)
        if kind is not type(there) or (not value) is not (not there):
            return False
        if name in keys and not _is_one_key(value, there):
            return False
        if kind is dict:
            if not _like_maps(value, there, node.fields.get(name) or node.values or DEDUCED):
                return False
        elif kind is list and not _like_items(value, there, node.fields.get(name) or node.values or DEDUCED):
            return False
    return True


def _like_items(one: list[Any], other: list[Any], node: Node) -> bool:
    if len(one) != len(other):
        return False
    sort = node.list_type if node.shape == LIST else "atomic"
    keys = node.keys if sort == "map" else ()
    for item, there in zip(one, other):
        if item is there:
            continue
        kind = type(item)
        if kind is not type(there) or (not item) is not (not there) or (sort == "set" and not _is_one_key(item, there)):
            return False
        if kind is dict:
            if not _like_maps(item, there, node.items, keys):
                return False
        elif kind is list and not _like_items(item, there, node.items):
            return False
    return True


def _is_one_key(one: Any, other: Any) -> bool:
    """Whether two values of one type name the same item; a number with a point can be equal and spelled otherwise."""
    return type(one) in _PLAIN and one == other


_PLAIN = frozenset({str, int})
