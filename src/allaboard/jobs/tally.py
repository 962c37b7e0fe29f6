"""Counting a Job's pods: who works, who ended, and which of the ended are not in the status yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, is_true
from allaboard.jobs import indexes, podfailure
from allaboard.jobs.members import Member, counted_failures, failures_of, finished_at, is_ready


@dataclass(frozen=True, slots=True)
class Order:
    """What a Job asks for, read once."""

    job: Document
    spec: Document
    status: Document
    parallelism: int
    completions: int | None
    indexed: bool
    limit: int
    per_index: int | None
    replace_failed_only: bool
    suspended: bool
    leaving: bool


def read_order(job: Document) -> Order:
    spec = job["spec"]
    return Order(
        job,
        spec,
        job.get("status") or {},
        spec.get("parallelism", 1),
        spec.get("completions"),
        spec.get("completionMode") == "Indexed",
        spec.get("backoffLimit", 6),
        spec.get("backoffLimitPerIndex"),
        spec.get("podReplacementPolicy") == "Failed",
        bool(spec.get("suspend")),
        is_leaving(job),
    )


@dataclass(slots=True)
class Tally:
    """The pods of one Job at one moment, sorted and counted."""

    order: Order
    members: Sequence[Member]
    active: list[Member] = field(default_factory=list)
    terminating: int = 0
    succeeded_now: list[Member] = field(default_factory=list)  # ended and not in the status yet
    failed_now: list[Member] = field(default_factory=list)
    uncounted_succeeded: frozenset[str] = frozenset()
    uncounted_failed: frozenset[str] = frozenset()
    completed: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] | None = None
    held: dict[int, Member] = field(default_factory=dict)  # failed pods whose finalizer waits for a replacement

    @property
    def succeeded(self) -> int:
        if self.order.indexed:
            return len(self.completed)
        return int(self.order.status.get("succeeded", 0)) + len(self.uncounted_succeeded) + len(self.succeeded_now)

    @property
    def failed(self) -> int:
        """Failures that count against the limit, those being counted included."""
        policy = self.order.spec.get("podFailurePolicy")
        new = self.failed_now
        if policy:
            new = [member for member in new if podfailure.judge(policy, member.document).counts]
        return int(self.order.status.get("failed", 0)) + len(self.uncounted_failed) + len(new)

    @property
    def ready(self) -> int:
        return sum(is_ready(member.document) for member in self.active)


def has_failed(order: Order, member: Member) -> bool:
    """A pod that is being deleted counts as failed, unless only real failures are replaced.

    A Job that is itself leaving takes its pods along; that is nobody's failure.
    """
    if member.phase == "Failed":
        return True
    return member.leaving and member.phase != "Succeeded" and not (order.replace_failed_only or order.leaving)


def has_place(order: Order, member: Member) -> bool:
    """In an Indexed Job only pods with an index below the completions count."""
    return not order.indexed or (member.place is not None and member.place < (order.completions or 0))


def count(order: Order, members: Sequence[Member]) -> Tally:
    """Sort the pods of a Job and read what its status already knows."""
    uncounted = order.status.get("uncountedTerminatedPods") or {}
    tally = Tally(order, members)
    tally.uncounted_succeeded = frozenset(uncounted.get("succeeded") or ())
    tally.uncounted_failed = frozenset(uncounted.get("failed") or ())
    for member in members:
        if member.is_active:
            tally.active.append(member)
        elif member.is_terminating:
            tally.terminating += 1
        if member.tracked and not member.is_active and has_place(order, member):
            _note_end(tally, member)
    if order.indexed:
        _count_indexes(tally)
    return tally


def _note_end(tally: Tally, member: Member) -> None:
    if member.phase == "Succeeded":
        if member.uid not in tally.uncounted_succeeded:
            tally.succeeded_now.append(member)
    elif has_failed(tally.order, member) and member.uid not in tally.uncounted_failed:
        tally.failed_now.append(member)


def _count_indexes(tally: Tally) -> None:
    order = tally.order
    completions = order.completions or 0
    known = indexes.parse(order.status.get("completedIndexes") or "", completions)
    new = [member.place for member in tally.succeeded_now if member.place is not None]
    tally.completed = known.union(new) if new else known
    if order.per_index is None:
        return
    lost = indexes.parse(order.status.get("failedIndexes") or "", completions)
    decided = is_true(order.job, "FailureTarget") or is_true(order.job, "SuccessCriteriaMet")
    failed = [
        m
        for m in tally.members
        if m.tracked and has_place(order, m) and has_failed(order, m) and not (decided and m.leaving)
    ]  # whom a decided Job sends home costs no index
    tally.failed_indexes = lost.union(m.place for m in failed if m.place is not None and _spends_index(order, m))
    _hold(tally, failed)


def _spends_index(order: Order, member: Member) -> bool:
    """This failure was the last one its index could afford."""
    finding = podfailure.judge(order.spec.get("podFailurePolicy"), member.document)
    if finding.action == "FailIndex":
        return True
    return finding.counts and counted_failures(member.document) >= (order.per_index or 0)


def _hold(tally: Tally, failed: Sequence[Member]) -> None:
    """The newest failed pod of an index that will be tried again stays, finalizer and all, until its replacement
    carries the failure count on (the annotation is the only memory of it)."""
    busy = {member.place for member in tally.active} | tally.completed | (tally.failed_indexes or frozenset())
    for member in failed:
        if member.place is None or member.place in busy:
            continue
        other = tally.held.get(member.place)
        if other is None or _later(member) >= _later(other):
            tally.held[member.place] = member


def _later(member: Member) -> tuple[object, ...]:
    return failures_of(member.document), finished_at(member.document), member.name
