"""What went wrong is kept: exit code, reason, node and last words of failed pods outlive the pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from allaboard.api import kinds, labels
from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.api.meta import annotations_of, condition_of, is_true, key_of, labels_of, name_of
from allaboard.jobs.members import Member, asked_to_leave, finished_at
from allaboard.kube.plan import NOTHING, Patch, Plan

MOST = 8  # failures told; the first is the one that matters
_KILLED = {137, 143}  # by SIGKILL, by SIGTERM
_LAST_WORDS = 2000  # characters kept of what a container said last


def told(document: Document) -> list[Document]:
    """The failures written on a Job or JobSet, the first one first."""
    text = annotations_of(document).get(labels.FAILURES)
    if not text:
        return []
    try:
        return msgspec.json.decode(text, type=list[Document])
    except msgspec.DecodeError:  # somebody else's words under our key
        return []


def testify(job: Document, members: Sequence[Member]) -> Plan:
    """Write down failures of this Job's pods that were not told yet."""
    known = told(job)
    if len(known) >= MOST:
        return NOTHING
    names = {entry.get("pod") for entry in known}
    fresh = [member for member in members if member.name not in names and not _was_sent_home(member)]
    found = list(filter(None, map(_testimony, fresh)))
    if not found:
        return NOTHING
    told_now = sorted([*known, *found], key=lambda entry: (entry.get("at", ""), entry.get("pod", "")))
    return _write(kinds.JOB, job, told_now[:MOST])


def _was_sent_home(member: Member) -> bool:
    """Its end is a consequence: it was asked to leave, and did not end before that by itself."""
    asked = asked_to_leave(member.document)
    if asked is None:
        return False
    codes = {end.get("exitCode") for _, end in _bad_ends(member.document.get("status") or {})}
    return member.phase != "Failed" or not codes - _KILLED or finished_at(member.document) > asked


def retell(jobset: Document, jobs: Iterable[Document]) -> Plan:
    """Write on a JobSet what the first failed Job of each attempt knows, once for each attempt."""
    witnesses = sorted(filter(told, jobs), key=_failed_at)
    if not witnesses:
        return NOTHING
    heard = {entry.get("attempt") for entry in told(jobset)}
    fresh: dict[int, Document] = {}
    for job in witnesses:
        attempt = int(labels_of(job).get(labels.RESTART_ATTEMPT, "0"))
        if attempt not in heard:
            fresh.setdefault(attempt, job)
    entries = [
        {**entry, "job": name_of(job), "attempt": attempt}
        for attempt, job in sorted(fresh.items())
        if is_true(job, "Failed")
        for entry in told(job)
    ]
    return _write(kinds.JOB_SET, jobset, entries) if entries else NOTHING


def _failed_at(job: Document) -> tuple[str, str]:
    return (condition_of(job, "Failed") or {}).get("lastTransitionTime", "~"), name_of(job)


def _write(kind: Kind, document: Document, entries: Sequence[Document]) -> Plan:
    text = msgspec.json.encode(entries).decode()
    body = {"metadata": {"annotations": {labels.FAILURES: text}}}
    return Plan(patch=(Patch(kind, key_of(document), body),))


def _testimony(member: Member) -> Document | None:
    """The first container of a pod that did not end well, or the pod's own reason."""
    pod, status = member.document, member.document.get("status") or {}
    ended = next(_bad_ends(status), None)
    if ended is None and member.phase != "Failed":
        return None
    name, end = ended or ("", {})
    entry: Document = {"pod": member.name, "index": member.place, "node": (pod.get("spec") or {}).get("nodeName")}
    entry |= {"container": name, "exitCode": end.get("exitCode"), "reason": status.get("reason") or end.get("reason")}
    words = end.get("message") or annotations_of(pod).get(labels.LAST_LINES) or status.get("message") or ""
    entry |= {"message": words.strip()[-_LAST_WORDS:], "at": end.get("finishedAt") or finished_at(pod).isoformat()}
    return {key: value for key, value in entry.items() if value not in (None, "")}


def _bad_ends(status: Document) -> Iterator[tuple[str, Document]]:
    for row in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        for state in (row.get("lastState"), row.get("state")):
            end = (state or {}).get("terminated") or {}
            if end.get("exitCode"):
                yield row["name"], end
