"""What containers mount: volumes at paths, and raw devices."""

from __future__ import annotations

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def causes(mounts: Documents, container: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    devices = container.get("volumeDevices") or ()
    for index, mount in enumerate(mounts):
        here, name, path = f"{field}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.append(complaints.required(f"{here}.name"))
        if name not in volumes:
            found.append(complaints.not_found(f"{here}.name", name))
        if not path:
            found.append(complaints.required(f"{here}.mountPath"))
        if path in seen:
            found.append(complaints.invalid(f"{here}.mountPath", path, "must be unique"))
        seen.add(path)
        if any(device.get("name") == name for device in devices):
            found.append(complaints.invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
        if any(device.get("devicePath") == path for device in devices):
            why = "must not already exist as a path in volumeDevices"
            found.append(complaints.invalid(f"{here}.mountPath", path, why))
        if len(mount) > 2:
            found += _mount_details(mount, container, field, here)
    return found


def _mount_details(mount: Document, container: Document, field: str, here: str) -> list[Cause]:
    found: list[Cause] = []
    for part in ("subPath", "subPathExpr"):
        if mount.get(part):
            found += descending(mount[part], f"{field}.{part}")
    if mount.get("subPath") and mount.get("subPathExpr"):
        why = "subPathExpr and subPath are mutually exclusive"
        found.append(complaints.invalid(f"{here}.subPathExpr", mount["subPathExpr"], why))
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in ("Bidirectional", "HostToContainer", "None"):
        choices = ("Bidirectional", "HostToContainer", "None")
        found.append(complaints.not_supported(f"{field}.mountPropagation", propagation, choices))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        found.append(complaints.forbidden(f"{field}.mountPropagation", why))
    return found + _recursive(mount, f"{field}.recursiveReadOnly")


def _recursive(mount: Document, field: str) -> list[Cause]:
    wanted, found = mount.get("recursiveReadOnly"), list[Cause]()
    if wanted in (None, "Disabled"):
        return []
    if wanted not in RECURSIVE:
        return [complaints.not_supported(field, wanted, RECURSIVE)]
    if not mount.get("readOnly"):
        found.append(complaints.forbidden(field, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        why = "may only be specified when mountPropagation is None or not specified"
        found.append(complaints.forbidden(field, why))
    return found


def descending(path: str, field: str) -> list[Cause]:
    """A path that stays inside the directory it starts from."""
    found = [complaints.invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + no_backsteps(path, field)


def no_backsteps(path: str, field: str) -> list[Cause]:
    return [complaints.invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def device_causes(devices: Documents, mounts: Documents, volumes: dict[str, Document], field: str) -> list[Cause]:
    found, named, placed = list[Cause](), set[str](), set[str]()
    for index, device in enumerate(devices):
        here, name = f"{field}[{index}]", device.get("name") or ""
        if not name:
            found.append(complaints.required(f"{here}.name"))
        volume = volumes.get(name)
        if volume is None:
            found.append(complaints.not_found(f"{here}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(complaints.invalid(f"{here}.name", name, why))
        path = device.get("devicePath") or ""
        if not path:
            found.append(complaints.required(f"{here}.devicePath"))
        elif ".." in path.split("/"):
            found.append(complaints.invalid(f"{here}.devicePath", path, "can not contain backsteps ('..')"))
        whys = ["must be unique"] if name in named else []
        whys += ["must not already exist in volumeMounts"] if any(m.get("name") == name for m in mounts) else []
        found += complaints.all_invalid(f"{here}.name", name, whys)
        whys = ["must be unique"] if path in placed else []
        if path and any(mount.get("mountPath") == path for mount in mounts):
            whys.append("must not already exist as a path in volumeMounts")
        found += complaints.all_invalid(f"{here}.devicePath", path, whys)
        named.add(name)
        placed.add(path)
    return found
