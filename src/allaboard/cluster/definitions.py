"""CustomResourceDefinitions come and go: names accepted, established, and at the end their objects deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError, NotFound
from allaboard.api.meta import condition_of, is_leaving, is_true, name_of, stamp
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.delete import Wish, delete
from allaboard.cluster.plane import DEFINITIONS, Cluster
from allaboard.cluster.store import Happening
from allaboard.cluster.update import change

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
MANAGER = "kube-apiserver"


class Definitions:
    """Keeps the status of definitions, and ends them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.due: dict[Key, None] = {}
        for item in cluster.store.table(DEFINITIONS).items():
            self.due[item.key] = None
        cluster.store.listeners.append(self.notice)

    def notice(self, happening: Happening) -> None:
        if happening.table == DEFINITIONS and happening.type != "DELETED":
            self.due[happening.key] = None
        elif happening.type == "DELETED":
            # The last object of a definition that ends may just have gone.
            for item in self.cluster.store.table(DEFINITIONS).items():
                if is_leaving(self.cluster.store.document(item)):
                    self.due[item.key] = None

    async def settle(self) -> None:
        """Bring every definition that changed to where it should be."""
        while self.due:
            key = next(iter(self.due))
            del self.due[key]
            item = self.cluster.store.table(DEFINITIONS).get(key)
            if item is None:
                continue
            document = self.cluster.store.document(item)
            try:
                await (self._end(key, document) if is_leaving(document) else self._establish(key, document))
            except NotFound:
                continue

    async def _establish(self, key: Key, document: Document) -> None:
        others = [self.cluster.store.document(i) for i in self.cluster.store.table(DEFINITIONS).items()]
        now = self.cluster.world.now()
        if settled(document, others, now) == document:
            return
        await self._change(key, lambda old: settled(old, others, now), "status")
        await self._change(key, with_finalizer, "")

    async def _end(self, key: Key, document: Document) -> None:
        """Delete every object of the kind; the definition goes when none is left."""
        if CLEANUP not in (document["metadata"].get("finalizers") or ()):
            return
        if is_true(document, "Established") and condition_of(document, "Terminating") is None:
            now = self.cluster.world.now()
            await self._change(key, lambda old: terminating(old, now), "status")
        for rules in self.cluster.registry.custom.get(key.name, ())[:1]:
            for item in list(self.cluster.store.table(rules.kind.resource).latest_items()):
                try:
                    await delete(self.cluster, Place(rules, item.key), Wish("Background"), Ask(manager=MANAGER))
                except ApiError:
                    continue
        if not any(self.cluster.store.table(name_of(document)).latest_items()):
            await self._change(key, without_finalizer, "")

    async def _change(self, key: Key, build, subresource: str) -> None:  # type: ignore[no-untyped-def]
        place = Place(self.cluster.registry.of(kinds.CRD), key, subresource)
        await change(self.cluster, place, build, Ask(manager=MANAGER))


def settled(definition: Document, others: Iterable[Document], now: datetime) -> Document:
    """The definition with its names accepted (unless another has them) and established."""
    status = definition.get("status") or {}
    clash = _clash(definition, others)
    conditions = list(status.get("conditions") or [])
    if clash:
        conditions = _with(conditions, "NamesAccepted", "False", clash, now)
        if not any(c.get("type") == "Established" for c in conditions):
            words = ("NotAccepted", "not all names are accepted")
            conditions = _with(conditions, "Established", "False", words, now)
        return {**definition, "status": {**status, "conditions": conditions}}
    conditions = _with(conditions, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now)
    accepted = ("InitialNamesAccepted", "the initial names have been accepted")
    conditions = _with(conditions, "Established", "True", accepted, now)
    stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
    names = definition["spec"]["names"]
    kept = status.get("storedVersions") or []
    return {
        **definition,
        "status": {
            **status,
            "acceptedNames": names,
            "conditions": conditions,
            "storedVersions": [*kept, *(name for name in stored if name not in kept)],
        },
    }


def _clash(definition: Document, others: Iterable[Document]) -> tuple[str, str] | None:
    """Which name of a definition another of its group has already."""
    names = definition["spec"]["names"]
    for other in others:
        if name_of(other) == name_of(definition) or other["spec"]["group"] != definition["spec"]["group"]:
            continue
        taken = (other.get("status") or {}).get("acceptedNames") or {}
        if taken.get("kind") and taken["kind"] == names["kind"]:
            return "KindConflict", f'"{names["kind"]}" is already in use'
    return None


def _with(conditions: list[Document], type_: str, status: str, words: tuple[str, str], now: datetime) -> list[Document]:
    old = next((c for c in conditions if c.get("type") == type_), None)
    if old is not None and old.get("status") == status:
        return conditions
    new = {
        "lastTransitionTime": stamp(now),
        "message": words[1],
        "reason": words[0],
        "status": status,
        "type": type_,
    }
    return [*(c for c in conditions if c.get("type") != type_), new]


def terminating(definition: Document, now: datetime) -> Document:
    words = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
    status = definition.get("status") or {}
    conditions = _with(list(status.get("conditions") or []), "Terminating", "True", words, now)
    return {**definition, "status": {**status, "conditions": conditions}}


def with_finalizer(definition: Document) -> Document:
    finalizers = definition["metadata"].get("finalizers") or []
    if CLEANUP in finalizers:
        return definition
    return {**definition, "metadata": {**definition["metadata"], "finalizers": [*finalizers, CLEANUP]}}


def without_finalizer(definition: Document) -> Document:
    finalizers = [name for name in definition["metadata"].get("finalizers") or () if name != CLEANUP]
    metadata = {**definition["metadata"], "finalizers": finalizers}
    if not finalizers:
        del metadata["finalizers"]
    return {**definition, "metadata": metadata}
