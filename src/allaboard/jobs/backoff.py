"""How long a Job waits before it replaces pods that failed: 10 s, doubled with each failure, 10 minutes at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from allaboard.jobs.members import Member, failures_of, finished_at, is_evicted

FIRST, LONGEST = timedelta(seconds=10), timedelta(minutes=10)
_REMEMBERED = 16  # more failures than the delay can tell apart


@dataclass(frozen=True, slots=True)
class Record:
    """The failures since the last success, by pod uid. Seeing the same pod twice changes nothing."""

    failures: tuple[tuple[datetime, str], ...] = ()
    success: datetime | None = None


FRESH = Record()


def noted(record: Record, succeeded: Iterable[Member], failed: Iterable[Member]) -> Record:
    """The record after these finished pods were seen."""
    ends = [finished_at(member.document) for member in succeeded]
    if record.success:
        ends.append(record.success)
    success = max(ends, default=None)
    known = {uid: moment for moment, uid in record.failures}
    for member in failed:
        known.setdefault(member.uid, finished_at(member.document))
    kept = sorted((moment, uid) for uid, moment in known.items() if success is None or moment >= success)
    return Record(tuple(kept[-_REMEMBERED:]), success)


def delay_of(failures: int) -> timedelta:
    return min(FIRST * 2 ** min(failures - 1, _REMEMBERED), LONGEST) if failures else timedelta()


def due(record: Record) -> datetime | None:
    """When new pods may be made; None is at once."""
    return record.failures[-1][0] + delay_of(len(record.failures)) if record.failures else None


def due_for_index(last: Member | None) -> datetime | None:
    """When an index that failed may be tried again, by the pod that failed last."""
    if last is None or is_evicted(last.document):
        return None
    return finished_at(last.document) + delay_of(failures_of(last.document) + 1)
