"""RuntimeClass: which handler runs a pod, what it costs, and where it can be found."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import placement, resources, shown
from allaboard.cluster.metadata import label_causes
from allaboard.cluster.rules import Column, Rules, built_in


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    handler = new.get("handler") or ""
    found = complaints.all_invalid("handler", handler, names.dns_label(handler)) if handler else []
    found = found if handler else [complaints.required("handler")]
    # Upstream judges what a pod costs as if it were its limits.
    found += resources.amounts(dig(new, "overhead", "podFixed", default={}), "overhead.limits")
    found += label_causes(dig(new, "scheduling", "nodeSelector", default={}), "scheduling.nodeSelector")
    found += placement.tolerations(dig(new, "scheduling", "tolerations", default=[]), "scheduling.tolerations")
    listed = dig(new, "scheduling", "tolerations", default=[])
    for index, toleration in enumerate(listed):
        if toleration in listed[:index]:
            value = complaints.struct("core.Toleration", toleration)
            found.append(complaints.duplicate(f"scheduling.tolerations[{index}]", value))
    if old is not None and handler != old.get("handler"):
        # Upstream prints no value here.
        found.append(complaints.invalid("handler", None, complaints.IMMUTABLE))
    return found


def row(document: Document, now: datetime) -> list[object]:
    return [shown.name_of(document), document.get("handler", ""), shown.age_of(document, now)]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.RUNTIME_CLASS),
        check=check,
        unconditional_update=False,
        columns=(shown.NAME, Column("Handler"), shown.AGE),
        row=row,
    ),
)
