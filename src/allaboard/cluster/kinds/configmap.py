"""ConfigMap: keys that can be file names, a size limit, and immutability once declared."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

LIMIT = 1024 * 1024
SETTLED = "field is immutable when `immutable` is set"


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    data, binary, found = new.get("data") or {}, new.get("binaryData") or {}, list[Cause]()
    size = 0
    for key, value in data.items():
        found += complaints.all_invalid(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            found.append(complaints.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value.encode())
    for key, value in binary.items():
        found += complaints.all_invalid(f"binaryData[{key}]", key, names.config_key(key))
        size += len(value) * 3 // 4
    if size > LIMIT:
        found.append(complaints.too_long("", LIMIT))
    return found if old is None else found + settled(new, old, ("data", "binaryData"))


def settled(new: Document, old: Document, parts: tuple[str, ...]) -> list[Cause]:
    """What may not change once an object says that it is immutable."""
    if not old.get("immutable"):
        return []
    found = [complaints.forbidden("immutable", SETTLED)] if not new.get("immutable") else []
    return found + [
        complaints.forbidden(part, SETTLED) for part in parts if not complaints.same(new.get(part), old.get(part))
    ]


def row(document: Document, now: datetime) -> list[object]:
    count = len(document.get("data") or {}) + len(document.get("binaryData") or {})
    return [shown.name_of(document), count, shown.age_of(document, now)]


DATA = column("Data", "How many entries the object holds; their values are not shown here but with the object itself.")

RULES: tuple[Rules, ...] = (
    replace(built_in(kinds.CONFIG_MAP), check=check, columns=(shown.NAME, DATA, shown.AGE), row=row),
)
