"""XGBoost: what the Rabit tracker needs — where it listens, which task this is, and how many workers there are."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.errors import Cause
from allaboard.training.facts import Case
from allaboard.training.info import COMPLETION_INDEX, PORT, Info, field_variable, variable
from allaboard.training.job import TrainJob
from allaboard.training.plugins.plain import take_num_nodes
from allaboard.training.problems import forbidden
from allaboard.training.resources import gpu_count
from allaboard.training.runtime import node_resources

RESERVED = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")


class Xgboost:
    name = "xgboost"

    def validate(self, case: Case) -> Iterable[Cause]:
        if case.info.ml_policy.get("xgboost") is None:
            return
        for index, entry in enumerate(case.job.env):
            if entry["name"] in RESERVED:
                words = f"{entry['name']} is reserved for the XGBoost runtime"
                yield forbidden(f"spec.trainer.env[{index}]", words)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        if info.ml_policy.get("xgboost") is None or info.trainer is None:
            return
        take_num_nodes(info, job)
        container = info.trainer_container
        if container is None:
            return
        nodes = 1 if info.trainer.count is None else info.trainer.count
        # One worker per device; a worker without a device uses all the node's cores by threads.
        workers = nodes * max(1, gpu_count(node_resources(info)))
        container.inject(
            self.name,
            [
                variable("DMLC_TRACKER_URI", info.endpoint(job.name)),
                variable("DMLC_TRACKER_PORT", str(PORT)),
                field_variable("DMLC_TASK_ID", COMPLETION_INDEX),
                variable("DMLC_NUM_WORKER", str(workers)),
            ],
        )
        container.open_port(PORT)
