"""Lease: who leads, since when and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

# Coordinated leader election is off, so its fields are not kept.
GATED = ("strategy", "preferredHolder")


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    spec = new.get("spec") or {}
    if not any(name in spec for name in GATED):
        return new
    return {**new, "spec": {name: value for name, value in spec.items() if name not in GATED}}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    spec, found = new.get("spec") or {}, list[Cause]()
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        found.append(complaints.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if (spec.get("leaseTransitions") or 0) < 0:
        found.append(complaints.invalid("spec.leaseTransitions", spec["leaseTransitions"], complaints.NEGATIVE))
    return found


def row(lease: Document, now: datetime) -> list[object]:
    return [shown.name_of(lease), dig(lease, "spec", "holderIdentity", default=""), shown.age_of(lease, now)]


HOLDER = column("Holder", "The identity of whoever holds the lease at present; empty where nobody does hold it.")

RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.LEASE),
        prepare=prepare,
        check=check,
        unconditional_update=False,
        create_on_update=True,
        columns=(shown.NAME, HOLDER, shown.AGE),
        row=row,
    ),
)
