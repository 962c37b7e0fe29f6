"""How long a decision may take, in CPU time; the best of several tries, so that a busy machine does not count."""

import time

import pytest

from allaboard.training import lifecycle
from allaboard.training import runtime as runtimes
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from tests.training.world import NOW, SHIPPED, entropy, mpi_runtime, trainjob

TORCH = trainjob(
    {"numNodes": 4, "image": "x", "resourcesPerNode": {"requests": {"cpu": "2"}}}, runtime="torch-distributed"
)
MPI = trainjob({"numNodes": 1000, "numProcPerNode": 8})
FACTS = Facts(entropy=entropy)


def best(step, rounds, tries=7):
    found = []
    for _ in range(tries):
        started = time.process_time()
        for _ in range(rounds):
            step()
        found.append((time.process_time() - started) / rounds)
    return min(found)


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
BARS = {
    "all objects of a 4-node torch job": (250e-6, torch_objects, 200),
    "a whole pass over a 4-node torch job": (250e-6, pass_over(TORCH, SHIPPED["torch-distributed"]), 200),
    "its first pass, with snapshot and second look": (250e-6, FIRST, 200),
    "all objects of a 1,000-node MPI job": (5e-3, mpi_objects, 10),
    "a whole pass over a 1,000-node MPI job": (5e-3, pass_over(MPI, mpi_runtime()), 10),
}


@pytest.mark.parametrize(("limit", "step", "rounds"), BARS.values(), ids=BARS)
def test_a_decision_is_quick(limit, step, rounds):
    assert best(step, rounds) <= limit
