"""Creations the server refused: what to say about them, and how long to wait before asking again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.meta import controller_of, name_of, namespace_of
from allaboard.jobs.members import Member
from allaboard.kube.plan import Event, Plan

FIRST, LONGEST = timedelta(seconds=1), timedelta(minutes=1)
Picture = tuple[tuple[str, str, str], ...]


@dataclass(slots=True)
class _Trouble:
    picture: Picture  # the pods as they were when the attempt was made
    attempt: tuple[Event, ...]
    refused: set[str] = field(default_factory=set)
    count: int = 0
    until: datetime | None = None


class Refusals:
    """The one thing a Job controller remembers of its own attempts."""

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    def attempted(self, job: str, members: Sequence[Member], plan: Plan) -> None:
        """Pods are about to be made; should some be refused, the others still deserve their event."""
        known = self._troubles.get(job)
        self._troubles[job] = _Trouble(_picture(members), plan.events, count=known.count if known else 0)

    def refused(self, pod: Document, message: str, now: datetime) -> Iterable[Event]:
        """One pod was refused: the Job says so, and waits longer each time."""
        owner = controller_of(pod) or {}
        trouble = self._troubles.get(owner.get("uid", ""))
        if trouble is None:
            return ()
        if not trouble.refused:
            trouble.count += 1
            trouble.until = now + min(FIRST * 2 ** min(trouble.count - 1, 10), LONGEST)
        trouble.refused.add(name_of(pod))
        about = {"name": owner["name"], "namespace": namespace_of(pod), "uid": owner["uid"]}
        job = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": about}
        return (Event(job, "FailedCreate", f"Error creating: {message}", "Warning"),)

    def hold(self, job: str, members: Sequence[Member]) -> datetime | None:
        """How long this Job should make no pods; any change among its pods is a reason to ask again at once."""
        trouble = self._troubles.get(job)
        if trouble is None:
            return None
        if trouble.until is None:  # the last attempt went well: nothing to remember
            del self._troubles[job]
            return None
        return trouble.until if _settled(trouble, members) else None

    def unsaid(self, job: str, members: Sequence[Member]) -> tuple[Event, ...]:
        """Events of the pods that were made beside refused ones: the refusal ended that pass before its words."""
        trouble = self._troubles.get(job)
        if trouble is None or not trouble.refused:
            return ()
        there = {f"Created pod: {member.name}" for member in members}
        events = tuple(event for event in trouble.attempt if event.message in there)
        trouble.attempt = ()
        return events

    def is_open(self, job: str) -> bool:
        """Pods of this Job were refused and are still wanted: any news of its pods may help."""
        trouble = self._troubles.get(job)
        return trouble is not None and trouble.until is not None

    def forget(self, job: str) -> None:
        self._troubles.pop(job, None)


def _picture(members: Sequence[Member]) -> Picture:
    return tuple((m.uid, m.phase, (m.document.get("spec") or {}).get("nodeName", "")) for m in members)


def _settled(trouble: _Trouble, members: Sequence[Member]) -> bool:
    """Nothing happened but that the pods of the attempt itself appeared."""
    before = set(trouble.picture)
    fresh = [entry for entry in _picture(members) if entry not in before]
    return before <= set(_picture(members)) and all(entry[1:] == ("Pending", "") for entry in fresh)
