"""One pass over a TrainJob: what exists and what time it is go in, a plan comes out."""

from datetime import timedelta

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.meta import stamp
from allaboard.kube.plan import NOTHING
from allaboard.training import lifecycle
from allaboard.training import runtime as runtimes
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from tests.training.world import (
    NOW,
    condition,
    entropy,
    existing_job_set,
    mpi_runtime,
    runtime,
    trainjob,
)  # fmt: skip

FAILURE = {
    "pod": "run-node-0-1-x",
    "container": "node",
    "exitCode": 3,
    "rank": 1,
    "attempt": 0,
    "time": "2026-01-02T03:04:06Z",
}


def decide(job, *, now=NOW, source=None, frozen=None, **found):
    snapshot = runtimes.snapshot(TrainJob(job), frozen) if frozen else found.pop("snapshot", None)
    world = lifecycle.World(TrainJob(job), snapshot=snapshot, runtime=source, facts=Facts(entropy=entropy), **found)
    return lifecycle.decide(world, OURS, now)


def applied(plan):
    return [(write.kind.kind, write.document["metadata"]["name"]) for write in plan.apply]


def status(plan):
    return plan.status[0].document["status"]


def told(plan):
    return {c["type"]: (c["status"], c["reason"]) for c in status(plan).get("conditions", [])}


def test_the_first_pass_freezes_the_runtime_and_makes_the_jobset():
    plan = decide(trainjob({}), source=runtime())
    assert applied(plan) == [("ConfigMap", "run-runtime-snapshot"), ("JobSet", "run")]
    assert plan.status == ()  # that it waits goes without saying


def test_secrets_are_created_and_never_applied_over():
    plan = decide(trainjob({"numNodes": 2}), source=mpi_runtime())
    assert [write.document["metadata"]["name"] for write in plan.create] == ["run-mpi-ssh-auth"]
    assert ("ConfigMap", "run-mpi-hostfile") in applied(plan)


def test_later_passes_use_what_was_frozen():
    plan = decide(trainjob({}), frozen=runtime({"numNodes": 5, "torch": {}}), source=runtime())
    assert applied(plan) == [("JobSet", "run")]
    assert plan.apply[0].document["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 5


def test_a_runtime_that_goes_later_has_no_effect():
    assert applied(decide(trainjob({}), frozen=runtime())) == [("JobSet", "run")]


def test_a_runtime_that_is_missing_at_first_is_final():
    plan = decide(trainjob({}))
    assert told(plan) == {"Failed": ("True", "RuntimeNotFound")}
    assert (plan.apply, plan.again) == ((), None)
    assert plan.events[0].reason == "TrainJobResourcesCreationFailed"
    again = {**trainjob({}), "status": status(plan)}
    assert decide(again, source=runtime()) is NOTHING or not decide(again, source=runtime()).apply


def test_a_snapshot_of_somebody_else_is_complained_about_and_looked_at_again():
    foreign = runtimes.snapshot(TrainJob(trainjob(name="other")), runtime())
    plan = decide(trainjob({}), snapshot=foreign)
    assert (plan.apply, plan.again) == ((), NOW + timedelta(minutes=1))
    assert "a snapshot configmap exists but is owned by another object" in plan.events[0].message


@pytest.mark.parametrize("who", ["kueue.x-k8s.io/multikueue", "acme.io/controller"])
def test_another_controllers_job_is_left_alone(who):
    assert decide(trainjob({}, managedBy=who), source=runtime()) is NOTHING


def test_suspending_and_resuming_is_told():
    assert told(decide(trainjob({}, suspend=True), source=runtime())) == {"Suspended": ("True", "Suspended")}
    resumed = {**trainjob({}), "status": {"conditions": [condition("Suspended")]}}
    assert told(decide(resumed, frozen=runtime())) == {"Suspended": ("False", "Resumed")}


DEADLINES = {
    "none": ({}, [], 9999, False, None),
    "not yet": ({"activeDeadlineSeconds": 60}, [], 30, False, 60),
    "passed": ({"activeDeadlineSeconds": 60}, [], 61, True, None),
    "a suspended job has time": ({"activeDeadlineSeconds": 60, "suspend": True}, [], 999, False, None),
    "a job that slept longer than it may run is not late when it wakes": (
        {"activeDeadlineSeconds": 60},
        [condition("Suspended")],
        100,
        False,
        None,
    ),
    "a resumed job has all its time again": (
        {"activeDeadlineSeconds": 60},
        [condition("Suspended", "False", time=stamp(NOW + timedelta(seconds=50)))],
        100,
        False,
        110,
    ),
}


@pytest.mark.parametrize(("spec", "conditions", "seconds", "ended", "again"), DEADLINES.values(), ids=DEADLINES)
def test_deadlines(spec, conditions, seconds, ended, again):
    job = {**trainjob({}, **spec), "status": {"conditions": conditions}}
    plan = decide(job, frozen=runtime(), now=NOW + timedelta(seconds=seconds), job_set=existing_job_set())
    assert ("Failed" in (told(plan) if plan.status else {})) is ended
    assert [write.kind for write in plan.delete] == ([kinds.JOB_SET] if ended else [])
    assert plan.again == (None if again is None else NOW + timedelta(seconds=again))


def test_a_deadline_stays_the_reason_when_the_jobset_fails_after_it():
    job = trainjob({}, activeDeadlineSeconds=5)
    job["status"] = {"conditions": [condition("Failed", reason="DeadlineExceeded")]}
    plan = decide(job, job_set=existing_job_set(conditions=[condition("Failed", reason="FailedJobs")]))
    assert told(plan) == {"Failed": ("True", "DeadlineExceeded")}


TTL = {
    #                      seconds after the end  ttl    deleted  again
    "never":              (9999,                  None,  False,   None),
    "not yet":            (59,                    60,    False,   60),
    "over":               (60,                    60,    True,    None),
    "at once":            (0,                     0,     True,    None),
}  # fmt: skip


@pytest.mark.parametrize(("seconds", "ttl", "deleted", "again"), TTL.values(), ids=TTL)
def test_a_finished_job_is_kept_as_long_as_it_asks(seconds, ttl, deleted, again):
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    job = {**trainjob({}, **spec), "status": {"conditions": [condition("Complete", time=stamp(NOW))]}}
    plan = decide(job, now=NOW + timedelta(seconds=seconds))
    assert [(write.kind, write.key) for write in plan.delete] == (
        [(kinds.TRAIN_JOB, Key("team-a", "run"))] if deleted else []
    )
    assert plan.again == (None if again is None else NOW + timedelta(seconds=again))


def test_the_jobset_keeps_the_runtimes_own_ttl():
    source = runtime(template={"ttlSecondsAfterFinished": 7})
    plan = decide(trainjob({}, ttlSecondsAfterFinished=60), frozen=source)
    assert plan.apply[0].document["spec"]["ttlSecondsAfterFinished"] == 7


def test_a_finished_job_is_never_built_again():
    job = {**trainjob({}), "status": {"conditions": [condition("Failed", reason="FailedJobs")]}}
    assert decide(job, source=runtime()).apply == ()


PHASES = {
    "Pending": ({}, {"replicatedJobsStatus": [{"name": "node", "active": 1}]}),
    "Suspended": ({"suspend": True}, {}),
    "Running": ({}, {"replicatedJobsStatus": [{"name": "node", "ready": 1}]}),
    "Succeeded": ({}, {"conditions": [condition("Completed")]}),
    "Failed": ({}, {"conditions": [condition("Failed")]}),
}


@pytest.mark.parametrize(("phase", "case"), PHASES.items(), ids=PHASES)
def test_the_phase_is_one_word(phase, case):
    spec, found = case
    plan = decide(trainjob({}, **spec), frozen=runtime(), job_set=existing_job_set(**found))
    assert status(plan)["aboard"]["phase"] == phase


def test_times_and_first_failure_are_kept_in_status_and_annotations():
    running = existing_job_set(replicatedJobsStatus=[{"name": "node", "ready": 1}])
    first = decide(trainjob({}), frozen=runtime(), job_set=running)
    assert status(first)["aboard"]["startTime"] == stamp(NOW)
    job = {**trainjob({}), "status": status(first)}
    ended = existing_job_set(conditions=[condition("Failed", time="2026-01-02T03:05:00Z")], restarts=1)
    plan = decide(job, job_set=ended, failure=FAILURE)
    assert status(plan)["aboard"] == {
        "phase": "Failed",
        "startTime": stamp(NOW),
        "completionTime": "2026-01-02T03:05:00Z",
        "restarts": 1,
        "firstFailure": FAILURE,
    }
    assert plan.patch[0].body["metadata"]["annotations"] == {
        "aboard.dev/phase": "Failed",
        "aboard.dev/start-time": stamp(NOW),
        "aboard.dev/completion-time": "2026-01-02T03:05:00Z",
        "aboard.dev/first-failure": "run-node-0-1-x/node exit code 3",
    }


def test_nothing_new_is_nothing_to_write():
    job = {**trainjob({}), "status": {"aboard": {"phase": "Pending"}}}
    plan = decide(job, frozen=runtime(), job_set=existing_job_set())
    assert (plan.status, plan.patch) == ((), ())


def test_conditions_are_the_three_the_sdk_knows():
    seen = set()
    for spec, found in PHASES.values():
        plan = decide(trainjob({}, **spec), frozen=runtime(), job_set=existing_job_set(**found))
        seen |= {c["type"] for c in status(plan).get("conditions", [])}
    assert seen <= {"Suspended", "Complete", "Failed"}


def test_counts_are_copied_in_the_jobsets_order():
    found = [{"name": "b", "ready": 1, "active": 2}, {"name": "a", "failed": 3}]
    plan = decide(trainjob({}), frozen=runtime(), job_set=existing_job_set(replicatedJobsStatus=found))
    assert [(e["name"], e["ready"], e["active"], e["failed"]) for e in status(plan)["jobsStatus"]] == [
        ("b", 1, 2, 0),
        ("a", 0, 0, 3),
    ]


def test_the_reason_of_an_error_stands_in_an_annotation_until_it_is_over():
    foreign = runtimes.snapshot(TrainJob(trainjob(name="other")), runtime())
    plan = decide(trainjob({}), snapshot=foreign)
    words = plan.patch[0].body["metadata"]["annotations"]["aboard.dev/why"]
    assert words.endswith("a snapshot configmap exists but is owned by another object")
    job = trainjob({})
    job["metadata"] = {**job["metadata"], "annotations": {"aboard.dev/why": words}}
    assert decide(job, snapshot=foreign).patch == ()
    assert decide(job, frozen=runtime()).patch[0].body == {"metadata": {"annotations": {"aboard.dev/why": None}}}
