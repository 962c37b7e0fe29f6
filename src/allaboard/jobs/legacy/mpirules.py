"""What an MPIJob must say to be run; its operator complains in an event and leaves the job alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import mpi, names
from allaboard.api.documents import Document
from allaboard.api.meta import name_of

POLICIES = ("All", "None", "Running")
RESTARTS = ("Never", "OnFailure")
MANAGERS = ("kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue")
_SPECS = "spec.mpiReplicaSpecs"
_NEGATIVE = "must be greater than or equal to 0"


def complaint(job: Document) -> str:
    """Everything wrong with a job, as one sentence; nothing where nothing is."""
    found = [*_name(job), *_replicas(job), *_numbers(job), *_choices(job)]
    if not found:
        return ""
    said = found[0] if len(found) == 1 else "[" + ", ".join(found) + "]"
    return f"Found validation errors: {said}"


def _name(job: Document) -> Iterable[str]:
    workers = max((job["spec"]["mpiReplicaSpecs"].get("Worker") or {}).get("replicas", 1), 1)
    longest = f"{name_of(job)}-worker-{workers - 1}"
    if words := names.dns_1035_label(longest):
        why = f'will not able to create pod and service with invalid DNS label "{longest}": {", ".join(words)}'
        yield f'metadata.name: Invalid value: "{name_of(job)}": {why}'


def _replicas(job: Document) -> Iterable[str]:
    specs = job["spec"]["mpiReplicaSpecs"]
    if not specs.get("Launcher"):
        yield f"{_SPECS}[Launcher]: Required value: must have Launcher replica spec"
    for kind, spec in ((kind, specs[kind]) for kind in ("Launcher", "Worker") if specs.get(kind)):
        field = f"{_SPECS}[{kind}]"
        policy = spec.get("restartPolicy") or RESTARTS[0]
        if policy not in RESTARTS:
            yield _unsupported(f"{field}.restartPolicy", policy, RESTARTS)
        if not spec["template"]["spec"].get("containers"):
            yield f"{field}.template.spec.containers: Required value: must define at least one container"
        count = spec.get("replicas", 1 if kind == "Launcher" else 0)
        if kind == "Launcher" and count != 1:
            yield f"{field}.replicas: Invalid value: {count}: must be 1"
        if kind == "Worker" and count <= 0:
            yield f"{field}.replicas: Invalid value: {count}: must be greater than or equal to 1"


def _numbers(job: Document) -> Iterable[str]:
    spec, policy = job["spec"], job["spec"].get("runPolicy") or {}
    given = [("spec.slotsPerWorker", spec.get("slotsPerWorker"))]
    given += [
        (f"spec.runPolicy.{key}", policy.get(key))
        for key in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    ]
    for field, value in given:
        if value is not None and value < 0:
            yield f"{field}: Invalid value: {value}: {_NEGATIVE}"


def _choices(job: Document) -> Iterable[str]:
    spec, policy = job["spec"], job["spec"].get("runPolicy") or {}
    chosen = (
        ("spec.runPolicy.cleanPodPolicy", policy.get("cleanPodPolicy"), POLICIES),
        ("spec.runPolicy.managedBy", policy.get("managedBy"), MANAGERS),
        ("spec.mpiImplementation", spec.get("mpiImplementation"), sorted(mpi.IMPLEMENTATIONS)),
    )
    for field, value, known in chosen:
        if value and value not in known:
            yield _unsupported(field, value, known)


def _unsupported(field: str, value: str, known: Sequence[str]) -> str:
    quoted = ", ".join(f'"{word}"' for word in known)
    return f'{field}: Unsupported value: "{value}": supported values: {quoted}'
