"""Fields that older versions had: found by name, and rewritten into what took their place."""

from __future__ import annotations

from collections.abc import Iterator

from allaboard.api.documents import Document, Documents, replace, without

MANAGER = "aboard.dev/migrated"
OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
INPUTS = (("datasetConfig", "dataset"), ("modelConfig", "model"))
METADATA = ("labels", "annotations")


def outdated(document: Document) -> Iterator[tuple[str, str]]:
    """Every old field of a TrainJob, with what replaced it."""
    spec = document.get("spec") or {}
    if document.get("kind") != "TrainJob":
        return
    for name in OVERRIDES:
        if name in spec:
            yield f"spec.{name}", f'"{name}" was removed; runtimePatches took its place'
    for name in METADATA:
        if name in spec:
            yield (
                f"spec.{name}",
                f'"spec.{name}" was removed; runtimePatches[].trainingRuntimeSpec.template.metadata has it',
            )
    for old, new in INPUTS:
        if old in spec:
            yield f"spec.{old}", f'"{old}" was renamed; it is initializer.{new}'
    for new in ("dataset", "model"):
        if "storageURI" in ((spec.get("initializer") or {}).get(new) or {}):
            yield f"spec.initializer.{new}.storageURI", '"storageURI" was renamed; it is storageUri'


def migrated(document: Document) -> Document:
    """The TrainJob in today's words; anything else as it is."""
    if not any(True for _ in outdated(document)):
        return document
    spec = document["spec"]
    patches = [*_override_patches(spec), *_metadata_patches(spec)]
    if patches:
        document = replace(document, "spec", "runtimePatches", value=[*(spec.get("runtimePatches") or []), *patches])
    for name in (*OVERRIDES, *METADATA):
        document = without(document, "spec", name)
    for old, new in INPUTS:
        if old in spec:
            document = replace(without(document, "spec", old), "spec", "initializer", new, value=_renamed(spec[old]))
    for new in ("dataset", "model"):
        source = ((spec.get("initializer") or {}).get(new)) or {}
        if "storageURI" in source:
            document = replace(document, "spec", "initializer", new, value=_renamed(source))
    return document


def _renamed(source: Document) -> Document:
    rest = {name: value for name, value in source.items() if name != "storageURI"}
    return {**rest, "storageUri": source["storageURI"]} if "storageURI" in source else rest


def _override_patches(spec: Document) -> Documents:
    jobs: dict[str, Document] = {}
    for name in OVERRIDES:
        for override in spec.get(name) or []:
            pod = _pod(override)
            for target in override.get("targetJobs") or []:
                jobs.setdefault(target["name"], {}).update(pod)
    if not jobs:
        return []
    changes = [{"name": job, "template": {"spec": {"template": pod}}} for job, pod in jobs.items()]
    return [_patch({"spec": {"replicatedJobs": changes}}, MANAGER)]


def _pod(override: Document) -> Document:
    """`podTemplateOverrides` nests the pod's spec, `podSpecOverrides` had it inline."""
    if "spec" in override or "metadata" in override:
        return {name: override[name] for name in ("metadata", "spec") if override.get(name)}
    return {"spec": {name: value for name, value in override.items() if name != "targetJobs"}}


def _metadata_patches(spec: Document) -> Documents:
    found = {name: spec[name] for name in METADATA if spec.get(name)}
    return [_patch({"metadata": found}, f"{MANAGER}-metadata")] if found else []


def _patch(template: Document, manager: str) -> Document:
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}
