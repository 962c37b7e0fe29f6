"""Pods without a family: bare pods (Spark's driver and executors included), Deployments, Jobs and CronJobs."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.meta import labels_of, name_of, uid_of
from allaboard.scheduling.groupers.workload import INFERENCE, Group, Workload, apart, constraint_of, whole

SPARK_NAME, SPARK_SELECTOR = "spark-app-name", "spark-app-selector"


def pod(workload: Workload) -> list[Group]:
    """A bare pod is alone; the pods of one Spark application share the group its selector names."""
    worn = labels_of(workload.owner)
    if SPARK_NAME in worn and SPARK_SELECTOR in worn:
        members = workload.members()
        return [Group(worn[SPARK_SELECTOR], workload.owner, members, constraint=constraint_of(workload))]
    return whole(workload)


def deployment(workload: Workload) -> list[Group]:
    """Replicas of a service stand alone, and each group belongs to its pod."""
    constraint = constraint_of(workload)
    return [
        Group(f"pg-{name_of(p)}-{uid_of(p)}", _typed(p), {name_of(p): ""}, 1, (), INFERENCE, constraint)
        for p in workload.pods
    ]


def _typed(document: Document) -> Document:
    """A pod read from a list names its kind here, where an owner reference needs it."""
    return {"apiVersion": "v1", "kind": "Pod", **document}


def job(workload: Workload) -> list[Group]:
    """A Job promises nothing about its pods running together: each is its own group."""
    return apart(workload)


def cronjob(workload: Workload) -> list[Group]:
    """The pods of each run belong to that run's Job."""
    run = workload.chain[0] if workload.chain else workload.owner
    return apart(Workload(run, workload.pods, workload.chain, workload.labels, workload.annotations))
