"""Rules a TrainJob must keep whatever its framework: initializers, sizes, and what may change after creation."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.api.quantity import BadQuantity, parse
from allaboard.training.facts import Case
from allaboard.training.info import DATASET, MODEL
from allaboard.training.problems import invalid
from allaboard.training.runtime import pod_spec_of

VOLUME = "initializer"
INPUTS = ((DATASET, "dataset", "datasetConfig"), (MODEL, "model", "modelConfig"))
# What the schema keeps as it is, but only while it is there before and after (defect 2).
IMMUTABLE = ("trainer", "initializer", "activeDeadlineSeconds")
MOST_NODES = 100_000  # an Indexed Job's limit
# Ruling 23.
REFUSED_SCHEMES = {"cache": "data caches are not supported; use hf://, s3://, gs://, http(s)://, file:// or pvc://"}


def initializer_problems(case: Case) -> Iterable[Cause]:
    """What the TrainJob wants fetched must have a job, a container and a volume in the runtime."""
    wanted = case.job.spec.get("initializer") or {}
    ref = case.job.runtime_ref
    for step, member, config in INPUTS:
        if (source := wanted.get(member)) is None:
            continue
        yield from _scheme_problems(f"spec.initializer.{member}.storageUri", source.get("storageUri") or "")
        if words := _missing_input(case.template_jobs, step, config):
            yield invalid("spec.runtimeRef", ref, words)


def _scheme_problems(field: str, uri: str) -> Iterable[Cause]:
    if words := REFUSED_SCHEMES.get(uri.partition("://")[0].lower()):
        yield invalid(field, uri, words)


def _missing_input(jobs: Documents, step: str, config: str) -> str:
    found = next((job for job in jobs if job["name"] == step), None)
    if found is None:
        return f"must have {step} job when trainJob is configured with input {config}"
    spec = pod_spec_of(found)
    regular = [container for container in spec.get("containers") or [] if container["name"] == step]
    if not regular and all(container["name"] != step for container in spec.get("initContainers") or []):
        return f"must have container with name - {step} in the {step} job"
    if not any(mount.get("name") == VOLUME for container in regular for mount in container.get("volumeMounts") or []):
        return f"must have volumeMount with name - {VOLUME} in container {step} of the {step} job"
    return ""


def size_problems(case: Case) -> Iterable[Cause]:
    nodes = case.job.num_nodes
    if nodes is not None and nodes > MOST_NODES:
        words = f"must be no more than {MOST_NODES}, which is what one Job can hold"
        yield invalid("spec.trainer.numNodes", nodes, words)
    wanted: Document = case.job.trainer.get("resourcesPerNode") or {}
    for side in ("limits", "requests"):
        for name, amount in (wanted.get(side) or {}).items():
            if not _is_machine_sized(amount):
                words = "must be an amount that a machine can have: between 0 and 2^63"
                yield invalid(f"spec.trainer.resourcesPerNode.{side}[{name}]", amount, words)


def _is_machine_sized(amount: str | int | float) -> bool:
    try:
        return 0 <= parse(amount).value() < 2**63
    except BadQuantity:
        return False


def change_problems(case: Case) -> Iterable[Cause]:
    """Optional fields that are fixed at creation can be neither added nor removed later."""
    if case.old is None:
        return
    for name in IMMUTABLE:
        before, after = case.old.spec.get(name), case.job.spec.get(name)
        if (before is None) != (after is None):
            yield invalid(f"spec.{name}", after, "field is immutable")
