"""In-place restart: pods stay and start over together, held by a barrier that the JobSet's status lifts.

An agent in each pod writes the attempt it is in as an annotation. When all pods are in the same attempt the status
says so and the agents let their workers start; when one is ahead, the others are told to follow.
Upstream: in_place_restart.go (alpha, behind its gate).
"""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of
from allaboard.jobs.children import replicas_of
from allaboard.jobs.failure import fail
from allaboard.jobs.names import IN_PLACE_ATTEMPT
from allaboard.jobs.story import IN_PLACE, Story

_SPENT = "jobset failed due to reaching max number of restarts"


def is_asked(jobset: Document, gates: frozenset[str]) -> bool:
    return IN_PLACE in gates and dig(jobset, "spec", "failurePolicy", "restartStrategy") == IN_PLACE


def restarted(story: Story) -> None:
    """Lift the barrier, send the stragglers back, or give up."""
    if not is_asked(story.jobset, story.facts.gates):
        return
    attempts, status = _attempts(story.facts.pods), story.draft.status
    budget = story.spec["failurePolicy"].get("maxRestarts", 0)
    uncounted = status["restarts"] - status.get("restartsCountTowardsMax", 0)
    if _most_restarts(story.facts.pods) > budget or max(attempts, default=0) - uncounted > budget:
        fail(story, "ReachedMaxRestarts", _SPENT)
    elif len(attempts) == _pods(story) and len(set(attempts)) == 1:
        status["currentInPlaceRestartAttempt"] = attempts[0]
    elif max(attempts, default=0) > 0:
        known = status.get("previousInPlaceRestartAttempt")
        status["previousInPlaceRestartAttempt"] = max(max(attempts) - 1, known if known is not None else 0)


def _attempts(pods: Iterable[Document]) -> list[int]:
    """The attempts of the pods that live; a failed one may still lie about when its successor works."""
    texts = [annotations_of(pod).get(IN_PLACE_ATTEMPT) for pod in pods if dig(pod, "status", "phase") != "Failed"]
    found = [text for text in texts if text is not None]
    if wrong := [text for text in found if not text.isdecimal()]:
        raise ValueError(f'annotation {IN_PLACE_ATTEMPT} is "{wrong[0]}"; must be a non-negative number')
    return [int(text) for text in found]


def _most_restarts(pods: Iterable[Document]) -> int:
    """A container that fails before its barrier is lifted is counted here alone."""
    rows = [
        row for pod in pods for key in ("initContainerStatuses", "containerStatuses")
        for row in dig(pod, "status", key, default=())
    ]  # fmt: skip
    return max((int(row.get("restartCount", 0)) for row in rows), default=0)


def _pods(story: Story) -> int:
    return sum(replicas_of(entry) * int(entry["template"]["spec"]["parallelism"]) for entry in story.replicated)
