"""The tracking finalizer of pods whose Job is gone: nobody will count them any more, so they are let go."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import JOB
from allaboard.api.meta import controller_of, is_controlled_by, is_leaving, key_of, refers_to
from allaboard.jobs.adoption import claim
from allaboard.jobs.job import untrack
from allaboard.jobs.members import TRACKING, read
from allaboard.jobs.verdict import is_finished
from allaboard.kube.plan import NOTHING, Plan


def suspects(pod: Document) -> Iterable[Key]:
    """Tracked pods that nobody controls, or that are being deleted."""
    if TRACKING not in (pod["metadata"].get("finalizers") or ()):
        return ()
    return (key_of(pod),) if is_leaving(pod) or controller_of(pod) is None else ()


def release(pods: Iterable[Document]) -> Plan:
    """Let all of these go."""
    tracked = [member for member in map(read, pods) if member.tracked]
    return Plan(patch=tuple(map(untrack, tracked))) if tracked else NOTHING


def decide(pod: Document, job: Document | None) -> Plan:
    """Let a tracked pod go unless its Job lives or is about to adopt it, or its owner is no Job at all."""
    owner = controller_of(pod)
    if owner is not None and not refers_to(owner, JOB):
        return NOTHING
    if job is not None and (is_controlled_by(pod, job) if owner else _is_wanted(pod, job)):
        return NOTHING
    return release((pod,))


def _is_wanted(pod: Document, job: Document) -> bool:
    return not is_finished(job) and bool(claim(job, (), (pod,)))
