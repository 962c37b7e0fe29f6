"""StorageClass: who provisions volumes, and how."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import ANNOTATIONS_LIMIT, label_key
from allaboard.cluster.rules import Rules, built_in

IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
MOST_PARAMETERS = 512
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
    found += _parameters(new.get("parameters") or {}) + _topologies(new.get("allowedTopologies") or [])
    if old is None:
        return found
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if not complaints.same(new.get(key), old.get(key)):
            # Upstream prints no value here.
            found.append(complaints.invalid(key, None, complaints.IMMUTABLE))
    return found


def _parameters(parameters: Document) -> list[Cause]:
    found: list[Cause] = []
    if len(parameters) > MOST_PARAMETERS:
        found.append(complaints.too_long("parameters", MOST_PARAMETERS))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
    if "" in parameters:
        found.append(complaints.invalid("parameters", "", "field can not be empty."))
    return [*found, complaints.too_long("parameters", ANNOTATIONS_LIMIT)] if size > ANNOTATIONS_LIMIT else found


def _topologies(terms: Documents) -> list[Cause]:
    found: list[Cause] = []
    for place, term in enumerate(terms):
        seen = set[str]()
        for index, wanted in enumerate(term.get("matchLabelExpressions") or ()):
            here, key = f"allowedTopologies[{place}].matchLabelExpressions[{index}]", wanted.get("key") or ""
            values = wanted.get("values") or []
            found += [] if values else [complaints.required(f"{here}.values")]
            for number, value in enumerate(values):
                if value in values[:number]:
                    found.append(complaints.duplicate(f"{here}.values[{number}]", value))
            found += complaints.all_invalid(f"{here}.key", key, label_key(key))
            found += [complaints.duplicate(f"{here}.key", key)] if key in seen else []
            seen.add(key)
    return found


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
    replace(built_in(kinds.STORAGE_CLASS), answers_object=True, default=default, check=check, columns=COLUMNS, row=row),
)
