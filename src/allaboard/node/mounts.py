"""Which directories and files a pod sees: the content of its volumes, and where each is mounted."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allaboard.api import quantity
from allaboard.api.documents import Document, dig
from allaboard.node.environment import MissingSource, Sources, decode, expand, field_value, resource_value

# Kinds of volumes that are files made from objects, and so are written and refreshed by us.
RENDERED = ("configMap", "secret", "downwardAPI", "projected")
DIRECTORIES = ("emptyDir", "hostPath", "persistentVolumeClaim", "ephemeral")
DEFAULT_MODE = 0o644
LOCAL = "aboard.dev/local-directory"  # who makes directories for claims


class Unmountable(Exception):
    """A volume or mount that cannot be given; the words say which and why."""


class Forbidden(Unmountable):
    """A volume this node will never give: waiting does not help, so the pod fails."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a rendered volume."""

    content: bytes
    mode: int = DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod: its name, which kind it is, and that kind's own fields."""

    name: str
    kind: str
    spec: Document


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host, shown at a path of the container."""

    source: str
    target: str
    read_only: bool = False
    group: int | None = None  # whom its files are given to as they are mounted
    inner: str = ""  # the part of the source that is shown; links in it may not lead out of the source

    @property
    def path(self) -> str:
        return posixpath.join(self.source, self.inner) if self.inner else self.source

    def document(self) -> Document:
        found: Document = {"source": self.source, "target": self.target, "readOnly": self.read_only}
        found |= {"inner": self.inner} if self.inner else {}
        return found | ({"group": self.group} if self.group is not None else {})


@dataclass(frozen=True, slots=True)
class Tokens:
    """Service account tokens already asked for, by (audience, seconds)."""

    found: Mapping[tuple[str, int], str] = field(default_factory=dict)


def volumes_of(pod: Document) -> list[Volume]:
    return [_volume(document) for document in dig(pod, "spec", "volumes", default=[])]


def _volume(document: Document) -> Volume:
    kinds = [kind for kind in document if kind != "name"]
    if not kinds:
        return Volume(document["name"], "emptyDir", {})
    kind = kinds[0]
    if kind not in RENDERED and kind not in DIRECTORIES:
        known = ", ".join(sorted((*RENDERED, *DIRECTORIES)))
        raise Unmountable(f'volume "{document["name"]}": {kind} is not supported on this node; it has: {known}')
    return Volume(document["name"], kind, document[kind] or {})


def parts_of(volume: Volume) -> list[tuple[str, Document]]:
    """The sources of a rendered volume, one by one: a projected volume has several."""
    if volume.kind != "projected":
        return [(volume.kind, volume.spec)]
    return [(kind, spec or {}) for source in volume.spec.get("sources") or [] for kind, spec in source.items()]


def needs(volume: Volume) -> Iterator[tuple[str, str]]:
    """The objects a volume is made of: ("configMap" or "secret", name)."""
    for kind, spec in parts_of(volume) if volume.kind in RENDERED else ():
        if kind in ("configMap", "secret"):
            yield kind, spec.get("name") or spec.get("secretName") or ""


def token_asks(pod: Document) -> list[tuple[str, int]]:
    """The service account tokens a pod's volumes want: (audience, seconds)."""
    return [
        (spec.get("audience", ""), int(spec.get("expirationSeconds") or 3600))
        for volume in volumes_of(pod)
        if volume.kind == "projected"
        for kind, spec in parts_of(volume)
        if kind == "serviceAccountToken"
    ]


def render(volume: Volume, sources: Sources, tokens: Tokens) -> dict[str, File]:
    """Every file of a rendered volume, by relative path. Later sources win over earlier ones."""
    default = volume.spec.get("defaultMode", DEFAULT_MODE)
    files: dict[str, File] = {}
    for kind, spec in parts_of(volume):
        files |= _part(kind, spec, default, sources, tokens)
    for path in files:
        _check_path(volume, path)
    return files


def _check_path(volume: Volume, path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise Unmountable(f'volume "{volume.name}": "{path}" must be a relative path without ".."')


def _part(kind: str, spec: Document, default: int, sources: Sources, tokens: Tokens) -> dict[str, File]:
    match kind:
        case "configMap":
            return _keys(spec, _config_map_content(spec, sources), default, f'configmap "{spec.get("name", "")}"')
        case "secret":
            name = spec.get("secretName") or spec.get("name") or ""
            return _keys(spec, _secret_content(name, spec, sources), default, f'secret "{name}"')
        case "downwardAPI":
            return {item["path"]: _downward(item, default, sources) for item in spec.get("items") or []}
        case "serviceAccountToken":
            ask = (spec.get("audience", ""), int(spec.get("expirationSeconds") or 3600))
            # Upstream: tokens are readable by their owner alone, unless a group is named for the pod.
            shared = dig(sources.pod, "spec", "securityContext", "fsGroup") is not None
            return {spec["path"]: File(tokens.found.get(ask, "").encode(), 0o640 if shared else 0o600)}
    raise Unmountable(f"projected source {kind} is not supported on this node")


def _config_map_content(spec: Document, sources: Sources) -> dict[str, bytes] | None:
    found = sources.config_maps.get(spec.get("name", ""))
    if found is None:
        _allow_absence(spec, f'configmap "{spec.get("name", "")}" not found')
        return None
    plain = {name: value.encode() for name, value in (found.get("data") or {}).items()}
    return plain | {name: decode(value) for name, value in (found.get("binaryData") or {}).items()}


def _secret_content(name: str, spec: Document, sources: Sources) -> dict[str, bytes] | None:
    found = sources.secrets.get(name)
    if found is None:
        _allow_absence(spec, f'secret "{name}" not found')
        return None
    return {key: decode(value) for key, value in (found.get("data") or {}).items()}


def _allow_absence(spec: Document, words: str) -> None:
    if not spec.get("optional"):
        raise MissingSource(words)


def _keys(spec: Document, content: dict[str, bytes] | None, default: int, what: str) -> dict[str, File]:
    if content is None:
        return {}
    items = spec.get("items")
    if not items:
        return {name: File(data, default) for name, data in content.items()}
    files = {}
    for item in items:
        if item["key"] in content:
            files[item["path"]] = File(content[item["key"]], item.get("mode", default))
        elif not spec.get("optional"):
            raise MissingSource(f"{what}: references non-existent key: {item['key']}")
    return files


def _downward(item: Document, default: int, sources: Sources) -> File:
    if "fieldRef" in item:
        text = field_value(item["fieldRef"]["fieldPath"], sources)
    else:
        text = resource_value(item["resourceFieldRef"], {}, sources)
    return File(text.encode(), item.get("mode", default))


def mounts_of(container: Document, roots: Mapping[str, str], variables: Mapping[str, str]) -> list[Mount]:
    """Where each volume of a container is seen; parents before what is mounted inside them."""
    found: dict[str, Mount] = {}
    for entry in container.get("volumeMounts") or []:
        target = "/" + posixpath.normpath(entry["mountPath"]).lstrip("/")
        if target in found:
            raise Unmountable(f'mountPath "{target}" is used twice in container "{container["name"]}"; must be unique')
        if target == "/" or f"{target}/".startswith("/proc/"):
            rule = "must be neither the root of the file tree nor below /proc"
            raise Unmountable(f'mountPath "{target}" in container "{container["name"]}": {rule}')
        if entry["name"] not in roots:
            raise Unmountable(f'volumeMount "{entry["name"]}": no such volume in this pod')
        inner, source = _sub_path(entry, variables), roots[entry["name"]]
        found[target] = Mount(source, target, bool(entry.get("readOnly")), inner=inner)
    return [found[target] for target in sorted(found)]


def memory_size(pod: Document, volume: Volume) -> int:
    """Upstream: a memory volume is as large as its sizeLimit and the memory limits of the pod allow. 0: nobody says."""
    if volume.kind != "emptyDir" or volume.spec.get("medium") != "Memory":
        return 0
    limits = [dig(container, "resources", "limits", "memory") for container in pod["spec"].get("containers", [])]
    own = sum(_bytes(limit) for limit in limits) if limits and all(limits) else 0
    return min(filter(None, (_bytes(volume.spec.get("sizeLimit") or 0), own)), default=0)


def _bytes(amount: str | int) -> int:
    return int(float(quantity.parse(amount)))


def reclaimed(volume: Document, root: str) -> str:
    """The directory of a persistent volume that nobody needs any more; "" where it is not ours to take away."""
    path = posixpath.normpath(str(dig(volume, "spec", "hostPath", "path", default="")))
    ours = dig(volume, "metadata", "annotations", default={}).get("pv.kubernetes.io/provisioned-by") == LOCAL
    goes = dig(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete"
    return path if ours and goes and path.startswith(f"{root.rstrip('/')}/") else ""


def _sub_path(entry: Document, variables: Mapping[str, str]) -> str:
    inner = expand(entry.get("subPathExpr") or "", variables) or entry.get("subPath") or ""
    if inner.startswith("/") or ".." in inner.split("/"):
        raise Unmountable(f'subPath "{inner}" must be a relative path without ".."')
    return posixpath.normpath(inner) if inner else ""


def safe_mode(mode: int, *, owner_reads: bool, content: bytes) -> int:
    """The private-key rule: OpenSSH refuses a key its own reader shares with others, so those bits go."""
    private = b"PRIVATE KEY" in content[:64]
    return mode & 0o700 if owner_reads and private else mode


def replaced_paths(text: str, mounts: Sequence[Mount]) -> str:
    """A value with mount paths turned into host paths: for levels that cannot mount."""
    for mount in sorted(mounts, key=lambda mount: -len(mount.target)):
        if text == mount.target or f"{mount.target}/" in text or text.endswith(mount.target):
            text = text.replace(mount.target, mount.path)
    return text
