"""What would go wrong with a file before it is sent: schema, admission, JobSet and the SDK, all offline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.errors import Cause
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of
from allaboard.points import nearest
from allaboard.training import admission, migration
from allaboard.training.job import TrainJob
from allaboard.training.render import structure
from allaboard.training.runtimes import shipped_runtimes

RUNTIMES = (kinds.TRAINING_RUNTIME, kinds.CLUSTER_TRAINING_RUNTIME)
CHECKED = (kinds.TRAIN_JOB, *RUNTIMES)
# What the API server adds when it gives up on rules: it says nothing about the file.
UNCHECKED = "some validation rules were not checked"
# The SDK reads a device from the limits, and fails over a job whose limits name none of these.
SDK_DEVICES = ("nvidia.com/gpu", "google.com/tpu", "huawei.com/Ascend910", "cpu")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a file should not have: where, what, and whether it can be rewritten."""

    document: int
    path: str
    message: str
    level: str = "error"
    fixable: bool = False


class Shelf:
    """The documents of the files and the shipped runtimes, as admission looks things up."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = {(kind_of(document), key_of(document)): document for document in documents}

    def get(self, kind: Kind, key: Key) -> Document | None:
        if kind is kinds.PRIORITY_CLASS:
            return {"metadata": {"name": key.name}}  # a cluster's own; only it can tell
        return self.documents.get((kind, key)) or self.documents.get((kind, Key("", key.name)))

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        return [document for (found, _), document in self.documents.items() if found is kind]


def lint(documents: Documents, known: Documents) -> list[Finding]:
    """Everything wrong with these documents; `known` are runtimes that exist without being among them."""
    shelf = Shelf([*known, *(document for document in documents if _is_checked(document))])
    found = [finding for at, document in enumerate(documents) for finding in _of(at, document, shelf)]
    return sorted(found, key=lambda finding: (finding.document, finding.path, finding.message))


def report(documents: Documents) -> list[Finding]:
    """Everything wrong with these documents, when the shipped runtimes are there."""
    return lint(documents, shipped_runtimes())


def _is_checked(document: Document) -> bool:
    return any(document.get("apiVersion") == k.api_version and document.get("kind") == k.kind for k in CHECKED)


def _of(at: int, document: Document, shelf: Shelf) -> Iterator[Finding]:
    if not _is_checked(document):
        return
    for path, words in migration.outdated(document):
        yield Finding(at, path, words, fixable=True)
    document = migration.migrated(document)
    shape = structure(kind_of(document))
    admitted = shape.admit(document)
    for path in admitted.unknown:
        yield Finding(at, path, f'unknown field "{path}"{_suggestion(document, path)}')
    broken = [cause for cause in shape.validate(admitted.document) if UNCHECKED not in cause.message]
    yield from (Finding(at, _field(cause), cause.message) for cause in broken)
    if not broken:
        yield from _admission(at, admitted.document, shelf)
    yield from _of_sdk(at, admitted.document)
    if document["kind"] == kinds.TRAIN_JOB.kind:
        yield from _of_counts(at, admitted.document)
    else:
        yield from _of_job_set(at, admitted.document)


def _of_counts(at: int, document: Document) -> Iterator[Finding]:
    """Upstream lets a job of no nodes in, and so do we; but nobody means one."""
    if TrainJob(document).num_nodes == 0:
        yield Finding(at, "spec.trainer.numNodes", "0 nodes train nothing; leave it out or say 1 or more", "warning")


def _of_job_set(at: int, document: Document) -> Iterator[Finding]:
    """Names in a runtime's template that only JobSet would look up, when the first job uses it."""
    where, spec = "spec.template.spec", dig(document, "spec", "template", "spec", default={})
    names = [job.get("name") for job in spec.get("replicatedJobs") or []]
    for number, job in enumerate(spec.get("replicatedJobs") or []):
        for other in job.get("dependsOn") or []:
            if (name := other.get("name")) not in names[:number]:
                words = f'"{name}" must be a replicatedJob that stands before "{job.get("name")}"'
                yield Finding(at, f"{where}.replicatedJobs[{number}].dependsOn", words)
    for policy in ("successPolicy", "failurePolicy"):
        stated = spec.get(policy) or {}
        for name in _targets(stated):
            if name not in names:
                words = f'"{name}" is no replicatedJob of the runtime{nearest(name, names)}'
                yield Finding(at, f"{where}.{policy}", words)


def _targets(policy: Document) -> list[str]:
    """The replicated jobs a policy speaks about, itself or in a rule."""
    stated = [policy, *(policy.get("rules") or [])]
    return [name for part in stated for name in part.get("targetReplicatedJobs") or []]


def _field(cause: Cause) -> str:
    return "" if cause.field == "<nil>" else cause.field


def _suggestion(document: Document, path: str) -> str:
    """The right name that is nearest to a wrong one."""
    *parents, name = _steps(path)
    node = structure(kind_of(document)).root
    for step in parents:
        child = node.items if step.isdecimal() else node.child(step)
        if child is None:
            return ""
        node = child
    return nearest(name, list(node.fields)) if node.fields else ""


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _admission(at: int, document: Document, shelf: Shelf) -> Iterator[Finding]:
    if document["kind"] == kinds.TRAIN_JOB.kind:
        causes, warnings = admission.trainjob_problems(TrainJob(document), None, shelf)
    else:
        causes = list(admission.runtime_problems(document))
        warnings = list(admission.runtime_warnings(document, None))
    yield from (Finding(at, _field(cause), cause.message) for cause in causes)
    yield from (Finding(at, "metadata.labels", words, "warning") for words in warnings)


def _of_sdk(at: int, document: Document) -> Iterator[Finding]:
    for path, limits in _limits(document):
        named = any(name in SDK_DEVICES or name.startswith("nvidia.com/mig-") for name in limits)
        if limits and not named:
            words = "limits name no device the kubeflow SDK knows, so it cannot read this object; add cpu"
            yield Finding(at, path, words, "warning")


def _limits(document: Document) -> Iterator[tuple[str, Document]]:
    if document["kind"] == kinds.TRAIN_JOB.kind:
        path: tuple[str, ...] = ("spec", "trainer", "resourcesPerNode", "limits")
        yield ".".join(path), dig(document, *path, default={})
        return
    jobs: Documents = dig(document, "spec", "template", "spec", "replicatedJobs", default=[])
    for j, job in enumerate(jobs):
        containers: Documents = dig(job, "template", "spec", "template", "spec", "containers", default=[])
        for c, container in enumerate(containers):
            where = (
                f"spec.template.spec.replicatedJobs[{j}].template.spec.template.spec.containers[{c}].resources.limits"
            )
            yield where, dig(container, "resources", "limits", default={})


def fix(document: Document) -> Document:
    """The document with what is outdated in it rewritten."""
    return migration.migrated(document) if _is_checked(document) else document


Locate = Callable[[int, str], tuple[int, int]]


def told(findings: Iterable[Finding], name: str, locate: Locate) -> Iterator[str]:
    """One line per finding, as compilers write them; `locate` gives line and column of a path."""
    for finding in findings:
        line, column = locate(finding.document, finding.path)
        field = f"{finding.path}: " if finding.path else ""
        yield f"{name}:{line}:{column}: {finding.level}: {field}{finding.message}"
