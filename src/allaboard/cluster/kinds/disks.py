"""Volume sources of the storage vendors and of plain servers: what each must say."""

from __future__ import annotations

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds.mounts import descending

MUST_SAY = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("volume",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "csi": ("driver",),
    "hostPath": ("path",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "portworxVolume": ("volumeID",),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "storageos": ("volumeName",),
    "image": ("reference",),
}
HOSTS = "must be a host:port pair or multiple pairs separated by commas"
CACHING, DISKS = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def default(name: str, source: Document) -> Document:
    """The source with what its vendor takes for granted."""
    if name == "azureDisk":
        return {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared", **source}
    if name == "iscsi":
        return {"iscsiInterface": "default", **source}
    if name == "rbd":
        return {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring", **source}
    if name == "scaleIO":
        return {"storageMode": "ThinProvisioned", "fsType": "xfs", **source}
    if name == "image" and source.get("reference") and not source.get("pullPolicy"):
        tag = source["reference"].rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = "@" not in source["reference"] and tag in ("", "latest")
        return {**source, "pullPolicy": "Always" if latest else "IfNotPresent"}
    return source


def causes(name: str, source: Document, here: str) -> list[Cause]:
    """What a source leaves out, and what it says wrongly."""
    where = here.replace(".gcePersistentDisk", ".persistentDisk")  # Upstream's own spelling
    found = [complaints.required(f"{where}.{key}") for key in MUST_SAY.get(name, ()) if not source.get(key)]
    judge = {"nfs": _nfs, "fc": _fibre, "quobyte": _quobyte, "azureDisk": _azure, "flocker": _flocker, "csi": _csi}
    if name in judge:
        found += judge[name](source, here)
    if name == "gitRepo":
        found += descending(source.get("directory") or "", f"{here}.directory")
    if name == "image" and source.get("pullPolicy") and source["pullPolicy"] not in PULL_POLICIES:
        found.append(complaints.not_supported(f"{here}.pullPolicy", source["pullPolicy"], PULL_POLICIES))
    return found


def _nfs(source: Document, here: str) -> list[Cause]:
    path = source.get("path") or ""
    return [] if path.startswith("/") else [complaints.invalid(f"{here}.path", path, "must be an absolute path")]


def _fibre(source: Document, here: str) -> list[Cause]:
    targets, wide, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    field = f"{here}.targetWWNs"
    if not targets and not wide:
        return [complaints.required(field, "must specify either targetWWNs or wwids, but not both")]
    found: list[Cause] = []
    if targets and wide:
        found.append(complaints.invalid(field, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        found.append(complaints.required(f"{here}.lun", "lun is required if targetWWNs is specified"))
    elif targets and not 0 <= (lun or 0) <= 255:
        found.append(complaints.invalid(f"{here}.lun", lun, "must be between 0 and 255, inclusive"))
    return found


def _quobyte(source: Document, here: str) -> list[Cause]:
    registry = source.get("registry") or ""
    if not registry:
        return [complaints.required(f"{here}.registry", HOSTS)]
    if len(source.get("tenant") or "") >= 65:
        why = "must be a UUID and may not exceed a length of 64 characters"
        return [complaints.required(f"{here}.tenant", why)]
    pairs = [pair for pair in registry.split(",") if pair.count(":") != 1]
    return [complaints.invalid(f"{here}.registry", registry, HOSTS) for _ in pairs]


def _azure(source: Document, here: str) -> list[Cause]:
    found, uri = list[Cause](), source.get("diskURI") or ""
    for key, known in (("cachingMode", CACHING), ("kind", DISKS)):
        if source.get(key) is not None and source[key] not in known:
            found.append(complaints.not_supported(f"{here}.{key}", source[key], known))
    managed = source.get("kind") == "Managed"
    if not uri.startswith("/subscriptions/" if managed else "https://"):
        found.append(complaints.not_supported(f"{here}.diskURI", uri, (MANAGED if managed else BLOB,)))
    return found


def _flocker(source: Document, here: str) -> list[Cause]:
    name, number = source.get("datasetName") or "", source.get("datasetUUID")
    found: list[Cause] = []
    if not name and not number:
        found.append(complaints.required(here, "one of datasetName and datasetUUID is required"))
    if name and number:
        why = "datasetName and datasetUUID can not be specified simultaneously"
        found.append(complaints.invalid(here, "resource", why))
    if "/" in name:
        found.append(complaints.invalid(f"{here}.datasetName", name, "must not contain '/'"))
    return found


def _csi(source: Document, here: str) -> list[Cause]:
    driver, secret = source.get("driver") or "", source.get("nodePublishSecretRef")
    found = complaints.all_invalid(f"{here}.driver", driver, names.dns_subdomain(driver.lower()) if driver else [])
    if secret is not None and not secret.get("name"):
        found.append(complaints.required(f"{here}.nodePublishSecretRef.name"))
    elif secret is not None:
        found += complaints.all_invalid(f"{here}.name", secret["name"], names.dns_subdomain(secret["name"]))
    return found
