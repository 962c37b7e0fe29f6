"""A Job's pods, read once into the few facts that decisions need."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from allaboard.api import labels
from allaboard.api.documents import Document
from allaboard.api.meta import moment_of

TRACKING = labels.JOB_TRACKING
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
_NEVER = datetime.min.replace(tzinfo=UTC)


class Member(NamedTuple):
    """One pod of a Job. `place` is its completion index, None where it has none."""

    document: Document
    uid: str
    name: str
    phase: str
    leaving: bool
    tracked: bool
    place: int | None

    @property
    def is_active(self) -> bool:
        return not self.leaving and self.phase not in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        return self.leaving and self.phase not in ("Succeeded", "Failed")


def read(pod: Document) -> Member:
    """The facts of one pod."""
    metadata = pod["metadata"]
    text = (metadata.get("annotations") or {}).get(labels.COMPLETION_INDEX)
    return Member(
        pod,
        metadata.get("uid", ""),
        metadata["name"],
        (pod.get("status") or {}).get("phase", "Pending"),
        bool(metadata.get("deletionTimestamp")),
        TRACKING in (metadata.get("finalizers") or ()),
        int(text) if text is not None and text.isdecimal() else None,
    )


def read_all(pods: Iterable[Document]) -> list[Member]:
    return [read(pod) for pod in pods]


def is_ready(pod: Document) -> bool:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition.get("status") == "True":
            return True
    return False


def restarts(pod: Document) -> int:
    """How often containers of this pod were started again."""
    status = pod.get("status") or {}
    rows = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
    return sum(row.get("restartCount", 0) for row in rows) if rows else 0


def is_evicted(pod: Document) -> bool:
    """Our scheduler took it off its node: somebody else needed the place, and nothing speaks against trying again."""
    return labels.EVICTED in (pod["metadata"].get("annotations") or {})


def has_ended(pod: Document) -> bool:
    """Whether a pod ended or was asked to leave by itself; who is evicted is expected back at once."""
    gone = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return (gone or bool(pod["metadata"].get("deletionTimestamp"))) and not is_evicted(pod)


def essence(pod: Document) -> tuple[object, ...]:
    """All of a pod that its Job looks at; a pod that only was given a node, say, tells its Job nothing."""
    metadata = pod["metadata"]
    return (
        (pod.get("status") or {}).get("phase"),
        metadata.get("deletionTimestamp"),
        metadata.get("finalizers"),
        metadata.get("labels"),
        metadata.get("ownerReferences"),
        is_ready(pod),
        restarts(pod),
    )


def failures_of(pod: Document) -> int:
    """How many failures of its index came before this pod, those that a policy ignored included."""
    return counted_failures(pod) + ignored_failures(pod)


def counted_failures(pod: Document) -> int:
    return _number(pod, INDEX_FAILURES)


def ignored_failures(pod: Document) -> int:
    return _number(pod, INDEX_IGNORED)


def _number(pod: Document, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() else 0


def finished_at(pod: Document) -> datetime:
    """When a pod ended: by its containers, else by its readiness, else by its deletion, else its beginning."""
    metadata = pod["metadata"]
    return (
        _containers_ended(pod)
        or _turned_unready(pod)
        or asked_to_leave(pod)
        or moment_of(metadata["creationTimestamp"])
    )


def _containers_ended(pod: Document) -> datetime | None:
    rows = (pod.get("status") or {}).get("containerStatuses") or []
    ends: list[str] = [((row.get("state") or {}).get("terminated") or {}).get("finishedAt") or "" for row in rows]
    return max(map(moment_of, ends)) if ends and all(ends) else None


def _turned_unready(pod: Document) -> datetime | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "False" and condition.get("lastTransitionTime"):
            return moment_of(condition["lastTransitionTime"])
    return None


def asked_to_leave(pod: Document) -> datetime | None:
    """When somebody asked for a pod's deletion; it may take its time."""
    metadata = pod["metadata"]
    if not metadata.get("deletionTimestamp"):
        return None
    return moment_of(metadata["deletionTimestamp"]) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)


def removal_rank(member: Member) -> tuple[object, ...]:
    """Who goes first when there are too many: unscheduled, then pending, unready, newly ready, restarted, young."""
    pod = member.document
    stage = {"Pending": 0, "Unknown": 1}.get(member.phase, 2)
    ready_since = next(
        (
            moment_of(condition["lastTransitionTime"])
            for condition in (pod.get("status") or {}).get("conditions") or ()
            if condition["type"] == "Ready" and condition["status"] == "True" and condition.get("lastTransitionTime")
        ),
        None,
    )
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        stage,
        is_ready(pod),
        -_age_rank(ready_since),
        -restarts(pod),
        -_age_rank(moment_of(pod["metadata"]["creationTimestamp"])),
        member.name,
    )


def _age_rank(moment: datetime | None) -> float:
    return (moment - _NEVER).total_seconds() if moment else 0.0
