"""Short ways to write TrainJobs, runtimes and the questions tests ask about what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of
from allaboard.training import admission
from allaboard.training.facts import Facts, Settings, known
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from allaboard.training.runtimes import shipped_runtimes

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
API = "trainer.kubeflow.org/v1alpha1"
SHIPPED = {document["metadata"]["name"]: document for document in shipped_runtimes()}


def entropy(size: int) -> bytes:
    return bytes(range(1, size + 1))


def replicated(name: str = "node", label: str | None = "trainer", **pod: Any) -> Document:
    """One job of a template; `containers` and other members of the pod's spec by name."""
    pod.setdefault("containers", [{"name": "node", "image": "img:1"}])
    metadata = {"metadata": {"labels": {ANCESTOR: label}}} if label else {}
    return {"name": name, "replicas": 1, "template": {**metadata, "spec": {"template": {"spec": pod}}}}


def runtime(policy: Document | None = None, *jobs: Document, name: str = "rt", **spec: Any) -> Document:
    template = {"spec": {"replicatedJobs": list(jobs) or [replicated()], **spec.pop("template", {})}}
    policy = {"numNodes": 1, "torch": {}} if policy is None else policy
    metadata = {"name": name, "labels": spec.pop("labels", {})}
    body = {"mlPolicy": policy, "template": template, **spec}
    return {"apiVersion": API, "kind": "ClusterTrainingRuntime", "metadata": metadata, "spec": body}


def mpi_runtime(*, as_node: bool = True, implementation: str = "OpenMPI", nodes: int | None = 1) -> Document:
    policy: Document = {"mpi": {"runLauncherAsNode": as_node, "mpiImplementation": implementation, "numProcPerNode": 1}}
    if nodes is not None:
        policy["numNodes"] = nodes
    worker = {"name": "node", "image": "img:1", "command": ["/usr/sbin/sshd"], "args": ["-De"]}
    launcher = {**replicated("launcher"), "dependsOn": [{"name": "node", "status": "Ready"}]}
    return runtime(policy, replicated("node", None, containers=[worker]), launcher)


def tune_runtime(name: str = "torchtune-llama3.2-1b") -> Document:
    return {**SHIPPED[name], "metadata": {"name": name}}


def trainjob(trainer: Document | None = None, name: str = "run", runtime: str = "rt", **spec: Any) -> Document:
    if trainer is not None:
        spec["trainer"] = trainer
    ref = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": runtime}
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {"runtimeRef": ref, "suspend": False, **spec},
    }


def patch(manager: str = "acme.io/x", job: str = "node", **pod: Any) -> Document:
    """A runtime patch of one job's pod spec; `job_metadata`, `pod_metadata` and `template_metadata` beside it."""
    template: Document = {"spec": {"template": {"spec": {k: v for k, v in pod.items() if not k.endswith("metadata")}}}}
    if "job_metadata" in pod:
        template["metadata"] = pod["job_metadata"]
    if "pod_metadata" in pod:
        template["spec"]["template"]["metadata"] = pod["pod_metadata"]
    whole: Document = {"spec": {"replicatedJobs": [{"name": job, "template": template}]}}
    if "template_metadata" in pod:
        whole["metadata"] = pod["template_metadata"]
    return {"manager": manager, "trainingRuntimeSpec": {"template": whole}}


def build(source: Document, job: Document, *existing: Document, **settings: Any) -> Documents:
    facts = Facts(known((kind_of(d), d) for d in existing), Settings(**settings), "CA", entropy)
    return OURS.build(source, TrainJob(job), facts)


def of_kind(objects: Documents, kind: str) -> Document | None:
    return next((document for document in objects if document["kind"] == kind), None)


def job_set(source: Document, job: Document, *existing: Document) -> Document:
    found = of_kind(build(source, job, *existing), "JobSet")
    assert found is not None
    return found


def pod(document: Document, job: str = "node") -> Document:
    """The pod spec of a JobSet's job."""
    found = next(j for j in document["spec"]["replicatedJobs"] if j["name"] == job)
    return found["template"]["spec"]["template"]["spec"]


def container(document: Document, job: str = "node", name: str = "node") -> Document:
    return next(c for c in pod(document, job)["containers"] if c["name"] == name)


def env(document: Document, job: str = "node", name: str = "node") -> dict[str, Any]:
    entries = container(document, job, name).get("env") or []
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def size(document: Document, job: str = "node") -> int:
    return next(j for j in document["spec"]["replicatedJobs"] if j["name"] == job)["template"]["spec"]["parallelism"]


def hostfile(objects: Documents) -> str:
    return next(d for d in objects if d["metadata"]["name"].endswith("-mpi-hostfile"))["data"]["hostfile"]


class View:
    """Documents as admission looks them up."""

    def __init__(self, *documents: Document) -> None:
        self.documents = {(kind_of(document), key_of(document)): document for document in documents}

    def get(self, kind: Kind, key: Key) -> Document | None:
        return self.documents.get((kind, key))

    def list(self, kind: Kind, namespace: str = "") -> Documents:
        return [d for (k, key), d in self.documents.items() if k is kind and namespace in ("", key.namespace)]


def refusals(job: Document, *documents: Document, old: Document | None = None) -> list[str]:
    """What admission says against a TrainJob: `field: words`."""
    before = TrainJob(old) if old else None
    causes, _ = admission.trainjob_problems(TrainJob(job), before, View(*documents))
    return [f"{cause.field}: {cause.message}" for cause in causes]


def existing_job_set(name: str = "run", *, suspend: bool = False, **status: Any) -> Document:
    metadata = {"name": name, "namespace": "team-a", "uid": f"js-{name}"}
    return {
        "apiVersion": kinds.JOB_SET.api_version,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"suspend": suspend},
        "status": status,
    }


def condition(type_: str, status: str = "True", reason: str = "r", time: str = "2026-01-02T03:00:00Z") -> Document:
    return {"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time}
