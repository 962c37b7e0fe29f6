"""PersistentVolume: a piece of storage, who claimed it, and what is done with it afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names, quantity
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import claim, difference, disks, placement, shown
from allaboard.cluster.kinds.mounts import no_backsteps
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.kinds.volumes import HOST_TYPES, MISSPELT
from allaboard.cluster.rules import Rules, built_in

DEFAULTS = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
VOLUME_MODES = ("Block", "Filesystem")
POLICIES = ("Delete", "Recycle", "Retain")
# In the order in which the server looks for a second source.
SOURCES = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
]


def default(document: Document) -> Document:
    spec = {**DEFAULTS, **(document.get("spec") or {})}
    if spec.get("hostPath"):
        spec["hostPath"] = {"type": "", **spec["hostPath"]}
    return {**document, "spec": spec, "status": {"phase": "Pending", **(document.get("status") or {})}}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        since = new["metadata"].get("creationTimestamp")
        return {**new, "status": {"phase": "Pending"} | ({"lastPhaseTransitionTime": since} if since else {})}
    if subresource == "status":
        return {**new, "spec": old["spec"]}
    return {**new, "status": old.get("status", {})}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "status":
        return []
    spec, found = new["spec"], list[Cause]()
    modes = spec.get("accessModes") or []
    if not modes:
        found.append(complaints.required("spec.accessModes"))
    unknown = [mode for mode in modes if mode not in claim.MODES]
    found += [complaints.not_supported("spec.accessModes", mode, claim.MODES) for mode in unknown]
    found += _capacity(spec.get("capacity") or {})
    given = [name for name in SOURCES if spec.get(name) is not None]
    if not given:
        found.append(complaints.required("spec", "must specify a volume type"))
    more = "may not specify more than 1 volume type"
    found += [complaints.forbidden(f"spec.{MISSPELT.get(name, name)}", more) for name in given[1:]]
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in POLICIES:
        found.append(complaints.not_supported("spec.persistentVolumeReclaimPolicy", policy, POLICIES))
    if required := dig(spec, "nodeAffinity", "required"):
        found += placement.node_selector(required, "spec.nodeAffinity.required")
    elif spec.get("nodeAffinity") is not None:
        found.append(complaints.required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif "local" in given[:1]:
        found.append(complaints.required("spec.nodeAffinity", "Local volume requires node affinity"))
    found += _details(spec, given)
    if old is not None:
        found += complaints.immutable("volumeMode", spec.get("volumeMode"), old["spec"].get("volumeMode"))
    kind = dig(spec, "hostPath", "type")
    if kind is not None and kind not in HOST_TYPES:
        found.append(complaints.not_supported("spec.hostPath.type", kind, HOST_TYPES))
    if old is not None and any(spec.get(name) != old["spec"].get(name) for name in SOURCES):
        changed = difference.between("core.PersistentVolumeSource", old["spec"], spec)
        why = f"spec.persistentvolumesource is immutable after creation\n{changed}"
        found.append(complaints.forbidden("spec.persistentvolumesource", why))
    return found


def _details(spec: Document, given: list[str]) -> list[Cause]:
    """What the first source must say, and what goes with it."""
    found: list[Cause] = []
    for name in given[:1]:
        found += disks.causes(name, spec[name], f"spec.{name}")
        needs = {"local": ("path",), "csi": ("volumeHandle",)}.get(name, ())
        found += [complaints.required(f"spec.{name}.{key}") for key in needs if not spec[name].get(key)]
        if name in ("hostPath", "local"):
            found += no_backsteps(spec[name].get("path") or "", f"spec.{name}.path")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle" and dig(spec, "hostPath", "path") == "/":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        found.append(complaints.forbidden("spec.persistentVolumeReclaimPolicy", why))
    if spec.get("storageClassName"):
        words = names.dns_subdomain(spec["storageClassName"])
        found += complaints.all_invalid("spec.storageClassName", spec["storageClassName"], words)
    if spec.get("volumeMode") not in (None, *VOLUME_MODES):
        found.append(complaints.not_supported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES))
    return found


def warnings(new: Document, old: Document | None) -> list[str]:
    if dig(new, "spec", "persistentVolumeReclaimPolicy") != "Recycle":
        return []
    words = (
        "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
    )
    return [f"spec.persistentVolumeReclaimPolicy: {words}"]


def _capacity(capacity: Document) -> list[Cause]:
    if not capacity:
        shown_as = complaints.not_supported("spec.capacity", None, ("storage",))
        return [complaints.required("spec.capacity"), shown_as]
    if "storage" not in capacity or len(capacity) > 1:
        return [complaints.not_supported("spec.capacity", capacity, ("storage",))]
    if quantity.parse(capacity["storage"]).nanos <= 0:
        return [complaints.invalid("spec.capacity[storage]", capacity["storage"], "must be greater than zero")]
    return []


COLUMNS = (
    shown.NAME,
    column("Capacity", "How much the volume holds, as whoever provided it has declared when it was created."),
    column("Access Modes", "How the volume can be mounted: by one node or many, for reading or for writing too."),
    column("Reclaim Policy", "What happens to the volume once its claim is gone: it is kept, or it is deleted."),
    column("Status", "Whether the volume is free, bound to a claim, released by one, or failed to be reclaimed."),
    column("Claim", "The claim this volume is bound to, with its namespace; both objects point at each other."),
    column("StorageClass", "StorageClass of the pv"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    column("Reason", "A short word for machines and for display that says why the volume is in a failed state."),
    shown.AGE,
    column(
        "VolumeMode", "Whether the volume is to be formatted with a file system or used as a raw device.", wide=True
    ),
)


def row(document: Document, now: datetime) -> list[object]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    owner = spec.get("claimRef")
    return [
        shown.name_of(document),
        dig(spec, "capacity", "storage", default="0"),
        claim.modes_text(spec.get("accessModes") or []),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{owner.get('namespace', '')}/{owner.get('name', '')}" if owner else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or shown.UNSET,
        status.get("reason", ""),
        shown.age_of(document, now),
        spec.get("volumeMode") or shown.UNSET,
    ]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.VOLUME),
        generation=False,
        answers_object=True,
        warnings=warnings,
        default=default,
        prepare=prepare,
        check=check,
        columns=COLUMNS,
        row=row,
    ),
)
