"""Volcano: a PodGroup of Volcano's kind with queue, priority and topology, and the annotation that names it."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import Cause
from allaboard.api.labels import POD_GROUP_VOLCANO
from allaboard.training.facts import Case, Facts
from allaboard.training.info import Info
from allaboard.training.job import TrainJob
from allaboard.training.plugins import gangs
from allaboard.training.problems import invalid
from allaboard.training.runtime import pod_spec_of

KIND = kinds.POD_GROUP_VOLCANO
QUEUE = "scheduling.volcano.sh/queue-name"
ALWAYS_THERE = ("system-cluster-critical", "system-node-critical")


class Volcano:
    name = "volcano"

    def validate(self, case: Case) -> Iterable[Cause]:
        if case.info.gang_policy.get("volcano") is None:
            return
        if case.info.annotations.get(QUEUE) == "":
            yield invalid(f"spec.annotations[{QUEUE}]", "", "Volcano queue name must not be empty")
        for replicated in case.info.jobs:
            yield from _priority_problems(pod_spec_of(replicated).get("priorityClassName") or "", case)
        if len(names := _priorities(case.info)) > 1:
            words = f"the pods of one gang have one priority, but its jobs name {', '.join(names)}; name one"
            yield invalid("spec.templateSpec.priorityClassName", names, words)

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        if info.gang_policy.get("volcano") is not None:
            info.pod_annotations[POD_GROUP_VOLCANO] = job.name

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        policy = info.gang_policy.get("volcano")
        if policy is None or (facts.has(KIND, job.name) and not job.suspended):
            return
        spec = gangs.size(info, facts)
        if QUEUE in info.annotations:
            spec["queue"] = info.annotations[QUEUE]
        if names := _priorities(info):
            spec["priorityClassName"] = names[0]
        if topology := policy.get("networkTopology"):
            spec["networkTopology"] = topology
        yield job.child(KIND.api_version, KIND.kind, job.name, spec=spec)


def _priorities(info: Info) -> list[str]:
    """The priority classes of the gang, the trainer's first (defect 31)."""
    specs = {job.get("name"): pod_spec_of(job) for job in info.jobs}
    ordered = gangs.trainer_first(gangs.members(info))
    named = (specs.get(pods.name, {}).get("priorityClassName") for pods in ordered)
    return list(dict.fromkeys(name for name in named if name))


def _priority_problems(name: str, case: Case) -> Iterable[Cause]:
    if not name or name in ALWAYS_THERE or case.get(kinds.PRIORITY_CLASS, Key("", name)):
        return
    words = f'PriorityClass "{name}" doesn\'t exist: priorityclasses.scheduling.k8s.io "{name}" not found'
    yield invalid("spec.templateSpec.priorityClassName", name, words)
