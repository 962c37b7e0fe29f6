"""Rows in which the reference cannot read from the API: the same read fails under our controller or our webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from allaboard.api import kinds
from allaboard.api.documents import Documents, Key
from allaboard.api.errors import Internal
from allaboard.api.kinds import Kind
from allaboard.api.meta import key_of
from allaboard.kube.client import EVERYTHING, Select
from allaboard.kube.clock import SystemClock
from allaboard.kube.webhook import Webhook
from allaboard.training.admission import CheckTrainJob
from allaboard.training.controller import TrainJobController
from allaboard.training.job import TrainJob
from allaboard.training.runtime import snapshot

READS = {
    "plugins/coscheduling": kinds.POD_GROUP_COSCHEDULING,
    "plugins/volcano": kinds.POD_GROUP_VOLCANO,
    "plugins/mpi": kinds.SECRET,
    "plugins/jobset": kinds.JOB_SET,
}


class Broken:
    """A cluster in which one kind cannot be read."""

    def __init__(self, kind: Kind, documents: dict[tuple[Kind, Key], Any]) -> None:
        self.kind, self.documents = kind, documents

    async def get(self, kind: Kind, key: Key) -> Any:
        if kind is self.kind:
            raise Internal("client error")
        return self.documents.get((kind, key))

    async def list(self, kind: Kind, select: Select = EVERYTHING) -> Documents:
        return []

    async def owned(self, kind: Kind, owner: Any) -> Documents:
        return []


def judge(row: Any) -> Iterator[str]:
    """A failing read must end the pass (the loop tries again later) or the review (the API server refuses)."""
    kind = next(found for place, found in READS.items() if place in row["id"])
    given = row["given"]
    got = _reviewed(given, kind) if "newObj" in given else _reconciled(given, kind)
    if got != "client error":
        yield f"{kind.resource} cannot be read: want an error, got {got}"


def _job(document: Any) -> Any:
    ref = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "rt"}
    metadata = {"name": "x", "namespace": "default", "uid": "u", **(document.get("metadata") or {})}
    spec = {**(document.get("spec") or {}), "runtimeRef": ref}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _runtime(given: Any) -> Any:
    info = given.get("info") or {}
    policy = info.get("runtimePolicy") or {}
    spec = {"mlPolicy": policy.get("mlPolicySource"), "podGroupPolicy": policy.get("podGroupPolicy")}
    spec["template"] = {"spec": (info.get("templateSpec") or {}).get("objApply") or {}}
    metadata = {"name": "rt"}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": metadata,
            "spec": spec}  # fmt: skip


def _reconciled(given: Any, kind: Kind) -> str:
    job = _job(given["trainJob"])
    frozen = snapshot(TrainJob(job), _runtime(given))
    documents = {(kinds.TRAIN_JOB, key_of(job)): job, (kinds.CONFIG_MAP, key_of(frozen)): frozen}
    controller = TrainJobController(Broken(kind, documents), SystemClock())
    try:
        return f"a plan: {asyncio.run(controller.reconcile(key_of(job)))}"
    except Internal as error:
        return error.message


def _reviewed(given: Any, kind: Kind) -> str:
    new, old = _job(given["newObj"]), _job(given["oldObj"])
    frozen = snapshot(TrainJob(old), _runtime(given))
    reader = Broken(kind, {(kinds.CONFIG_MAP, key_of(frozen)): frozen})
    meant = {"group": kinds.TRAIN_JOB.group, "version": kinds.TRAIN_JOB.version, "kind": kinds.TRAIN_JOB.kind}
    request = {
        "uid": "1",
        "kind": meant,
        "operation": "UPDATE",
        "namespace": "default",
        "object": new,
        "oldObject": old,
    }
    body = msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    hook = CheckTrainJob()
    try:
        return f"a review: {asyncio.run(Webhook([hook], reader).review(hook, 'validate', body))}"
    except Internal as error:
        return error.message
