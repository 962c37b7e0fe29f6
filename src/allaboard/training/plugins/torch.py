"""Torch: what torchrun reads from `PET_*` — how many nodes and processes, which rank, and where they meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import AboardError, Cause
from allaboard.training import upsert
from allaboard.training.facts import Case
from allaboard.training.info import COMPLETION_INDEX, PORT, Container, Info, field_variable, variable
from allaboard.training.job import TrainJob
from allaboard.training.plugins import torchtune
from allaboard.training.plugins.plain import take_num_nodes
from allaboard.training.problems import invalid, reserved_names
from allaboard.training.resources import gpu_count, processes_for_torch
from allaboard.training.runtime import node_resources

RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")


class UnknownTarget(AboardError):
    """An envInjection target that the template does not have."""


class Torch:
    name = "torch"

    def validate(self, case: Case) -> Iterable[Cause]:
        policy = case.info.ml_policy.get("torch")
        if policy is None:
            return
        ref = case.job.runtime_ref
        for words, _ in _targets(policy, case.info):
            if words:
                yield invalid("spec.runtimeRef", ref, words)
        if names := reserved_names(case.job.env, RESERVED):
            words = f"must not have reserved envs, invalid envs configured: [{' '.join(names)}]"
            yield invalid("spec.trainer.env", case.job.env, words)
        if torchtune.is_asked_for(case.job):
            yield from torchtune.problems(case.job, case.info, gpu_count(node_resources(case.info)))

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        policy = info.ml_policy.get("torch")
        if policy is None:
            return
        take_num_nodes(info, job)
        nodes = _nodes(info)
        requirements = node_resources(info)
        processes = processes_for_torch(_wanted(policy, job), requirements)
        ranks, meeting = _ranks(nodes, processes), _meeting(info.endpoint(job.name))
        if container := info.trainer_container:
            tuned = torchtune.is_asked_for(job)
            upsert.env(container.env, job.env)
            container.inject(self.name, ranks if tuned else ranks + meeting)
            container.open_port(PORT)
            if tuned:
                asked = torchtune.Asked(nodes, processes, gpu_count(requirements), job.trainer.get("args") or [])
                info.command = torchtune.command(asked, info, job)
        for words, target in _targets(policy, info):
            if target is None:
                raise UnknownTarget(f"spec.mlPolicy.torch.envInjection: {words}")
            target.inject(self.name, ranks + meeting)


def _wanted(policy: Document, job: TrainJob) -> int | str:
    """The TrainJob's word, else the runtime's, else `auto` (ruling 1)."""
    wanted: int | str = job.trainer.get("numProcPerNode") or policy.get("numProcPerNode") or "auto"
    return wanted


def _nodes(info: Info) -> int:
    trainer = info.trainer
    return 1 if trainer is None or trainer.count is None else trainer.count


def _ranks(nodes: int, processes: int | str) -> Documents:
    return [
        variable("PET_NNODES", str(nodes)),
        variable("PET_NPROC_PER_NODE", str(processes)),
        field_variable("PET_NODE_RANK", COMPLETION_INDEX),
    ]


def _meeting(address: str) -> Documents:
    return [variable("PET_MASTER_ADDR", address), variable("PET_MASTER_PORT", str(PORT))]


def _targets(policy: Document, info: Info) -> Iterator[tuple[str, Container | None]]:
    """Every further container that gets the variables; the words say what is missing."""
    for target in (policy.get("envInjection") or {}).get("targets") or []:
        pods = info.pod_set(target["jobName"])
        for name in target.get("containerNames") or []:
            found = pods.any_container(name) if pods else None
            where = f'podSet "{target["jobName"]}" container "{name}"'
            yield ("" if found else f"envInjection target {where} not found in runtime template"), found
