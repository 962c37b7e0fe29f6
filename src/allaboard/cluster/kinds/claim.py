"""PersistentVolumeClaim: defaults, rules, and what may change once it is bound."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names, quantity
from allaboard.api.documents import Document, dig, without
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import difference, placement, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
OLD_SOURCES = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
PROTECTION = "kubernetes.io/pvc-protection"
SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def default_spec(spec: Document) -> Document:
    return {"volumeMode": "Filesystem", **spec}


def default(claim: Document) -> Document:
    status = {"phase": "Pending", **(claim.get("status") or {})}
    return {**claim, "spec": default_spec(claim.get("spec") or {}), "status": status}


OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        return {**new, "spec": _sourced(new["spec"]), "status": {"phase": "Pending"}}
    if subresource == "status":
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}
    return {**new, "spec": _sourced(new["spec"]), "status": old.get("status", {})}


def _sourced(spec: Document) -> Document:
    """The old field for a source and the new one say the same; the old one knows claims and snapshots only."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and (old.get("apiGroup") or "", old.get("kind")) not in OLD_SOURCES:
        spec, old = without(spec, "dataSource"), None
    if old is not None and new is None:
        return {**spec, "dataSourceRef": old}
    if old is None and new is not None and not new.get("namespace"):
        return {**spec, "dataSource": {key: value for key, value in new.items() if key != "namespace"}}
    return spec


def warnings(new: Document, old: Document | None) -> list[str]:
    found = spec_warnings(new.get("spec") or {}, "spec")
    if OLD_CLASS in (new["metadata"].get("annotations") or {}):
        why = 'deprecated since v1.8; use "storageClassName" attribute instead'
        found.insert(0, f"metadata.annotations[{OLD_CLASS}]: {why}")
    return found


def spec_warnings(spec: Document, field: str) -> list[str]:
    amount = dig(spec, "resources", "requests", "storage")
    if amount is None or not quantity.parse(amount).milli_value() % 1000:
        return []
    return [f'{field}.resources.requests[storage]: fractional byte value "{amount}" is invalid, must be an integer']


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "status":
        return []
    found = spec_causes(new.get("spec") or {}, "spec")
    return found if old is None else found + _changed(new, old)


def spec_causes(spec: Document, field: str) -> list[Cause]:
    modes, found = spec.get("accessModes") or [], list[Cause]()
    if not modes:
        found.append(complaints.required(f"{field}.accessModes", "at least 1 access mode is required"))
    found += placement.selector(spec.get("selector"), f"{field}.selector")
    known = [mode for mode in modes if mode in MODES]
    found += [complaints.not_supported(f"{field}.accessModes", mode, MODES) for mode in modes if mode not in MODES]
    if "ReadWriteOncePod" in known and len(set(known)) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        found.append(complaints.forbidden(f"{field}.accessModes", why))
    found += _storage(dig(spec, "resources", "requests", "storage"), f"{field}.resources[storage]")
    if name := spec.get("storageClassName"):
        found += complaints.all_invalid(f"{field}.storageClassName", name, names.dns_subdomain(name))
    if name := spec.get("volumeAttributesClassName"):
        found += complaints.all_invalid(f"{field}.volumeAttributesClassName", name, names.dns_subdomain(name))
    for key in ("dataSource", "dataSourceRef"):
        if spec.get(key) is not None:
            found += _source(spec[key], f"{field}.{key}")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        found.append(complaints.not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    return found


def _source(source: Document, field: str) -> list[Cause]:
    """What a volume is filled from: another claim, or an object of some other group."""
    found = [complaints.required(f"{field}.{key}") for key in ("name", "kind") if not source.get(key)]
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(complaints.invalid(field, source.get("kind") or "", why))
    if group:
        found += complaints.all_invalid(f"{field}.apiGroup", group, names.dns_subdomain(group))
    return found


def _storage(amount: str | None, field: str) -> list[Cause]:
    if amount is None:
        return [complaints.required(field)]
    value = quantity.parse(amount)
    return [] if value.nanos > 0 else [complaints.invalid(field, amount, "must be greater than zero")]


def _changed(new: Document, old: Document) -> list[Cause]:
    """A bound claim may grow; everything else about a claim is settled at its creation."""
    after, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    if before.get("storageClassName") is None and after.get("storageClassName") is not None:
        before["storageClassName"] = after["storageClassName"]
    now, then = (dig(spec, "resources", "requests", "storage", default="0") for spec in (after, before))
    if dig(new, "status", "phase") == "Bound":
        after["resources"], before["resources"] = {}, {}
        after.pop("volumeAttributesClassName", None)
        before.pop("volumeAttributesClassName", None)
    found: list[Cause] = []
    if any(after.get(key) != before.get(key) for key in after.keys() | before.keys()):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        found.append(
            complaints.forbidden(
                "spec", f"{why}\n{difference.between('core.PersistentVolumeClaimSpec', before, after)}"
            )
        )
    capacity = dig(old, "status", "capacity", "storage", default="0")
    if quantity.parse(now) < quantity.parse(then) and quantity.parse(now) <= quantity.parse(capacity):
        why = "field can not be less than status.capacity"
        found.append(complaints.forbidden("spec.resources.requests.storage", why))
    return found + complaints.immutable("volumeMode", new["spec"].get("volumeMode"), old["spec"].get("volumeMode"))


def modes_text(modes: list[str]) -> str:
    return ",".join(SHORT_MODES.get(mode, mode) for mode in dict.fromkeys(modes))


COLUMNS = (
    shown.NAME,
    column("Status", "phase represents the current phase of PersistentVolumeClaim."),
    column("Volume", "The name of the persistent volume this claim is bound to; empty while it waits."),
    column("Capacity", "The size of the volume the claim is bound to, as its provider reported it to us."),
    column("Access Modes", "How the volume may be mounted: by one node or many, for reading or for writing too."),
    column("StorageClass", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    shown.AGE,
    column(
        "VolumeMode", "Whether the volume is to be formatted with a file system or used as a raw device.", wide=True
    ),
)


def row(claim: Document, now: datetime) -> list[object]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    bound = bool(spec.get("volumeName"))
    phase = "Terminating" if claim["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        shown.name_of(claim),
        phase,
        spec.get("volumeName", ""),
        dig(status, "capacity", "storage", default="") if bound else "",
        modes_text(status.get("accessModes") or []) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or shown.UNSET,
        shown.age_of(claim, now),
        spec.get("volumeMode") or shown.UNSET,
    ]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.CLAIM),
        generation=False,
        default=default,
        prepare=prepare,
        check=check,
        warnings=warnings,
        answers_object=True,
        columns=COLUMNS,
        row=row,
    ),
)
