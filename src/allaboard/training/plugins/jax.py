"""JAX: every trainer process learns its rank and where the coordinator listens."""

from __future__ import annotations

from allaboard.training.info import COMPLETION_INDEX, PORT, Info, field_variable, variable
from allaboard.training.job import TrainJob
from allaboard.training.plugins.plain import take_num_nodes
from allaboard.training.resources import processes
from allaboard.training.runtime import node_resources


class Jax:
    name = "jax"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        if info.ml_policy.get("jax") is None:
            return
        take_num_nodes(info, job)
        trainer, container = info.trainer, info.trainer_container
        if trainer is None or container is None:
            return
        nodes = 1 if trainer.count is None else trainer.count
        local = _processes_per_node(info, job)
        container.inject(
            self.name,
            [
                variable("JAX_NUM_PROCESSES", str(nodes * local)),
                field_variable("JAX_PROCESS_ID", COMPLETION_INDEX),
                variable("JAX_COORDINATOR_ADDRESS", f"{info.endpoint(job.name)}:{PORT}"),
            ],
        )
        if local > 1:
            # A launcher inside the pod starts this many, and numbers them from JAX_PROCESS_ID times this.
            container.inject(self.name, [variable("JAX_LOCAL_PROCESSES", str(local))])
        container.open_port(PORT)


def _processes_per_node(info: Info, job: TrainJob) -> int:
    """One, unless the TrainJob asks for one per device or core: JAX drives all devices of a node from one process.

    Upstream takes no notice of a number here, and neither do we: a program that counts on one process would break.
    """
    wanted = job.trainer.get("numProcPerNode")
    return processes(wanted, 1, node_resources(info)) if wanted in ("gpu", "cpu") else 1
