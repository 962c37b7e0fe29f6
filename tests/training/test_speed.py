"""How much work a decision may be; `make bench` measures how long that takes."""

import pytest

from allaboard.training import lifecycle
from allaboard.training import runtime as runtimes
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from tests.effort import calls
from tests.training.world import NOW, SHIPPED, entropy, mpi_runtime, trainjob

TORCH = trainjob(
    {"numNodes": 4, "image": "x", "resourcesPerNode": {"requests": {"cpu": "2"}}}, runtime="torch-distributed"
)
MPI = trainjob({"numNodes": 1000, "numProcPerNode": 8})
FACTS = Facts(entropy=entropy)


def pass_over(job, source, *, frozen=True):
    snapshot = runtimes.snapshot(TrainJob(job), source) if frozen else None
    return lambda: lifecycle.decide(
        lifecycle.World(TrainJob(job), snapshot=snapshot, runtime=source, facts=FACTS), OURS, NOW
    )


def torch_objects():
    return OURS.build(SHIPPED["torch-distributed"], TrainJob(TORCH), FACTS)


def mpi_objects():
    return OURS.build(mpi_runtime(), TrainJob(MPI), FACTS)


FIRST = pass_over(TORCH, SHIPPED["torch-distributed"], frozen=False)
# About twice what they were when written down.
BARS = {
    "all objects of a 4-node torch job": (1000, torch_objects),
    "a whole pass over a 4-node torch job": (1200, pass_over(TORCH, SHIPPED["torch-distributed"])),
    "its first pass, with snapshot and second look": (1500, FIRST),
    "all objects of a 1,000-node MPI job": (7500, mpi_objects),
    "a whole pass over a 1,000-node MPI job": (7500, pass_over(MPI, mpi_runtime())),
}


@pytest.mark.parametrize(("limit", "step"), BARS.values(), ids=BARS)
def test_a_decision_is_little_work(limit, step):
    assert calls(step) <= limit
