"""Metadata as values: names, owners, times and conditions of a document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from allaboard.api.documents import Document, Key, same_fields
from allaboard.api.kinds import Kind

_ASKED = ("uid", "generation", "labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")
_NONE: Document = {}


def name_of(document: Document) -> str:
    return str(document.get("metadata", _NONE).get("name", ""))


def namespace_of(document: Document) -> str:
    return str(document.get("metadata", _NONE).get("namespace", ""))


def key_of(document: Document) -> Key:
    metadata = document.get("metadata", _NONE)
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))


def uid_of(document: Document) -> str:
    return str(document.get("metadata", _NONE).get("uid", ""))


def revision_of(document: Document) -> str:
    return str(document.get("metadata", _NONE).get("resourceVersion", ""))


def labels_of(document: Document) -> dict[str, str]:
    return document.get("metadata", _NONE).get("labels") or {}


def annotations_of(document: Document) -> dict[str, str]:
    return document.get("metadata", _NONE).get("annotations") or {}


def is_leaving(document: Document) -> bool:
    """Deletion was asked for; finalizers or a grace period still hold the object."""
    return bool(document.get("metadata", _NONE).get("deletionTimestamp"))


def asks_the_same(old: Document, new: Document) -> bool:
    """Whether two states of an object differ in status alone; its generation must count the changes of its spec."""
    return "generation" in new["metadata"] and same_fields(old["metadata"], new["metadata"], _ASKED)


def owner_reference(owner: Document, *, controller: bool = True) -> Document:
    """How a child names the object it belongs to."""
    reference: Document = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
    }
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controller else reference


def owners_of(document: Document) -> list[Document]:
    return document.get("metadata", _NONE).get("ownerReferences") or []


def controller_of(document: Document) -> Document | None:
    """The one owner reference that manages this object, if any."""
    for owner in owners_of(document):
        if owner.get("controller"):
            return owner
    return None


def is_controlled_by(document: Document, owner: Document) -> bool:
    reference = controller_of(document)
    return reference is not None and reference.get("uid") == uid_of(owner)


def refers_to(reference: Document, kind: Kind) -> bool:
    """Whether an owner reference (or any apiVersion/kind pair) names this kind, in any version of its group."""
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    return reference.get("kind") == kind.kind and group == kind.group


def stamp(moment: datetime) -> str:
    """A moment as metadata writes it: UTC, whole seconds."""
    since = moment.astimezone(UTC) - _EPOCH
    return _stamped(since.days * 86_400 + since.seconds)


@lru_cache(maxsize=64)  # everything written in one second says so in the same text
def _stamped(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19] + "Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=64)  # events of one pass happen at one moment
def micro_stamp(moment: datetime) -> str:
    """A moment as leases and event series write it: UTC, microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: str) -> datetime:
    """The moment a stamp names."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def condition_of(document: Document, type_: str) -> Document | None:
    """The condition of this type in the document's status, if it was ever set."""
    conditions: list[Document] = (document.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def is_true(document: Document, type_: str) -> bool:
    condition = condition_of(document, type_)
    return condition is not None and condition.get("status") == "True"


def with_condition(conditions: Sequence[Document], new: Document, now: datetime) -> list[Document]:
    """The conditions with one set: the transition time moves only when its status does."""
    old = next((condition for condition in conditions if condition.get("type") == new["type"]), None)
    if old is None:
        return [*conditions, {"lastTransitionTime": stamp(now), **new}]
    moved = old.get("status") != new.get("status")
    since: Any = new.get("lastTransitionTime") or (stamp(now) if moved else old.get("lastTransitionTime"))
    merged = {**old, **new, "lastTransitionTime": since}
    return [merged if condition is old else condition for condition in conditions]
