"""What the phases are told besides the job and its runtime: what exists, how the plane is set up, and chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.kinds import Kind
from allaboard.training.info import Info
from allaboard.training.job import TrainJob


@dataclass(frozen=True, slots=True)
class Settings:
    """How the plane is set up, as far as jobs can see it."""

    namespace: str = "kubeflow-system"
    service: str = "kubeflow-trainer-controller-manager"
    secret: str = "kubeflow-trainer-webhook-cert"
    status_port: int = 10443
    # Where pods report progress, when it is not the service's own address.
    status_url: str = ""
    gates: frozenset[str] = frozenset()


def no_chance(size: int) -> bytes:
    """For builds that must need no randomness."""
    raise RuntimeError(f"{size} random bytes were asked for, but this build was given none")


@dataclass(frozen=True, slots=True)
class Facts:
    """What already exists for a job, and what the edge brings along."""

    existing: dict[tuple[Kind, str], Document] = field(default_factory=dict)
    settings: Settings = Settings()
    # The certificate pods trust when they report; None where it is not there yet.
    authority: str | None = None
    entropy: Callable[[int], bytes] = no_chance
    # What the API server will add to a pod's requests: overheads of runtime classes, defaults of limit ranges.
    overheads: dict[str, Document] = field(default_factory=dict)
    limit_ranges: Documents = field(default_factory=list)

    def has(self, kind: Kind, name: str) -> bool:
        return (kind, name) in self.existing

    def find(self, kind: Kind, name: str) -> Document | None:
        return self.existing.get((kind, name))


def known(documents: Iterable[tuple[Kind, Document]]) -> dict[tuple[Kind, str], Document]:
    """Documents of one namespace, to be found by kind and name."""
    return {(kind, document["metadata"]["name"]): document for kind, document in documents}


@dataclass(frozen=True, slots=True)
class Case:
    """A TrainJob that asks to be let in: what it is, what it was, and the runtime it names."""

    job: TrainJob
    old: TrainJob | None
    runtime: Document
    info: Info
    get: Callable[[Kind, Key], Document | None]

    @property
    def template_jobs(self) -> Documents:
        """The runtime's own jobs, before any patch (defect 42)."""
        template = (self.runtime.get("spec") or {}).get("template") or {}
        return (template.get("spec") or {}).get("replicatedJobs") or []
