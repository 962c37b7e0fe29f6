"""StorageClass: who provisions volumes, and how."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import label_key
from allaboard.cluster.rules import Rules, built_in

IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
DEFAULTS = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}


def default(document: Document) -> Document:
    return {**DEFAULTS, **document}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    provisioner, found = new.get("provisioner") or "", list[Cause]()
    if not provisioner:
        found.append(complaints.required("provisioner"))
    else:
        found += complaints.all_invalid("provisioner", provisioner, label_key(provisioner.lower()))
    found += containers.one_of(new, "reclaimPolicy", ("Delete", "Retain"), "")
    found += containers.one_of(new, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), "")
    if old is None:
        return found
    if not complaints.same(new.get("parameters"), old.get("parameters")):
        found.append(complaints.forbidden("parameters", "updates to parameters are forbidden."))
    if provisioner != old.get("provisioner"):
        found.append(complaints.forbidden("provisioner", "updates to provisioner are forbidden."))
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        found.append(complaints.forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    return found + complaints.immutable("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


def is_default(document: Document) -> bool:
    return (document["metadata"].get("annotations") or {}).get(IS_DEFAULT) == "true"


def row(document: Document, now: datetime) -> list[object]:
    return [
        shown.name_of(document) + (" (default)" if is_default(document) else ""),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        bool(document.get("allowVolumeExpansion")),
        shown.age_of(document, now),
    ]


COLUMNS = (
    shown.NAME,
    column("Provisioner", "provisioner indicates the type of the provisioner."),
    column(
        "ReclaimPolicy", "What happens to volumes of this class once their claim is gone: kept, or deleted with it."
    ),
    column(
        "VolumeBindingMode", "Whether volumes are provisioned at once, or only when a pod that needs one is scheduled."
    ),
    column("AllowVolumeExpansion", "Whether a claim of this class may ask for more storage after it has been bound."),
    shown.AGE,
)

RULES: tuple[Rules, ...] = (
    replace(built_in(kinds.STORAGE_CLASS), default=default, check=check, columns=COLUMNS, row=row),
)
