"""CustomResourceDefinitions come and go: names accepted, established, and at the end their objects deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from allaboard.api.documents import Document
from allaboard.api.meta import name_of, stamp

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
MANAGER = "kube-apiserver"


def settled(definition: Document, others: Iterable[Document], now: datetime) -> Document:
    """The definition with its names accepted, unless another has them, and then established."""
    status = definition.get("status") or {}
    conditions = list(status.get("conditions") or [])
    clash = _clash(definition, others)
    if clash:
        conditions = _with(conditions, "NamesAccepted", "False", clash, now)
        if not any(condition.get("type") == "Established" for condition in conditions):
            words = ("NotAccepted", "not all names are accepted")
            conditions = _with(conditions, "Established", "False", words, now)
        return {**definition, "status": {**status, "conditions": conditions}}
    conditions = _with(conditions, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now)
    accepted = ("InitialNamesAccepted", "the initial names have been accepted")
    conditions = _with(conditions, "Established", "True", accepted, now)
    names = definition["spec"]["names"]
    return {**definition, "status": {**status, "acceptedNames": names, "conditions": conditions}}


def _clash(definition: Document, others: Iterable[Document]) -> tuple[str, str] | None:
    """Which name of a definition another of its group has already."""
    spec = definition["spec"]
    for other in others:
        if name_of(other) == name_of(definition) or other["spec"]["group"] != spec["group"]:
            continue
        taken = (other.get("status") or {}).get("acceptedNames") or {}
        if taken.get("kind") and taken["kind"] == spec["names"]["kind"]:
            return "KindConflict", f'"{taken["kind"]}" is already in use'
        if shared := sorted(set(taken.get("shortNames") or ()) & set(spec["names"].get("shortNames") or ())):
            return "ShortNamesConflict", f'"{shared[0]}" is already in use'
    return None


def _with(conditions: list[Document], type_: str, status: str, words: tuple[str, str], now: datetime) -> list[Document]:
    old = next((condition for condition in conditions if condition.get("type") == type_), None)
    if old is not None and (old.get("status"), old.get("reason")) == (status, words[0]):
        return conditions
    if old is not None and old.get("status") == status and type_ == "Established":
        return conditions  # the first reason stays
    new = {"lastTransitionTime": stamp(now), "message": words[1], "reason": words[0], "status": status, "type": type_}
    return [*(condition for condition in conditions if condition.get("type") != type_), new]


def ending(definition: Document, now: datetime) -> Document:
    """The definition as its deletion marks it: its objects go first."""
    words = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    status = definition.get("status") or {}
    conditions = list(status.get("conditions") or [])
    conditions = _with(conditions, "Terminating", "True", ("InstanceDeletionPending", words), now)
    finalizers = definition["metadata"].get("finalizers") or []
    kept = finalizers if CLEANUP in finalizers else [*finalizers, CLEANUP]
    metadata = {**definition["metadata"], "finalizers": kept}
    return {**definition, "metadata": metadata, "status": {**status, "conditions": conditions}}


def emptied(definition: Document) -> Document:
    """The definition once none of its objects is left."""
    finalizers = [name for name in definition["metadata"].get("finalizers") or () if name != CLEANUP]
    metadata = {**definition["metadata"], "finalizers": finalizers}
    if not finalizers:
        del metadata["finalizers"]
    return {**definition, "metadata": metadata}
