"""Runtimes of older versions carry a finalizer that nobody takes off any more; it is taken off here (ruling 24)."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.kube.client import Reader
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Patch, Plan

IN_USE = "trainer.kubeflow.org/resource-in-use"


def decide(kind: Kind, key: Key, runtime: Document | None) -> Plan:
    """Snapshots protect jobs now, so a runtime may go whenever its owner wants."""
    held = ((runtime or {}).get("metadata") or {}).get("finalizers") or []
    if IN_USE not in held:
        return NOTHING
    kept = [name for name in held if name != IN_USE]
    return Plan(patch=(Patch(kind, key, {"metadata": {"finalizers": kept}}),))


class RuntimeController:
    """One of them for each kind of runtime."""

    def __init__(self, reader: Reader, kind: Kind = kinds.CLUSTER_TRAINING_RUNTIME) -> None:
        self.reader, self.kind = reader, kind
        self.name = f"{kind.singular}_controller"
        self.watches = (Watch(kind),)

    async def reconcile(self, key: Key) -> Plan:
        return decide(self.kind, key, await self.reader.get(self.kind, key))
