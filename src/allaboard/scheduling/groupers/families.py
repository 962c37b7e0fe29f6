"""Which grouper answers for which kind of owner, and which owners only pass their labels down."""

from __future__ import annotations

from collections.abc import Callable

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import Kind
from allaboard.scheduling.groupers import grove, jobset, kubeflow, leaderworker, plain, ray, serving
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
    ("kubeflow.org", "TFJob"): kubeflow.training_job,
    ("kubeflow.org", "XGBoostJob"): kubeflow.training_job,
    ("kubeflow.org", "JAXJob"): kubeflow.training_job,
    ("kubeflow.org", "MPIJob"): kubeflow.mpi_job,
    ("kubeflow.org", "PyTorchJob"): kubeflow.pytorch_job,
    ("kubeflow.org", "Notebook"): kubeflow.notebook,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leaderworker.leader_worker_set,
    ("ray.io", "RayCluster"): ray.ray,
    ("ray.io", "RayJob"): ray.ray,
    ("ray.io", "RayService"): ray.ray,
    ("serving.knative.dev", "Service"): serving.knative,
    ("egx.nvidia.io", "SPOTRequest"): serving.spot_request,
    ("amlarc.azureml.com", "AmlJob"): serving.aml_job,
    ("run.ai", "RunaiJob"): serving.runai_job,
    ("grove.io", "PodGangSet"): grove.pod_gang,
    ("grove.io", "PodCliqueSet"): grove.pod_gang,
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
NEEDS: dict[tuple[str, str], Needs] = {
    ("ray.io", "RayJob"): ray.needs,
    ("ray.io", "RayService"): ray.needs,
    ("serving.knative.dev", "Service"): serving.knative_needs,
    ("grove.io", "PodGangSet"): grove.needs,
    ("grove.io", "PodCliqueSet"): grove.needs,
}


def needs_of(workload: Workload) -> list[tuple[Kind, Key]]:
    needs = NEEDS.get(family(workload.owner))
    return needs(workload) if needs else []


def grouper_of(owner: Document) -> Grouper:
    return FAMILIES.get(family(owner), whole)
