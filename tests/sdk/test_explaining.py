"""Why a job is where it is: verdicts, numbers, and commands that help."""

import json
from datetime import UTC, datetime

import pytest

from allaboard.api import labels
from allaboard.sdk.explaining import Holder, amount, explain, job_of
from allaboard.sdk.jobs import Job
from allaboard.sdk.reading import remembered_failures
from tests.sdk.test_jobs import pod

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
UID = "bce9063c-40d3-4530-a548-c8c760fcae40"
WHY = {
    "code": "FairShare",
    "verdict": "Waiting",
    "message": "needs 2 gpu, 0 free",
    "needs": {"gpu": 2, "cpu": 1500, "memory": 2**31},
    "free": {"gpu": 0},
    "heldBy": [{"gang": f"default/pg-big-{UID}", "queue": "q", "gpus": 4.0, "preemptible": True}],
    "fitting": 1,
    "position": 2,
    "overall": 3,
    "estimate": "2026-01-01T14:05:00Z",
}


def train_job(**status):
    metadata = {"name": "j", "creationTimestamp": "2026-01-01T12:00:00Z"}
    return {"metadata": metadata, "spec": status.pop("spec", {}), "status": status}


def group(name="g", why=None, held=None):
    status = {"aboard": {"why": why}, "resourcesStatus": {"allocated": held or {}}}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"minMember": 2, "queue": "q"}, "status": status}


def failed():
    conditions = [
        {"type": "Failed", "status": "True", "message": "words", "lastTransitionTime": "2026-01-01T12:00:09Z"}
    ]
    return train_job(conditions=conditions)


def event(reason, kind="Pod", at="2026-01-01T12:00:01Z", message=""):
    about = {"kind": kind, "name": "j-node-0-0"}
    return {"reason": reason, "involvedObject": about, "lastTimestamp": at, "message": message}


def warning(reason, kind, message=""):
    return event(reason, kind, message=message) | {"type": "Warning"}


def running(last=""):
    status = {"trainerStatus": {"lastUpdatedTime": last, "progressPercentage": 10}} if last else {}
    return Job(train_job(**status), [pod(0, "Running", "n")])


VERDICTS = {
    "nobody looked yet": (Job(train_job(), [pod(0)]), "Waiting", "the scheduler has not looked at it yet"),
    "suspended": (
        Job(train_job(spec={"suspend": True})),
        "Suspended",
        "it was taken off its nodes: spec.suspend is true",
    ),
    "a pod is placed": (Job(train_job(), [pod(0, node="n")]), "Starting", "r0 on n: the node takes it in"),
    "pods run": (running(), "Running", "on n"),
    "it reports": (running("2026-01-01T12:00:20Z"), "Running", "on n, 10 % done"),
    "failed without a witness": (Job(failed()), "Failed", "words"),
    "failed": (
        Job(failed(), [pod(1, "Failed", "n", code=3)]),
        "Failed",
        "rank 1 ended first with exit code 3 (node-1 on n)",
    ),
}


@pytest.mark.parametrize(("job", "verdict", "message"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(job, verdict, message):
    found = explain(job, NOW)
    assert (found.verdict, found.message) == (verdict, message)


HINDRANCES = {
    "no job could be made": ([], [warning("JobCreationFailed", "JobSet", "limits missing")], "Blocked"),
    "half the pods could be made": ([pod(0)], [warning("FailedCreate", "Job", "exceeded quota")], "Blocked"),
    "it was made at the second try": (
        [],
        [warning("FailedCreate", "Job"), event("SuccessfulCreate", "Job")],
        "Waiting",
    ),
    "all pods are there": ([pod(0), pod(1)], [warning("FailedCreate", "Job")], "Waiting"),
    "a pod's words are not its maker's": ([], [warning("FailedScheduling", "Pod")], "Waiting"),
}


@pytest.mark.parametrize(("pods", "events", "verdict"), HINDRANCES.values(), ids=HINDRANCES)
def test_what_cannot_be_made_blocks_a_job(pods, events, verdict):
    found = explain(Job(train_job(), pods, [group()]), NOW, events)
    assert found.verdict == verdict
    if verdict == "Blocked":
        assert (found.code, found.message) == (events[-1]["reason"], events[-1]["message"])


def test_a_waiting_gang_tells_its_numbers():
    found = explain(Job(train_job(), [pod(0), pod(1)], [group(why=WHY)]), NOW)
    assert found.needs == {"gpu": "2 gpu", "cpu": "1.5 cpu", "memory": "2 Gi memory"}
    assert (found.code, found.gang, found.position, found.overall) == ("FairShare", "0/2", 2, 3)
    assert found.held_by == (Holder("big", "4 gpu", "q", preemptible=True),)
    assert found.could == ("aboard scale j --nodes 1", "aboard queue")
    assert found.document()["estimate"] == "2026-01-01T14:05:00Z"


def test_who_holds_processors_is_read_from_the_other_gangs():
    why = {"code": "InsufficientResource", "needs": {"cpu": 4000}, "free": {"cpu": 500}}
    others = [group(f"pg-a-{UID}", held={"cpu": "500m"}), group(f"pg-b-{UID}", held={"cpu": "2"}), group("idle")]
    found = explain(Job(train_job(), [pod(0)], [group(why=why)]), NOW, groups=others)
    assert [(holder.job, holder.amount) for holder in found.held_by] == [("b", "2 cpu"), ("a", "0.5 cpu")]


def test_only_its_own_queue_holds_what_a_limit_counts():
    why = {"code": "OverLimit", "queue": "q", "needs": {"gpu": 4}, "free": {"gpu": 2}}
    mine, theirs = (group(f"pg-{name}-{UID}", held={"nvidia.com/gpu": "4"}) for name in ("mine", "theirs"))
    theirs["spec"]["queue"] = "other"
    found = explain(Job(train_job(), [pod(0)], [group(why=why)]), NOW, groups=[mine, theirs])
    assert [holder.job for holder in found.held_by] == ["mine"]


def test_who_is_seen_to_hold_nothing_any_more_is_not_named():
    since = [group(f"pg-big-{UID}", held={}), group(f"pg-next-{UID}", held={"nvidia.com/gpu": "4"})]
    found = explain(Job(train_job(), [pod(0), pod(1)], [group(why=WHY)]), NOW, groups=since)
    assert [(holder.job, holder.amount) for holder in found.held_by] == [("next", "4 gpu")]


EVICTED = event("Evict", message="made room for x", at="2026-01-01T12:00:05Z")


def test_an_eviction_makes_a_waiting_job_preempted_until_it_has_its_place_again():
    job = Job(train_job(), [pod(0)])
    assert explain(job, NOW, [event("Scheduled"), EVICTED]).verdict == "Preempted"
    assert "made room for x" in explain(job, NOW, [EVICTED]).message
    assert explain(job, NOW, [EVICTED, event("GangScheduled", "PodGroup")]).verdict == "Waiting"


def test_the_history_is_of_the_whole_job():
    events = [event("Pulled"), event("FairShare", "PodGroup"), event("FairShare", "TrainJob"), EVICTED]
    told = [words for _, words in explain(Job(train_job()), NOW, events).history]
    assert told == ["Created", "FairShare", "Evict"]


def test_what_a_gang_and_its_job_are_told_in_one_moment_is_said_once():
    told = [event(reason, kind) for kind in ("PodGroup", "TrainJob") for reason in ("Reserved", "GangScheduled")]
    history = explain(Job(train_job()), NOW, told).history
    assert [words for _, words in history] == ["Created", "Reserved", "GangScheduled"]


def test_silence_longer_than_all_before_is_slow():
    late = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
    assert explain(running("2026-01-01T12:00:20Z"), late).verdict == "Slow"


def test_what_failed_first_is_known_after_the_pods_are_gone():
    entries = [{"pod": "node-1", "index": 1, "node": "n", "exitCode": 3, "reason": "Error", "message": "a\nb"}]
    entries += [{"pod": "node-0", "index": 0, "exitCode": 143}]
    job_set = {"metadata": {"annotations": {labels.FAILURES: json.dumps(entries)}}}
    document = failed()
    document["status"]["aboard"] = {"firstFailure": {"pod": "node-1", "rank": 1, "exitCode": 3, "message": "Error"}}
    found = explain(Job(document, failures=remembered_failures(job_set)), NOW)
    assert (found.failure.rank, found.failure.node, found.failure.words) == ("r1", "n", "a\nb")
    assert found.others_failed == 1
    assert remembered_failures({"metadata": {"annotations": {labels.FAILURES: "no json"}}}) == []


def test_names_and_amounts_as_people_write_them():
    assert job_of(f"default/pg-a-b-{UID}-node") == "a-b"
    assert job_of("team/by-hand") == "by-hand"
    assert amount("memory", 1.5 * 2**30) == "1.5 Gi memory"
    assert amount("gpu", 0.5) == "0.5 gpu"
