"""By what TrainJobs and runtimes are found again: the runtime a job names, the runtime classes a runtime uses."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.kinds import Kind
from allaboard.training.job import GROUP
from allaboard.training.runtime import pod_spec_of


def runtime_name(document: Document, kind: Kind) -> str | None:
    """The runtime of this kind that a TrainJob names; None for any other kind, or another document."""
    ref = (document.get("spec") or {}).get("runtimeRef") or {}
    named = (ref.get("apiGroup"), ref.get("kind")) == (GROUP, kind.kind)
    return ref.get("name") if named and document.get("kind") == kinds.TRAIN_JOB.kind else None


def runtime_classes(document: Document, kind: Kind) -> list[str]:
    """The runtime classes that a runtime's pods ask for, job by job."""
    if document.get("kind") != kind.kind:
        return []
    jobs: Documents = dig(document, "spec", "template", "spec", "replicatedJobs", default=[])
    named = (pod_spec_of(job).get("runtimeClassName") for job in jobs)
    return [name for name in named if name]
