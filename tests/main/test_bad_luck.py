"""Whatever happens between two writes of the controllers, every kind of job ends as on a quiet day."""

import asyncio

import pytest

from allaboard.api import kinds
from allaboard.api.errors import Conflict, TimedOut

from .mortal import Death, Fate, live


def made(kind, **spec):
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": spec,
    }


def trainjob(runtime="torch-distributed", nodes=2, **spec):
    return made(kinds.TRAIN_JOB, runtimeRef={"name": runtime}, trainer={"numNodes": nodes}, **spec)


def replica(count, container, **spec):
    template = {"spec": {"containers": [{"name": container, "image": "i", "command": ["t"]}]}}
    return {"replicas": count, "template": template, **spec}


def pytorch(policy=None, **spec):
    replicas = {"Master": replica(1, "pytorch", **spec), "Worker": replica(2, "pytorch", **spec)}
    return made(kinds.PYTORCH_JOB, pytorchReplicaSpecs=replicas, runPolicy=policy or {})


def mpi(policy=None, **spec):
    replicas = {"Launcher": replica(1, "mpi"), "Worker": replica(2, "mpi")}
    return made(kinds.MPI_JOB, mpiReplicaSpecs=replicas, runPolicy=policy or {}, **spec)


def job(count, **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    shape = {"completions": count, "parallelism": count, "completionMode": "Indexed", "template": template}
    return made(kinds.JOB, **shape, **spec)


def jobset(**spec):
    entry = {"name": "w", "replicas": 2, "template": {"spec": job(1, backoffLimit=0)["spec"]}}
    return made(kinds.JOB_SET, replicatedJobs=[entry], **spec)


def cron(**spec):
    return made(kinds.CRON_JOB, schedule="0 * * * *", jobTemplate={"spec": job(1)["spec"]}, **spec)


STORIES = {
    "a TrainJob ends well": (trainjob(), "node:run node:exit"),
    "a TrainJob fails": (trainjob(), "node:run node-0-1:exit/3 reap"),
    "a TrainJob of MPI ends well": (trainjob("mpi-distributed", 3), "node:run launcher:run launcher:exit reap"),
    "a TrainJob sleeps, is changed and wakes": (trainjob(suspend=True), "pin resume node:run node:exit"),
    "a TrainJob is put to sleep at work": (trainjob(), "node:run suspend reap resume node:run node:exit"),
    "a TrainJob is late": (trainjob(activeDeadlineSeconds=600), "node:run +600 reap"),
    "a TrainJob goes in time": (trainjob(ttlSecondsAfterFinished=500), "node:run node:exit +500"),
    "a JobSet begins again": (jobset(failurePolicy={"maxRestarts": 1}), "w-0:exit/1 reap w:run w:exit"),
    "a Job tries again": (job(2, backoffLimit=2), "x-0:exit/1 +20 x-:run x-:exit"),
    "a Job goes in time": (job(1, ttlSecondsAfterFinished=500), "x-:exit +500"),
    "a PyTorchJob ends well and is cleaned": (
        pytorch({"cleanPodPolicy": "All"}), "x-:run master:exit reap"),
    "a PyTorchJob loses a worker to a signal": (
        pytorch(restartPolicy="ExitCode"), "x-:run worker-1:exit/137 worker-1:run master:exit"),
    "a PyTorchJob sleeps and wakes": (pytorch(), "x-:run suspend reap resume x-:run master:exit"),
    "a PyTorchJob uses up its restarts": (pytorch({"backoffLimit": 0}), "x-:run worker-0:exit/1 reap"),
    "a PyTorchJob is late": (pytorch({"activeDeadlineSeconds": 600}), "x-:run +600 reap"),
    "an MPIJob ends well and is cleaned": (
        mpi({"cleanPodPolicy": "Running"}), "worker:run launcher:run launcher:exit reap"),
    "an MPIJob fails": (mpi({"backoffLimit": 0}), "worker:run launcher:run launcher:exit/1 reap"),
    "an MPIJob sleeps and wakes": (mpi(), "worker:run suspend reap resume worker:run launcher:exit"),
    "an MPIJob is late": (mpi({"activeDeadlineSeconds": 600}), "worker:run launcher:run +600 reap"),
    "a CronJob starts two Jobs and forgets one": (
        cron(successfulJobsHistoryLimit=1), "+3600 x-:exit +3600 x-:exit"),
    "a CronJob replaces a slow Job": (cron(concurrencyPolicy="Replace"), "+3600 x-:run +3600 reap x-:exit"),
}  # fmt: skip


def play(story, **fate):
    """The end, and how often the controllers wrote on the way there."""
    today = Fate(**fate)
    return asyncio.run(live(story, today)), today.writes


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_dying_before_any_write_changes_nothing_in_the_end(story):
    calm, writes = play(story)
    for moment in range(writes):
        assert play(story, at={moment: Death})[0] == calm, f"died before write {moment}"


@pytest.mark.slow
@pytest.mark.parametrize("fate", [Conflict, TimedOut], ids=["refused", "an answer is lost"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_failed_write_changes_nothing_in_the_end(story, fate):
    calm, writes = play(story)
    for moment in range(0, writes, 3):
        assert play(story, at={moment: fate})[0] == calm, f"{fate.__name__} at write {moment}"


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_watches_that_stutter_repeat_and_break_change_nothing_in_the_end(story):
    calm, _ = play(story)
    for luck in range(8):
        assert play(story, luck=luck)[0] == calm, f"luck {luck}"
