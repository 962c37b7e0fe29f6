"""Namespace: its finalizer, its name as a label, and a phase that follows its deletion."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


def default(namespace: Document) -> Document:
    """Every namespace carries its own name as a label, whatever a writer says."""
    metadata, name = namespace["metadata"], namespace["metadata"].get("name")
    if not name or dig(metadata, "labels", NAME_LABEL) == name:
        return namespace
    return {**namespace, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), NAME_LABEL: name}}}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    new = default(new)
    if old is None:
        finalizers = [*dig(new, "spec", "finalizers", default=[])]
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        return {**new, "spec": {**(new.get("spec") or {}), "finalizers": finalizers}, "status": {"phase": "Active"}}
    if subresource == "status":
        return {**new, "spec": old.get("spec", {})}
    if subresource == "finalize":
        return {**new, "status": old.get("status", {})}
    # The finalizers of the spec change only through their own door.
    return {**new, "spec": old.get("spec", {}), "status": old.get("status", {})}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "finalize" or old is None:
        listed = dig(new, "spec", "finalizers", default=[])
        wheres = [f"spec.finalizers[{index}]" if old is not None else "spec.finalizers" for index in range(len(listed))]
        return [cause for name, where in zip(listed, wheres, strict=True) for cause in _finalizer(name, where)]
    if subresource != "status":
        return []
    phase, leaving = dig(new, "status", "phase", default=""), bool(new["metadata"].get("deletionTimestamp"))
    if leaving and phase != "Terminating":
        why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [complaints.invalid("status.Phase", phase, why)]
    if not leaving and phase != "Active":
        return [complaints.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    return []


def _finalizer(name: str, field: str) -> list[Cause]:
    found = complaints.all_invalid(field, name, names.qualified_name(name))
    if "/" not in name and name != FINALIZER:
        why = "name is neither a standard finalizer name nor is it fully qualified"
        found.append(complaints.invalid(field, name, why))
    return found


def row(namespace: Document, now: datetime) -> list[object]:
    return [
        shown.name_of(namespace),
        dig(namespace, "status", "phase", default=""),
        shown.age_of(namespace, now),
    ]


def _phase(namespace: Document) -> str:
    return str(dig(namespace, "status", "phase", default=""))


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.NAMESPACE),
        generation=False,
        names=names.dns_label,
        default=default,
        prepare=prepare,
        check=check,
        fields={"status.phase": _phase},
        answers_object=True,
        columns=(shown.NAME, column("Status", "The status of the namespace"), shown.AGE),
        row=row,
    ),
)
