"""A job as people see it: phases, ranks, the first failure, the reason."""

import pytest

from allaboard.api import labels
from allaboard.sdk.jobs import Job, first_failure, ranks
from allaboard.sdk.reading import events_about


def pod(index, phase="Pending", node="", job="node", code=None, ended="2026-01-01T00:00:00Z"):
    status = {"phase": phase}
    if code is not None:
        terminated = {"exitCode": code, "reason": "Error", "finishedAt": ended}
        status["containerStatuses"] = [{"name": "node", "state": {"terminated": terminated}}]
    tags = {labels.REPLICATED_JOB: job, labels.COMPLETION_INDEX: str(index)}
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": f"{job}-{index}", "labels": tags}, "spec": spec, "status": status}


def train_job(condition="", suspend=False):
    conditions = [{"type": condition, "status": "True", "message": "words"}] if condition else []
    return {"metadata": {"name": "j"}, "spec": {"suspend": suspend}, "status": {"conditions": conditions}}


PHASES = {
    "no pods yet": (train_job(), [], "Pending"),
    "pods wait": (train_job(), [pod(0), pod(1)], "Pending"),
    "pods are placed": (train_job(), [pod(0, node="n"), pod(1, node="n")], "Starting"),
    "pods run": (train_job(), [pod(0, "Running", "n"), pod(1, "Running", "n")], "Running"),
    "one is done already": (train_job(), [pod(0, "Succeeded", "n"), pod(1, "Running", "n")], "Running"),
    "complete": (train_job("Complete"), [], "Complete"),
    "failed": (train_job("Failed"), [pod(0, "Failed", "n", code=1)], "Failed"),
    "suspended": (train_job(suspend=True), [], "Suspended"),
}


@pytest.mark.parametrize(("document", "pods", "phase"), PHASES.values(), ids=PHASES)
def test_phase(document, pods, phase):
    assert Job(document, pods).phase == phase


def test_ranks_are_trainer_nodes_by_number_then_the_rest_by_name():
    pods = [pod(10), pod(2), pod(0, job="launcher"), pod(0)]
    assert [rank.word for rank in ranks(pods)] == ["r0", "r2", "r10", "launcher"]


def test_the_first_failure_is_the_earliest_not_the_lowest_rank():
    pods = [
        pod(0, "Failed", "a", code=143, ended="2026-01-01T00:00:05Z"),
        pod(1, "Failed", "b", code=3, ended="2026-01-01T00:00:04Z"),
        pod(2, "Succeeded", "b", code=0),
    ]
    failure = first_failure(pods)
    assert (failure.rank, failure.code, failure.node) == ("r1", 3, "b")
    assert first_failure([pod(0, "Running", "a")]) is None


def test_a_waiting_job_says_what_its_gang_says():
    group = {"metadata": {"name": "g"}, "status": {"schedulingConditions": [{"message": "needs 4 gpu, 3 free"}]}}
    assert Job(train_job(), [pod(0)], [group]).reason == "needs 4 gpu, 3 free"


SAID = {
    "before it was there": ("2026-01-01T11:59:59Z", False),
    "in the second it was made": ("2026-01-01T12:00:00.250000Z", True),
    "later": ("2026-01-01T12:00:07Z", True),
}


@pytest.mark.parametrize(("at", "heard"), SAID.values(), ids=SAID)
def test_what_was_said_about_an_earlier_job_of_the_name_is_not_told_of_this_one(at, heard):
    job = Job({"metadata": {"name": "j", "creationTimestamp": "2026-01-01T12:00:00Z"}}, [], [])
    event = {"involvedObject": {"kind": "Pod", "name": "j-node-0-0-abcde", "uid": "gone"}, "lastTimestamp": at}
    assert events_about(job, [event]) == ([event] if heard else [])
