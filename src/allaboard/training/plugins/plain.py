"""Plain: the TrainJob's number of nodes and its variables, for runtimes whose framework needs nothing more."""

from __future__ import annotations

from allaboard.training import upsert
from allaboard.training.info import Info
from allaboard.training.job import TrainJob

WITH_OWN_RULES = ("torch", "mpi", "jax")


class Plain:
    name = "plain"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        if any(info.ml_policy.get(framework) is not None for framework in WITH_OWN_RULES):
            return
        take_num_nodes(info, job)
        if container := info.trainer_container:
            upsert.env(container.env, job.env)


def take_num_nodes(info: Info, job: TrainJob) -> None:
    """The TrainJob's number of nodes, where it names one."""
    if job.num_nodes is not None and (trainer := info.trainer):
        trainer.count = job.num_nodes
