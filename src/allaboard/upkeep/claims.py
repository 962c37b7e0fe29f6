"""Claims: kept while a pod uses them, and bound to a volume that fits or to a new directory of the local class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from allaboard.api.documents import Document, Key, dig, replace
from allaboard.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from allaboard.api.meta import is_leaving, key_of, labels_of, name_of, namespace_of, uid_of
from allaboard.api.quantity import parse
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.plan import NOTHING, Create, Delete, Event, Patch, Plan, Status, Update

PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
BOUND, BY_US = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONER = "aboard.dev/local-directory"
LOCAL_CLASS = "aboard-local"


def claims_of(pod: Document) -> Iterable[Key]:
    """The claims a pod mounts, generic ephemeral ones included."""
    yield from _named(pod)
    yield from _ephemeral(pod)


def _named(pod: Document) -> Iterable[Key]:
    for volume in dig(pod, "spec", "volumes", default=()):
        if source := volume.get("persistentVolumeClaim"):
            yield Key(namespace_of(pod), source.get("claimName", ""))


def _ephemeral(pod: Document) -> Iterable[Key]:
    for volume in dig(pod, "spec", "volumes", default=()):
        if "ephemeral" in volume and "persistentVolumeClaim" not in volume:
            yield Key(namespace_of(pod), f"{name_of(pod)}-{volume['name']}")


def uses(pod: Document, claim: Key) -> bool:
    """Whether the pod holds the claim: as long as it is there, ended or not.

    No pod starts on a claim that is leaving, so one without a node holds nothing; a pod that was deleted without
    grace is done with the claims made for it.
    """
    if not dig(pod, "spec", "nodeName"):
        return False
    over = is_leaving(pod) and not dig(pod, "metadata", "deletionGracePeriodSeconds")
    return claim in _named(pod) or (not over and claim in _ephemeral(pod))


def storage_class() -> Document:
    """The class of a fresh plane: a directory on the machine, made when the claim is."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": LOCAL_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def protect(claim: Document, pods: Sequence[Document]) -> Plan:
    """Let a leaving claim go when no pod uses it any more."""
    finalizers = claim["metadata"].get("finalizers") or []
    if not is_leaving(claim) or PROTECTION not in finalizers or any(uses(pod, key_of(claim)) for pod in pods):
        return NOTHING
    rest = [finalizer for finalizer in finalizers if finalizer != PROTECTION]
    return Plan(update=(Update(CLAIM, replace(claim, "metadata", "finalizers", value=rest)),))


class ClaimProtection:
    """Holds claims that are in use."""

    name = "persistentvolumeclaim-protection-controller"
    manager = "kube-controller-manager"
    watches = (Watch(CLAIM), Watch(POD, claims_of))

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        claim = await self.reader.get(CLAIM, key)
        if claim is None or not is_leaving(claim):
            return NOTHING
        return protect(claim, await self.reader.list(POD, Select(namespace=key.namespace)))


def bind(claim: Document, volumes: Sequence[Document], classes: Sequence[Document], root: str, now: datetime) -> Plan:
    """One step of a claim towards its volume: find or make one, then say so on the claim."""
    if is_leaving(claim) or dig(claim, "status", "phase") == "Bound":
        return NOTHING
    held = next((volume for volume in volumes if _holder(volume) == uid_of(claim)), None)
    if held is not None:
        return _settle(claim, held)
    found = min((v for v in volumes if fits(v, claim)), key=lambda v: (_size(v), name_of(v)), default=None)
    if found is not None:
        return Plan(update=(Update(VOLUME, replace(found, "spec", "claimRef", value=_reference(claim))),), again=now)
    made = next((c for c in classes if name_of(c) == dig(claim, "spec", "storageClassName")), None)
    if made is None or made.get("provisioner") != PROVISIONER or not root:
        return NOTHING
    words = f"Successfully provisioned volume pvc-{uid_of(claim)}"
    told = Event(claim, "ProvisioningSucceeded", words)
    return Plan(create=(Create(VOLUME, _directory(claim, made, root)),), events=(told,), again=now)


def fits(volume: Document, claim: Document) -> bool:
    """Whether a free volume has the claim's class, modes, size and labels."""
    spec, wants = volume["spec"], claim["spec"]
    reserved = spec.get("claimRef")
    if reserved and (reserved.get("uid") or Key(reserved.get("namespace", ""), reserved["name"]) != key_of(claim)):
        return False
    if wants.get("volumeName") and wants["volumeName"] != name_of(volume):
        return False
    same = (spec.get("storageClassName") or "") == (wants.get("storageClassName") or "")
    modes = set(wants.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
    wanted = dig(wants, "selector", "matchLabels", default={})
    worn = wanted.items() <= labels_of(volume).items()
    large = _size(volume) >= parse(dig(wants, "resources", "requests", "storage", default="0")).nanos
    kind = (spec.get("volumeMode") or "Filesystem") == (wants.get("volumeMode") or "Filesystem")
    return same and modes and worn and large and kind and not is_leaving(volume)


def _size(volume: Document) -> int:
    return parse(dig(volume, "spec", "capacity", "storage", default="0")).nanos


def _holder(volume: Document) -> str:
    return str(dig(volume, "spec", "claimRef", "uid", default=""))


def _reference(claim: Document) -> Document:
    names = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name_of(claim)}
    return {**names, "namespace": namespace_of(claim), "uid": uid_of(claim)}


def _directory(claim: Document, made: Document, root: str) -> Document:
    """A volume that is a directory of this machine, named so that no two claims ever share one."""
    spec = claim["spec"]
    path = f"{root}/{namespace_of(claim)}/{name_of(claim)}-{uid_of(claim)}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{uid_of(claim)}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": _reference(claim),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": made.get("reclaimPolicy") or "Delete",
            "storageClassName": name_of(made),
            "volumeMode": spec.get("volumeMode") or "Filesystem",
        },
    }


def _settle(claim: Document, volume: Document) -> Plan:
    """The claim names its volume, then both say they are bound."""
    if claim["spec"].get("volumeName") != name_of(volume):
        said = {**(claim["metadata"].get("annotations") or {}), BOUND: "yes", BY_US: "yes"}
        change = {"metadata": {"annotations": said}, "spec": {"volumeName": name_of(volume)}}
        return Plan(patch=(Patch(CLAIM, key_of(claim), change),))
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"]["accessModes"],
        "capacity": volume["spec"]["capacity"],
    }
    held = () if dig(volume, "status", "phase") == "Bound" else (Status(VOLUME, _phase(volume, "Bound")),)
    return Plan(status=(Status(CLAIM, {**claim, "status": {**(claim.get("status") or {}), **status}}), *held))


def _phase(volume: Document, phase: str) -> Document:
    return replace(volume, "status", "phase", value=phase)


def release(volume: Document, claim: Document | None) -> Plan:
    """A volume whose claim is gone goes with it, or waits for a person, as its policy says; a free one says so."""
    holder, phase = _holder(volume), dig(volume, "status", "phase", default="Pending")
    if is_leaving(volume):
        return _let_go(volume, claim)
    if not holder:
        return NOTHING if phase == "Available" else Plan(status=(Status(VOLUME, _phase(volume, "Available")),))
    if claim is not None and uid_of(claim) == holder:
        return NOTHING
    if dig(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
        return Plan(delete=(Delete(VOLUME, key_of(volume), uid=uid_of(volume)),))
    return NOTHING if phase == "Released" else Plan(status=(Status(VOLUME, _phase(volume, "Released")),))


def _let_go(volume: Document, claim: Document | None) -> Plan:
    """A leaving volume is held while its claim lives."""
    finalizers = volume["metadata"].get("finalizers") or []
    if VOLUME_PROTECTION not in finalizers or (claim is not None and uid_of(claim) == _holder(volume)):
        return NOTHING
    rest = [finalizer for finalizer in finalizers if finalizer != VOLUME_PROTECTION]
    return Plan(update=(Update(VOLUME, replace(volume, "metadata", "finalizers", value=rest)),))


class Claims:
    """Binds claims to volumes. `root` is where the local class makes its directories; "" provisions nothing.

    Keys with a namespace are claims, keys without one are volumes.
    """

    name = "persistentvolume-binder-controller"
    manager = "kube-controller-manager"

    def __init__(self, reader: Reader, clock: Clock, root: str = "") -> None:
        self.reader, self.clock, self.root = reader, clock, root
        self.watches = (Watch(CLAIM, _claim_keys), Watch(VOLUME, _volume_keys), Watch(STORAGE_CLASS, nobody))

    async def reconcile(self, key: Key) -> Plan:
        if not key.namespace:
            return await self._volume(key)
        if (claim := await self.reader.get(CLAIM, key)) is None:
            return NOTHING
        volumes, classes = await self.reader.list(VOLUME), await self.reader.list(STORAGE_CLASS)
        return bind(claim, volumes, classes, self.root, self.clock.now())

    async def _volume(self, key: Key) -> Plan:
        if (volume := await self.reader.get(VOLUME, key)) is None:
            return NOTHING
        reference = dig(volume, "spec", "claimRef", default={})
        claim = Key(reference.get("namespace", ""), reference.get("name", ""))
        return release(volume, await self.reader.get(CLAIM, claim) if claim.name else None)


def _claim_keys(claim: Document) -> Iterable[Key]:
    """The claim, and the volume that may have to notice that it went."""
    volume = dig(claim, "spec", "volumeName")
    return (key_of(claim), Key("", volume)) if volume else (key_of(claim),)


def _volume_keys(volume: Document) -> Iterable[Key]:
    reference = dig(volume, "spec", "claimRef", default={})
    claim = Key(reference.get("namespace", ""), reference.get("name", ""))
    return (key_of(volume), claim) if claim.name else (key_of(volume),)
