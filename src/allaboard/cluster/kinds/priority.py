"""PriorityClass: a name for a number; the number is settled once given."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.podspec import PREEMPTION
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

HIGHEST = 1_000_000_000
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def default(document: Document) -> Document:
    return {"preemptionPolicy": "PreemptLowerPriority", **document}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    name, value = new["metadata"].get("name", ""), new.get("value") or 0
    found: list[Cause] = []
    if name.startswith("system-"):
        found += _system(name, value)
    elif value > HIGHEST:
        why = f"maximum allowed value of a user defined priority is {HIGHEST}"
        found.append(complaints.forbidden("value", why))
    policy = new.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION:
        found.append(complaints.not_supported("preemptionPolicy", policy, PREEMPTION))
    if old is None:
        return found
    if value != (old.get("value") or 0):
        found.append(complaints.forbidden("value", "may not be changed in an update."))
    return found + complaints.immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))


def _system(name: str, value: int) -> list[Cause]:
    if SYSTEM.get(name) == value:
        return []
    error = f"{name} is not a known system priority class"
    if name in SYSTEM:
        error = f"value of {name} PriorityClass must be {SYSTEM[name]}"
    why = f"priority class names with 'system-' prefix are reserved for system use only. error: {error}"
    return [complaints.forbidden("metadata.name", why)]


def never(new: Document, old: Document) -> bool:
    """What a class promises is settled, so there is only one generation of it."""
    return False


def row(document: Document, now: datetime) -> list[object]:
    return [
        shown.name_of(document),
        document.get("value") or 0,
        bool(document.get("globalDefault")),
        shown.age_of(document, now),
        document.get("preemptionPolicy", ""),
    ]


COLUMNS = (
    shown.NAME,
    column(
        "Value", "The number that pods of this class get; pods with a higher one are scheduled earlier.", type="integer"
    ),
    column(
        "Global-Default", "Whether pods that name no class get this one; at most one class can be it.", type="boolean"
    ),
    shown.AGE,
    column("PreemptionPolicy", "Whether pods of this class may push others aside that have a lower priority."),
)

RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.PRIORITY_CLASS),
        generation=True,
        default=default,
        check=check,
        spec_changed=never,
        columns=COLUMNS,
        row=row,
    ),
)
