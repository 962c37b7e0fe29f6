"""What one pass over a JobSet knows: the facts it was given and the status it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from allaboard.api.documents import Document
from allaboard.jobs import roster
from allaboard.jobs.children import replicas_of, replicated_jobs
from allaboard.jobs.draft import Draft

RESTART_JOB, ELASTIC, IN_PLACE = "RestartJob", "ElasticJobSet", "InPlaceRestart"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster holds around a JobSet."""

    jobs: Sequence[Document] = ()
    has_service: bool = False
    claims: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()  # names of Jobs that are somebody else's
    gates: frozenset[str] = frozenset()
    pods: Sequence[Document] = ()  # only looked at where pods restart in place


@dataclass(slots=True)
class Story:
    """One pass: the JobSet, its sorted Jobs, the rows of its status, and the status being written."""

    jobset: Document
    facts: Facts
    now: datetime
    spec: Document = field(init=False)
    replicated: Sequence[Document] = field(init=False)
    is_suspended: bool = field(init=False)
    is_in_order: bool = field(init=False)  # one entry after the other; it only matters for a JobSet that runs
    roster: roster.Roster = field(init=False)
    rows: list[Document] = field(init=False)
    draft: Draft = field(init=False)

    def __post_init__(self) -> None:
        self.spec, self.replicated = self.jobset["spec"], replicated_jobs(self.jobset)
        self.is_suspended = bool(self.spec.get("suspend"))
        order = (self.spec.get("startupPolicy") or {}).get("startupPolicyOrder")
        self.is_in_order = order == "InOrder" and not self.is_suspended
        self.roster = roster.sort(self.jobset, self.facts.jobs)
        self.rows = roster.rows(self.jobset, self.roster)
        self.draft = Draft(self.jobset, self.now)
        if self.rows or self.draft.status.get("replicatedJobsStatus"):
            self.draft.status["replicatedJobsStatus"] = self.rows

    def row(self, name: str) -> Document:
        return next(row for row in self.rows if row["name"] == name)

    def has_started(self, replicated: Document) -> bool:
        """Every Job of this entry is ready, or beyond."""
        row = self.row(replicated["name"])
        return bool(row["ready"] + row["failed"] + row["succeeded"] == replicas_of(replicated))
