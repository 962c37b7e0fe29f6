"""What went wrong is kept: exit code, reason, node and last words of failed pods outlive the pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from allaboard.api import kinds, labels
from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.api.meta import annotations_of, key_of, name_of
from allaboard.jobs.members import Member, finished_at
from allaboard.kube.plan import NOTHING, Patch, Plan

MOST = 8  # failures told; the first is the one that matters
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
    fresh = [member for member in members if not member.leaving and member.name not in names]
    found = sorted(filter(None, map(_testimony, fresh)), key=lambda entry: (entry["at"], entry["pod"]))
    return _write(kinds.JOB, job, [*known, *found][:MOST]) if found else NOTHING


def retell(jobset: Document, job: Document, attempt: int) -> Plan:
    """Write on a JobSet what its first failed Job knows, once for each attempt."""
    entries = [{**entry, "job": name_of(job), "attempt": attempt} for entry in told(job)]
    if not entries or any(entry.get("attempt") == attempt for entry in told(jobset)):
        return NOTHING
    return _write(kinds.JOB_SET, jobset, entries)


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
