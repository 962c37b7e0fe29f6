"""The rules of an object's metadata, which every kind shares: names, labels, annotations, owners, finalizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from allaboard.api import names
from allaboard.api.documents import Document, same_fields
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

NameRule = Callable[[str], list[str]]
ANNOTATIONS_LIMIT = 256 * 1024
# What a write may never change about an object that exists.
FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def path_segment(text: str) -> list[str]:
    """Names that only have to fit into a URL: roles and their bindings."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in text]


@lru_cache(maxsize=8192)
def label_key(text: str) -> tuple[str, ...]:
    return tuple(names.qualified_name(text))


@lru_cache(maxsize=16384)
def label_value(text: str) -> tuple[str, ...]:
    return tuple(names.label_value(text))


def on_create(document: Document, name_rule: NameRule, *, namespaced: bool) -> list[Cause]:
    """Every breach of metadata in a new object."""
    metadata = document["metadata"]
    found = _names(metadata, name_rule) + _namespace(metadata, namespaced=namespaced)
    return found + always(metadata)


def on_update(new: Document, old: Document, name_rule: NameRule | None = None) -> list[Cause]:
    """Every breach of metadata in a changed object; kinds without a rule of their own are asked only for a path."""
    after, before = new["metadata"], old["metadata"]
    found: list[Cause] = []
    if (prefix := after.get("generateName")) and prefix != before.get("generateName"):
        words = [f"may not contain '{part}'" for part in ("/", "%") if part in prefix]
        found += complaints.all_invalid("metadata.generateName", prefix, words)
        found += _prefix(prefix, name_rule) if name_rule else []
    if before.get("deletionTimestamp"):
        found += _no_new_finalizers(after, before)
    if after.get("generation", 0) < before.get("generation", 0):
        found.append(complaints.invalid("metadata.generation", after.get("generation", 0), "must not be decremented"))
    if not same_fields(after, before, FIXED):
        for field in FIXED:
            new_value, old_value = after.get(field), before.get(field)
            if field == "deletionGracePeriodSeconds" and new_value == 0 and old_value is None:  # 0 is said, too
                found.append(complaints.invalid(f"metadata.{field}", 0, complaints.IMMUTABLE))
            found += complaints.immutable(f"metadata.{field}", new_value, old_value)
    return found + always(after, before)


_NOTHING: Document = {}


def always(metadata: Document, before: Document = _NOTHING) -> list[Cause]:
    """Every breach in what may change; what is as it was `before` was looked at when it came."""
    found = complaints.not_negative("metadata.generation", metadata.get("generation"))
    if (labels := metadata.get("labels")) and labels != before.get("labels"):
        found += label_causes(labels, "metadata.labels")
    if (annotations := metadata.get("annotations")) and annotations != before.get("annotations"):
        found += annotation_causes(annotations, "metadata.annotations")
    if (owners := metadata.get("ownerReferences")) and owners != before.get("ownerReferences"):
        found += _owners(owners)
    if (finalizers := metadata.get("finalizers")) and finalizers != before.get("finalizers"):
        found += _finalizers(finalizers)
    return found + _managers(metadata.get("managedFields") or [])


LONGEST_MANAGER, LONGEST_SUBRESOURCE = 128, 256
_SHORT = LONGEST_MANAGER // 4  # a character is four bytes at most


def _managers(entries: list[Document]) -> list[Cause]:
    found: list[Cause] = []
    for index, entry in enumerate(entries):
        manager, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        if len(manager) <= _SHORT and manager.isprintable() and len(subresource) <= LONGEST_SUBRESOURCE:
            continue  # as nearly all are
        here = f"metadata.managedFields[{index}]"
        if len(manager.encode()) > LONGEST_MANAGER:
            found.append(complaints.too_long(f"{here}.manager", LONGEST_MANAGER))
        if not manager.isprintable():
            found += _unprintable(manager, f"{here}.manager")
        if len(subresource) > LONGEST_SUBRESOURCE:
            found.append(complaints.too_long(f"{here}.subresource", LONGEST_SUBRESOURCE))
    return found


def _unprintable(text: str, field: str) -> list[Cause]:
    """Every character that nobody can print; places are counted in bytes."""
    places = [(len(text[:index].encode()), ord(found)) for index, found in enumerate(text) if not found.isprintable()]
    words = [f"invalid character U+{code:04X} (at position {place})" for place, code in places]
    return complaints.all_invalid(field, text, words)


def _names(metadata: Document, rule: NameRule) -> list[Cause]:
    found: list[Cause] = []
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        found += _prefix(prefix, rule)
    if not name:
        return [*found, complaints.required("metadata.name", "name or generateName is required")]
    return found + complaints.all_invalid("metadata.name", name, rule(name))


def _prefix(prefix: str, rule: NameRule) -> list[Cause]:
    return complaints.all_invalid("metadata.generateName", prefix, rule(masked(prefix)))


def masked(prefix: str) -> str:
    """A prefix as it is checked: a dash at its end will be followed by something."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _namespace(metadata: Document, *, namespaced: bool) -> list[Cause]:
    namespace = metadata.get("namespace") or ""
    if not namespaced:
        return [complaints.forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [complaints.required("metadata.namespace")]
    return complaints.all_invalid("metadata.namespace", namespace, _namespace_words(namespace))


@lru_cache(maxsize=1024)
def _namespace_words(text: str) -> tuple[str, ...]:
    return tuple(names.dns_label(text))


def label_causes(labels: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key, value in labels.items():
        if words := label_key(key):
            found += complaints.all_invalid(field, key, words)
        if words := label_value(value):
            found += complaints.all_invalid(field, value, words)
    return found


def annotation_causes(annotations: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key in annotations:
        if words := annotation_key(key):
            found += complaints.all_invalid(field, key, words)
    return [*found, complaints.too_long(field, ANNOTATIONS_LIMIT)] if is_long(annotations) else found


@lru_cache(maxsize=4096)
def annotation_key(key: str) -> tuple[str, ...]:
    return label_key(key.lower())


def is_long(annotations: Document) -> bool:
    """Counted in bytes, which are four for a character at most: mostly the characters tell."""
    if 4 * (sum(map(len, annotations)) + sum(map(len, annotations.values()))) <= ANNOTATIONS_LIMIT:
        return False
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT


OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def _owners(owners: list[Document]) -> list[Cause]:
    field, found, controller = "metadata.ownerReferences", list[Cause](), ""
    for index, owner in enumerate(owners):
        found += _owner(owner, f"{field}[{index}]")
        if owner.get("controller"):
            name = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                why = 'Only one reference can have Controller set to true. Found "true" in references for '
                listed = [_in_order(owner) for owner in owners]
                found.append(complaints.invalid(field, complaints.Ordered(listed), f"{why}{controller} and {name}"))
            controller = controller or name
    return found


def _in_order(owner: Document) -> Document:
    return {key: owner[key] for key in OWNER_FIELDS if owner.get(key) is not None}


def _owner(owner: Document, here: str) -> list[Cause]:
    missing = [part for part in ("apiVersion", "kind", "name", "uid") if not owner.get(part)]
    found = [complaints.required(f"{here}.{part}", "must not be empty") for part in missing]
    if (owner.get("apiVersion") or "").count("/") > 1 or (owner.get("apiVersion") or "").endswith("/"):
        why = "must be <group>/<version> or <version>"
        found.append(complaints.invalid(f"{here}.apiVersion", owner["apiVersion"], why))
    if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
        why = "/v1, Kind=Event is disallowed from being an owner"
        found.append(complaints.invalid(here, complaints.Ordered(_in_order(owner)), why))
    return found


def _finalizers(finalizers: list[str]) -> list[Cause]:
    field, found = "metadata.finalizers", list[Cause]()
    for finalizer in finalizers:
        found += complaints.all_invalid(field, finalizer, label_key(finalizer))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(complaints.invalid(field, finalizers, why))
    return found


STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def unqualified_finalizers(metadata: Document) -> list[Cause]:
    """Built-in kinds know no finalizers but their own and those of a domain."""
    found = []
    for index, name in enumerate(metadata.get("finalizers") or ()):
        if "/" not in name and name not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(complaints.invalid(f"metadata.finalizers[{index}]", name, why))
    return found


def _no_new_finalizers(after: Document, before: Document) -> list[Cause]:
    extra = sorted(set(after.get("finalizers") or ()) - set(before.get("finalizers") or ()))
    if not extra:
        return []
    listed = ", ".join(complaints.quoted(name) for name in extra)
    why = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [complaints.forbidden("metadata.finalizers", f"{why}[]string{{{listed}}}")]
