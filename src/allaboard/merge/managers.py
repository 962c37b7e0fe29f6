"""Who owns which fields: the entries of managedFields as values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from allaboard.api.documents import Document
from allaboard.api.errors import Cause, Conflict
from allaboard.merge.fields import Fields, is_well_formed, members, spelled, union

MOST_UPDATERS = 10
ANCIENT = "ancient-changes"
APPLY, UPDATE = "Apply", "Update"


class Owner(msgspec.Struct, frozen=True):
    """One entry: a manager, what it did, through which door, in which version of the API, and the fields it owns."""

    manager: str
    operation: str
    api_version: str
    fields: Fields
    time: str = ""
    subresource: str = ""

    @property
    def identity(self) -> str:
        """What makes two entries the same one; applied sets move along with the version, updates do not."""
        return _identity(self.manager, self.operation, self.api_version, self.subresource)

    def entry(self) -> Document:
        """The entry as documents carry it."""
        found: Document = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if not self.manager:
            del found["manager"]
        if self.time:
            found["time"] = self.time
        found["fieldsType"] = "FieldsV1"
        found["fieldsV1"] = self.fields
        if self.subresource:
            found["subresource"] = self.subresource
        return found

    def title(self) -> str:
        """How a conflict names this owner."""
        text = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            text += f" with subresource {msgspec.json.encode(self.subresource).decode()}"
        return text if self.operation == APPLY else f"{text} using {self.api_version}"


Owners = dict[str, Owner]


@lru_cache(maxsize=4096)  # few writers write everything
def _identity(manager: str, operation: str, api_version: str, subresource: str) -> str:
    parts: Document = {"manager": manager, "operation": operation}
    if operation != APPLY:
        parts["apiVersion"] = api_version
    if subresource:
        parts["subresource"] = subresource
    return msgspec.json.encode(parts).decode()


class BadEntries(ValueError):
    """Entries that no API server wrote."""


def owners_of(entries: Any, *, trusted: bool = False) -> Owners:
    """The owners a document's managedFields name; raises `BadEntries` for what cannot be read.

    Entries that we wrote ourselves are trusted to hold sets; those of a client are looked through.
    """
    found: Owners = {}
    for entry in entries or ():
        owner = _owner(entry, trusted=trusted)
        found[owner.identity] = owner
    return found


def _owner(entry: Any, *, trusted: bool) -> Owner:
    if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
        raise BadEntries("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise BadEntries("apiVersion must not be empty")
    fields = entry.get("fieldsV1")
    fields = {} if fields is None else fields
    if entry.get("fieldsType") != "FieldsV1" or not (trusted or is_well_formed(fields)):
        raise BadEntries("fieldsV1 must be a set of fields")
    name, version = str(entry.get("manager") or ""), str(entry["apiVersion"])
    return Owner(name, entry["operation"], version, fields, entry.get("time") or "", entry.get("subresource") or "")


def entries_of(owners: Owners) -> list[Document]:
    """The owners as managedFields lists them: applied first, then by time, name, version and subresource."""
    if len(owners) == 1:
        return [owner.entry() for owner in owners.values()]
    ordered = sorted(
        owners.values(),
        key=lambda owner: (owner.operation, owner.time, owner.manager, owner.api_version, owner.subresource),
    )
    return [owner.entry() for owner in ordered]


def capped(owners: Owners) -> Owners:
    """At most ten updaters: the oldest are put together under one name, per version. Upstream: capmanagers.go."""
    if len(owners) <= MOST_UPDATERS:
        return owners
    updaters = sorted(
        (owner for owner in owners.values() if owner.operation == UPDATE),
        key=lambda owner: (owner.time, owner.identity),
    )
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return owners
    out, first = dict(owners), dict[str, Owner]()
    for owner in updaters:
        if surplus <= 0:
            break
        known = first.setdefault(owner.api_version, owner)
        if known is owner:
            continue
        bucket = replace(owner, manager=ANCIENT, subresource="")
        if bucket.identity not in out:
            out[bucket.identity] = replace(bucket, fields=out.pop(known.identity).fields)
        joined = union(owner.fields, out[bucket.identity].fields)
        out.pop(owner.identity)
        out[bucket.identity] = replace(bucket, fields=joined)
        surplus -= 1
    return out


def conflict(found: Iterable[tuple[Owner, Fields]]) -> Conflict:
    """The refusal of an apply: one cause per field somebody else owns."""
    pairs = [
        (owner, path)
        for owner, fields in sorted(found, key=lambda pair: pair[0].identity)
        for path in map(spelled, members(fields))
    ]
    causes = [Cause("FieldManagerConflict", path, f"conflict with {owner.title()}") for owner, path in pairs]
    return Conflict(_sentence(pairs), causes=causes)


def _sentence(pairs: Sequence[tuple[Owner, str]]) -> str:
    if len(pairs) == 1:
        owner, path = pairs[0]
        return f"Apply failed with 1 conflict: conflict with {owner.title()}: {path}"
    lines: list[str] = []
    for owner, path in pairs:
        heading = f"conflicts with {owner.title()}:"
        if heading not in lines:
            lines.append(heading)
        lines.append(f"- {path}")
    return f"Apply failed with {len(pairs)} conflicts: " + "\n".join(lines)
