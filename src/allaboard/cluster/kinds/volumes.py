"""The volumes of a pod: their defaults and what each source must say."""

from __future__ import annotations

from allaboard.api import quantity
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.api.twins import made_once
from allaboard.cluster import complaints
from allaboard.cluster.kinds import claim, disks
from allaboard.cluster.kinds.containers import label
from allaboard.cluster.kinds.environment import VOLUME_FIELDS, field_ref, resource_ref
from allaboard.cluster.kinds.mounts import descending, no_backsteps
from allaboard.cluster.metadata import annotation_causes, label_causes

FILE_MODE = 0o644
MODE_RANGE = "must be a number between 0 and 0777 (octal), both inclusive"
HAS_MODE = ("secret", "configMap", "downwardAPI", "projected")
HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
# Upstream's own spelling of two fields, in this one complaint.
MISSPELT = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
TEMPLATE_METADATA = "cannot be set"
ONE_TYPE = "may not specify more than 1 volume type"
# In the order in which the server looks for a second source.
SOURCES = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
]


@made_once
def default_all(volumes: Documents) -> Documents:
    return [default(volume) for volume in volumes]


def default(volume: Document) -> Document:
    """A volume without a source is an empty directory."""
    if len(volume) < 2:
        return {**volume, "emptyDir": {}}
    for name in HAS_MODE:
        if (source := volume.get(name)) is not None:
            return {**volume, name: _with_mode(name, source)}
    if (source := volume.get("hostPath")) is not None:
        return {**volume, "hostPath": {"type": "", **source}}
    if (source := volume.get("ephemeral")) is not None and source.get("volumeClaimTemplate"):
        template = source["volumeClaimTemplate"]
        filled = {**template, "spec": claim.default_spec(template.get("spec") or {})}
        return {**volume, "ephemeral": {**source, "volumeClaimTemplate": filled}}
    for name, source in volume.items():
        if isinstance(source, dict) and (filled := disks.default(name, source)) is not source:
            return {**volume, name: filled}
    return volume


def _with_mode(name: str, source: Document) -> Document:
    filled = {"defaultMode": FILE_MODE, **source}
    if name == "downwardAPI" and source.get("items"):
        filled["items"] = [_downward(item) for item in source["items"]]
    if name == "projected" and source.get("sources"):
        filled["sources"] = [_projection(part) for part in source["sources"]]
    return filled


def _projection(part: Document) -> Document:
    if (token := part.get("serviceAccountToken")) is not None:
        return {**part, "serviceAccountToken": {"expirationSeconds": 3600, **token}}
    if (downward := part.get("downwardAPI")) is not None and downward.get("items"):
        return {**part, "downwardAPI": {**downward, "items": [_downward(item) for item in downward["items"]]}}
    return part


def _downward(item: Document) -> Document:
    if item.get("fieldRef") is not None:
        return {**item, "fieldRef": {"apiVersion": "v1", **item["fieldRef"]}}
    if item.get("resourceFieldRef") is not None:
        return {**item, "resourceFieldRef": {"divisor": "0", **item["resourceFieldRef"]}}
    return item


def causes(volumes: Documents, field: str) -> tuple[dict[str, Document], list[Cause]]:
    """The volumes that containers may mount, and every breach."""
    good, found = dict[str, Document](), list[Cause]()
    for index, volume in enumerate(volumes):
        here, name = f"{field}[{index}]", volume.get("name") or ""
        broken = [] if volume.get("emptyDir") == {} and len(volume) == 2 else _source(volume, here)
        if not name:
            broken.append(complaints.required(f"{here}.name"))
        elif words := label(name):
            broken += complaints.all_invalid(f"{here}.name", name, words)
        if name in good:
            broken.append(complaints.duplicate(f"{here}.name", name))
        if not broken:
            good[name] = volume
        found += broken
    return good, found


def _source(volume: Document, here: str) -> list[Cause]:
    given = [name for name in volume if name != "name" and volume[name] is not None]
    if not given:
        return [complaints.required(here, "must specify a volume type")]
    given.sort(key=SOURCES.index)
    found = [complaints.forbidden(f"{here}.{MISSPELT.get(name, name)}", ONE_TYPE) for name in given[1:]]
    return _details(given[0], volume[given[0]], f"{here}.{given[0]}") + found


def _details(name: str, source: Document, here: str) -> list[Cause]:
    if missing := disks.causes(name, source, here):
        return missing
    found = _mode(source, "defaultMode", here) if name in HAS_MODE else []
    if name in ("secret", "configMap"):
        found += _items(source.get("items") or (), f"{here}.items")
    elif name == "downwardAPI":
        found += [cause for item in source.get("items") or () for cause in _downward_causes(item, here)]
    elif name == "projected":
        found += _projected(source.get("sources") or [], here)
    elif name == "emptyDir":
        found += _empty_dir(source, here)
    elif name == "hostPath":
        found += no_backsteps(source["path"], f"{here}.path")
        if source.get("type") is not None and source["type"] not in HOST_TYPES:
            found.append(complaints.not_supported(f"{here}.type", source["type"], HOST_TYPES))
    elif name == "ephemeral":
        found += _ephemeral(source, here)
    return found


def _empty_dir(source: Document, here: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(limit).nanos < 0:
        return [complaints.forbidden(f"{here}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _ephemeral(source: Document, here: str) -> list[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [complaints.required(f"{here}.volumeClaimTemplate")]
    given, found = template.get("metadata") or {}, list[Cause]()
    where = f"{here}.volumeClaimTemplate"
    found += label_causes(given.get("labels") or {}, f"{where}.metadata.labels")
    found += annotation_causes(given.get("annotations") or {}, f"{where}.metadata.annotations")
    for key in given.keys() - {"labels", "annotations"}:
        if given[key] not in (None, "", [], {}):
            found.append(complaints.forbidden(f"{where}.metadata.{key}", TEMPLATE_METADATA))
    return found + claim.spec_causes(template.get("spec") or {}, f"{where}.spec")


def _mode(source: Document, key: str, here: str) -> list[Cause]:
    mode = source.get(key)
    return [] if mode is None or 0 <= mode <= 0o777 else [complaints.invalid(f"{here}.{key}", mode, MODE_RANGE)]


def _items(items: Documents | tuple[()], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, item in enumerate(items):
        here = f"{field}[{index}]"
        found += [complaints.required(f"{here}.{key}") for key in ("key", "path") if not item.get(key)]
        found += local_path(item.get("path") or "", f"{here}.path") + _mode(item, "mode", here)
    return found


def local_path(path: str, field: str) -> list[Cause]:
    found = descending(path, field)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        found.append(complaints.invalid(field, path, "must not start with '..'"))
    return found


def _downward_causes(item: Document, here: str) -> list[Cause]:
    found = [] if item.get("path") else [complaints.required(f"{here}.path")]
    found += local_path(item.get("path") or "", f"{here}.path")
    if item.get("fieldRef") is not None:
        found += field_ref(item["fieldRef"], VOLUME_FIELDS, f"{here}.fieldRef")
        if item.get("resourceFieldRef") is not None:
            why = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.append(complaints.invalid(here, "resource", why))
    elif item.get("resourceFieldRef") is not None:
        found += resource_ref(item["resourceFieldRef"], f"{here}.resourceFieldRef", volume=True)
    else:
        found.append(complaints.required(here, "one of fieldRef and resourceFieldRef is required"))
    return found + _mode(item, "mode", here)


def _projected(sources: Documents, field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    for index, part in enumerate(sources):
        here = f"{field}.sources[{index}]"
        for name in ("secret", "configMap"):
            if (source := part.get(name)) is not None:
                if not source.get("name"):
                    found.append(complaints.required(f"{here}.{name}.name"))
                found += _items(source.get("items") or (), f"{here}.{name}.items")
                found += _repeated([i.get("path") for i in source.get("items") or ()], seen, source.get("name"), field)
        if (downward := part.get("downwardAPI")) is not None:
            for item in downward.get("items") or ():
                found += _downward_causes(item, f"{here}.downwardAPI")
                found += _repeated([item.get("path")], seen, item.get("path"), field)
        if (token := part.get("serviceAccountToken")) is not None:
            found += _token(token, f"{here}.serviceAccountToken", field)
        if sum(value is not None for value in part.values()) > 1:
            found.append(complaints.forbidden(here, "may not specify more than 1 volume type per source"))
    return found


def _repeated(paths: list[str | None], seen: set[str], shown: object, field: str) -> list[Cause]:
    found = []
    for path in paths:
        if path and path in seen:
            found.append(complaints.invalid(field, shown or "", "conflicting duplicate paths"))
        seen.add(path or "")
    return found


def _token(token: Document, here: str, field: str) -> list[Cause]:
    seconds = token.get("expirationSeconds", 3600)
    found = []
    if seconds < 600:
        why = "may not specify a duration less than 10 minutes"
        found.append(complaints.invalid(f"{here}.expirationSeconds", seconds, why))
    elif seconds > 1 << 32:
        why = "may not specify a duration larger than 2^32 seconds"
        found.append(complaints.invalid(f"{here}.expirationSeconds", seconds, why))
    if not token.get("path"):
        return [*found, complaints.required(f"{field}.path")]
    return found + local_path(token["path"], f"{field}.path")
