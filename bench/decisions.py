"""What a TrainJob costs to decide: all of its objects from the runtime, in CPU time; nothing is read or written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from allaboard.api.documents import Document
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from allaboard.training.runtimes import shipped_runtimes
from bench.rows import Row

TRIES = 9
FACTS = Facts(entropy=lambda size: bytes(range(1, size + 1)))


def train_job(runtime: str, nodes: int, **trainer: object) -> TrainJob:
    metadata = {"name": "run", "namespace": "default", "uid": "u"}
    ref = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": runtime}
    return TrainJob({"metadata": metadata, "spec": {"runtimeRef": ref, "trainer": {"numNodes": nodes, **trainer}}})


def best(step: Callable[[], object], rounds: int) -> float:
    """The best of several tries: a busy machine does not count."""
    tries = []
    for _ in range(TRIES):
        began = time.process_time()
        for _ in range(rounds):
            step()
        tries.append((time.process_time() - began) / rounds)
    return min(tries)


def measure() -> Iterable[Row]:
    runtimes: dict[str, Document] = {document["metadata"]["name"]: document for document in shipped_runtimes()}
    torch = train_job("torch-distributed", 4, image="x", resourcesPerNode={"requests": {"cpu": "2"}})
    mpi = train_job("mpi-distributed", 1000, numProcPerNode=8)
    seconds = best(lambda: OURS.build(runtimes["torch-distributed"], torch, FACTS), 200)
    yield Row("decide: all objects of a 4-node torch TrainJob", seconds * 1e6, "µs", 250)
    seconds = best(lambda: OURS.build(runtimes["mpi-distributed"], mpi, FACTS), 10)
    yield Row("decide: all objects of a 1,000-node MPI TrainJob", seconds * 1e3, "ms", 5)
