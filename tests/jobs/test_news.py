"""What a controller wrote itself does not wake it, unless the next pass goes by it."""

import pytest

from allaboard.jobs import draft, job

META = {"uid": "u", "generation": 1}
ROW = {"name": "w", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}

MORE, AGAIN = {**ROW, "ready": 1}, {**ROW, "jobRestarts": [1]}
FIRST = {"active": 4, "ready": 0, "terminating": 0, "startTime": "t", "uncountedTerminatedPods": {}}

JOB_SETS = {
    # before, after, whether that is counts and nothing else
    "the first counts": ({}, {"restarts": 0, "replicatedJobsStatus": [ROW]}, True),
    "counts moved": ({"replicatedJobsStatus": [ROW]}, {"replicatedJobsStatus": [MORE]}, True),
    "the set restarts": ({"restarts": 0}, {"restarts": 1}, False),
    "one Job restarts": ({"replicatedJobsStatus": [ROW]}, {"replicatedJobsStatus": [AGAIN]}, False),
    "a condition came": ({}, {"conditions": [{"type": "Suspended"}]}, False),
}
JOBS = {
    "the first counts": ({}, FIRST, True),
    "a pod became ready": ({"active": 4, "ready": 0}, {"active": 4, "ready": 1}, True),
    "a pod waits to be counted": ({"active": 4}, {"active": 3, "uncountedTerminatedPods": {"failed": ["p"]}}, False),
    "a pod was counted": ({"active": 3}, {"active": 3, "failed": 1}, False),
    "an index is done": ({"active": 3}, {"active": 2, "completedIndexes": "0"}, False),
    "a condition came": ({}, {"conditions": [{"type": "FailureTarget"}]}, False),
}


def change(before, after, spec=None):
    return tuple({"metadata": META, "spec": spec or {}, "status": status} for status in (before, after))


@pytest.mark.parametrize(("before", "after", "only"), JOB_SETS.values(), ids=JOB_SETS)
def test_a_jobset(before, after, only):
    assert draft.only_counts(*change(before, after)) is only


@pytest.mark.parametrize(("before", "after", "only"), JOBS.values(), ids=JOBS)
def test_a_job(before, after, only):
    assert job.only_counts(*change(before, after)) is only


def test_when_a_job_started_matters_where_it_has_a_deadline():
    started = change({}, {"active": 1, "startTime": "t"}, {"activeDeadlineSeconds": 5})
    assert not job.only_counts(*started)


def test_a_changed_wish_is_always_news():
    old, new = change({}, {"active": 1})
    raised = {**new, "metadata": {**META, "generation": 2}}
    assert not job.only_counts(old, raised) and not draft.only_counts(old, raised)
