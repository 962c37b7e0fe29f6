"""Which grouper answers for which kind of owner, and which owners only pass their labels down."""

from __future__ import annotations

from collections.abc import Callable

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.scheduling.groupers import jobset, plain
from allaboard.scheduling.groupers.workload import Group, Workload, whole

Grouper = Callable[[Workload], list[Group]]
Needs = Callable[[Workload], list[tuple[Kind, Key]]]

# By group and kind; what is not listed is grouped by `whole`.
FAMILIES: dict[tuple[str, str], Grouper] = {
    ("", "Pod"): plain.pod,
    ("apps", "Deployment"): plain.deployment,
    ("batch", "Job"): plain.job,
    ("batch", "CronJob"): plain.cronjob,
    ("jobset.x-k8s.io", "JobSet"): jobset.jobset,
}

# These own what owns the pods: the gang belongs to the owner below, and their labels count where it has none.
SKIPPED = frozenset(
    {
        ("argoproj.io", "Workflow"),
        ("nvidia.com", "DynamoGraphDeployment"),
        ("run.ai", "DistributedInferenceWorkload"),
        ("run.ai", "DistributedWorkload"),
        ("run.ai", "InferenceWorkload"),
        ("run.ai", "InteractiveWorkload"),
        ("run.ai", "TrainingWorkload"),
        ("trainer.kubeflow.org", "TrainJob"),
    }
)


def family(document: Document) -> tuple[str, str]:
    """The group and kind a document or an owner reference names."""
    return str(document.get("apiVersion", "")).rpartition("/")[0], str(document.get("kind", ""))


# What else a family reads: kinds and keys that a workload leads to.
NEEDS: dict[tuple[str, str], Needs] = {}


def needs_of(workload: Workload) -> list[tuple[Kind, Key]]:
    needs = NEEDS.get(family(workload.owner))
    return needs(workload) if needs else []


def grouper_of(owner: Document) -> Grouper:
    return FAMILIES.get(family(owner), whole)
