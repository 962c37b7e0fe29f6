"""CustomResourceDefinitions come and go: names accepted, established, and at the end their objects deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from allaboard.api.documents import Document
from allaboard.api.meta import stamp

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
MANAGER = "kube-apiserver"


def settled(definition: Document, others: Iterable[Document], now: datetime) -> Document:
    """The definition with every name accepted that no other of its group has; once all are, it is established."""
    status = definition.get("status") or {}
    if definition["spec"]["names"] == status.get("acceptedNames"):
        return definition
    names, clash = accepted(definition, others)
    conditions = list(status.get("conditions") or [])
    if clash:
        conditions = _with(conditions, "NamesAccepted", "False", clash, now)
        if not any(condition.get("type") == "Established" for condition in conditions):
            words = ("NotAccepted", "not all names are accepted")
            conditions = _with(conditions, "Established", "False", words, now)
    else:
        conditions = _with(conditions, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now)
        words = ("InitialNamesAccepted", "the initial names have been accepted")
        conditions = _with(conditions, "Established", "True", words, now)
    return {**definition, "status": {**status, "acceptedNames": names, "conditions": conditions}}


def accepted(definition: Document, others: Iterable[Document]) -> tuple[Document, tuple[str, str] | None]:
    """The names a definition may have, and the last of its wishes that another has already.

    Upstream: naming_controller.go. Plural, singular and short names are one space, kind and list kind another.
    """
    wanted, held = definition["spec"]["names"], (definition.get("status") or {}).get("acceptedNames") or {}
    resources, types = _taken(definition, others)
    names, clash = dict(held), None
    spaces = {"plural": resources, "singular": resources, "shortNames": resources, "kind": types, "listKind": types}
    for part, taken in spaces.items():
        words = _in_use(wanted.get(part), held.get(part), taken)
        if words:
            clash = (f"{part[0].upper()}{part[1:]}Conflict", words[0] if len(words) == 1 else f"[{', '.join(words)}]")
        elif wanted.get(part):
            names[part] = wanted[part]
        else:
            names.pop(part, None)
    names["categories"] = wanted.get("categories")
    said = {name: value for name, value in names.items() if value or name in ("plural", "kind")}
    return {"plural": "", "kind": ""} | said, clash


def _taken(definition: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """Every name of the group that is accepted, its own included."""
    resources, types = set[str](), set[str]()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        if other["spec"]["group"] == definition["spec"]["group"]:
            resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            types |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, types - {""}


def _in_use(wanted: object, held: object, taken: set[str]) -> list[str]:
    """The complaints about what is wanted and not held yet."""
    wishes, owned = (list(each) if isinstance(each, list) else [each] for each in (wanted or [], held or []))
    return [f'"{wish}" is already in use' for wish in wishes if wish not in owned and wish in taken]


def _with(conditions: list[Document], type_: str, status: str, words: tuple[str, str], now: datetime) -> list[Document]:
    old = next((condition for condition in conditions if condition.get("type") == type_), None)
    if old is not None and (old.get("status"), old.get("reason"), old.get("message")) == (status, *words):
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
