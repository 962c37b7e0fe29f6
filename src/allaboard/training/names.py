"""The names that follow from a TrainJob's own: Jobs and Pods must fit into a DNS label (defect 20)."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.errors import Cause
from allaboard.training.facts import Case
from allaboard.training.info import Info, PodSet
from allaboard.training.problems import invalid

LONGEST = 63
POD_HASH = "-abcde"  # what the Job controller puts behind a pod's name


def problems(case: Case) -> Iterable[Cause]:
    """Names that JobSet would refuse; the remedy says how much shorter the TrainJob's must be."""
    if not case.info.pod_sets or len(case.job.name) > LONGEST:
        return  # a name that is too long itself is the schema's to refuse
    longest = max(_derived(case.job.name, case.info), key=len)
    if (excess := len(longest) - LONGEST) > 0:
        words = (
            f'the pod name "{longest}" that follows from it has {len(longest)} characters; must be no more than '
            f"{LONGEST}: shorten the TrainJob's name by {excess}"
        )
        yield invalid("metadata.name", case.job.name, words)


def _derived(name: str, info: Info) -> Iterable[str]:
    for pods in info.pod_sets:
        job = f"{name}-{pods.name}-{max(pods.replicas - 1, 0)}"
        yield f"{job}-{_last(pods)}{POD_HASH}"


def _last(pods: PodSet) -> int:
    return max((1 if pods.count is None else pods.count) - 1, 0)
