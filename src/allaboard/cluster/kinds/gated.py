"""Fields of a pod that a real API server knows and drops: they stand behind gates that are closed by default."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from allaboard.api.documents import Document, Documents, without
from allaboard.api.twins import made_once

OF_SPEC = ("schedulingGroup", "evictionResponders")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
RARE = frozenset({"lifecycle", *PROBES})
FILES = ("secret", "configMap", "downwardAPI", "projected")


def open_only(spec: Document) -> Document:
    """The spec without what nobody would act on."""
    for key in OF_SPEC:
        spec = without(spec, key) if key in spec else spec
    for part, kept in (
        ("containers", _containers), ("initContainers", _containers),
        ("ephemeralContainers", _containers), ("volumes", _volumes),
    ):  # fmt: skip
        listed = spec.get(part)
        if listed and (found := kept(listed)) is not listed:
            spec = {**spec, part: found}
    return spec


def _containers(listed: Documents) -> Documents:
    return listed if all(map(_is_plain, listed)) else _all(listed, _container)


def _volumes(listed: Documents) -> Documents:
    return _all(listed, _volume)


def _is_plain(container: Document) -> bool:
    """Whether a container has none of the places where such fields stand."""
    mounts = container.get("volumeMounts")
    return RARE.isdisjoint(container) and not (mounts and any("bindMountOptions" in mount for mount in mounts))


def _all(listed: Documents, change: Callable[[Document], Document]) -> Documents:
    """The items, each changed; the very same list where that left all as they were."""
    changed = [change(item) for item in listed]
    return listed if all(map(is_, changed, listed)) else changed


def _each(document: Document, key: str, change: Callable[[Document], Document]) -> Document:
    listed = document.get(key)
    if not listed or (changed := _all(listed, change)) is listed:
        return document
    return {**document, key: changed}


def _container(container: Document) -> Document:
    lifecycle = container.get("lifecycle")
    if lifecycle is not None and "stopSignal" in lifecycle:
        rest = without(lifecycle, "stopSignal")
        container = {**container, "lifecycle": rest} if rest else without(container, "lifecycle")
    for probe in PROBES:
        if "mode" in ((container.get(probe) or {}).get("grpc") or {}):
            grpc = without(container[probe]["grpc"], "mode")
            container = {**container, probe: {**container[probe], "grpc": grpc}}
    return _each(container, "volumeMounts", lambda mount: _less(mount, "bindMountOptions"))


def _less(document: Document, key: str) -> Document:
    return without(document, key) if key in document else document


def _volume(volume: Document) -> Document:
    if "mode" in (volume.get("emptyDir") or {}):
        volume = {**volume, "emptyDir": without(volume["emptyDir"], "mode")}
    for name in FILES:
        source = volume.get(name)
        if source and (kept := _files(source)) is not source:
            volume = {**volume, name: kept}
    return volume


@made_once
def _files(source: Document) -> Document:
    """A source of files; that of its token is the same one for every pod."""
    kept = _each(_less(source, "defaultUser"), "items", lambda item: _less(item, "user"))
    return _each(kept, "sources", _projection)


def _projection(part: Document) -> Document:
    for name, source in part.items():
        if isinstance(source, dict):
            kept = _each(_less(source, "user"), "items", lambda item: _less(item, "user"))
            part = part if kept is source else {**part, name: kept}
    return part
