"""Coscheduling: a PodGroup of the scheduler-plugins kind, and the label by which its pods find it."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.labels import POD_GROUP_COSCHEDULING
from allaboard.training.facts import Facts
from allaboard.training.info import Info
from allaboard.training.job import TrainJob
from allaboard.training.plugins import gangs

KIND = kinds.POD_GROUP_COSCHEDULING


class Coscheduling:
    name = "coscheduling"

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        if info.gang_policy.get("coscheduling") is not None:
            info.pod_labels[POD_GROUP_COSCHEDULING] = job.name

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        policy = info.gang_policy.get("coscheduling")
        if policy is None or (facts.has(KIND, job.name) and not job.suspended):
            return
        spec = {"minResources": {}, **gangs.size(info, facts)}  # said, even where nobody asks for anything
        if (timeout := policy.get("scheduleTimeoutSeconds")) is not None:
            spec["scheduleTimeoutSeconds"] = timeout
        yield job.child(KIND.api_version, KIND.kind, job.name, spec=spec)
