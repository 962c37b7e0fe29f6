"""Generic ephemeral volumes: a claim of the pod's own, made from the template inside the pod, that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import CLAIM, POD
from allaboard.api.meta import is_controlled_by, is_leaving, key_of, name_of, namespace_of, owner_reference, owners_of
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Create, Event, Plan


def templates(pod: Document) -> dict[str, Document]:
    """The claims a pod brings along, by name."""
    volumes = [volume for volume in dig(pod, "spec", "volumes", default=()) if "ephemeral" in volume]
    return {f"{name_of(pod)}-{v['name']}": dig(v, "ephemeral", "volumeClaimTemplate", default={}) for v in volumes}


def pods_with_templates(pod: Document) -> Iterable[Key]:
    return (key_of(pod),) if templates(pod) else ()


def owner_pod(claim: Document) -> Iterable[Key]:
    """A claim that went missing is made again while its pod lives."""
    return [Key(namespace_of(claim), owner["name"]) for owner in owners_of(claim) if owner.get("kind") == "Pod"]


def decide(pod: Document, claims: Mapping[str, Document | None]) -> Plan:
    """Create what is missing; a claim of the same name that is not the pod's own is not touched."""
    if is_leaving(pod) or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return NOTHING
    plan = NOTHING
    for name, template in templates(pod).items():
        existing = claims.get(name)
        if existing is None:
            plan += Plan(create=(Create(CLAIM, _claim(pod, name, template)),))
        elif not is_controlled_by(existing, pod):
            words = f'PVC "{namespace_of(pod)}/{name}" was not created for this pod'
            plan += Plan(events=(Event(pod, "FailedBinding", words, "Warning"),))
    return plan


def _claim(pod: Document, name: str, template: Document) -> Document:
    owner = owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace_of(pod)}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": template.get("spec") or {}}
    return {**body, "metadata": {**metadata, "ownerReferences": [owner]}}


class EphemeralVolumes:
    """Makes the claims that pods bring along."""

    name = "ephemeral-volume-controller"
    manager = "kube-controller-manager"
    watches = (Watch(POD, pods_with_templates), Watch(CLAIM, owner_pod))

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        if (pod := await self.reader.get(POD, key)) is None:
            return NOTHING
        names = templates(pod)
        return decide(pod, {name: await self.reader.get(CLAIM, Key(key.namespace, name)) for name in names})
