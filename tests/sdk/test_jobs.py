"""A job as people see it: phases, ranks, the first failure, the reason."""

import pytest

from allaboard.api import labels
from allaboard.sdk.jobs import Job, first_failure, ranks, standing
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


REPLACED = {
    "the newest of a rank stands": ("a/0/Running@1 b/0/Running@2", "b"),
    "who failed gives way, however new": ("a/0/Running@1 b/0/Failed@2", "a"),
    "every rank has its own": ("a/0/Failed@1 b/1/Running@1 c/0/Pending@2", "b c"),
    "without a number nobody is replaced": ("a/-/Failed@1 b/-/Running@2", "a b"),
}


@pytest.mark.parametrize(("there", "stand"), REPLACED.values(), ids=REPLACED)
def test_one_pod_stands_for_a_rank(there, stand):
    assert [pod["metadata"]["name"] for pod in standing(map(standing_pod, there.split()))] == stand.split()


def standing_pod(words):
    """`name/index/phase@second`."""
    name, index, rest = words.split("/")
    phase, _, second = rest.partition("@")
    marks = {labels.REPLICATED_JOB: "node"} | ({labels.COMPLETION_INDEX: index} if index != "-" else {})
    born = f"2026-01-01T00:00:0{second}Z"
    return {"metadata": {"name": name, "labels": marks, "creationTimestamp": born}, "status": {"phase": phase}}
