"""Another number of nodes: what is made anew, and what is refused."""

import asyncio

import pytest

from allaboard.api import labels
from allaboard.sdk.jobs import Job
from allaboard.sdk.scaling import CannotScale, anew, resized, retry, scale
from tests.sdk.test_jobs import train_job


def written():
    said = {"aboard.dev/phase": "Pending", "team": "vision"}
    metadata = {"name": "j", "namespace": "d", "uid": "u", "resourceVersion": "7", "annotations": said}
    return {"metadata": metadata, "spec": {"suspend": True, "trainer": {"numNodes": 4}}, "status": {"aboard": {}}}


def test_a_job_made_anew_keeps_what_people_wrote_and_nothing_of_ours():
    found = anew(written(), 2)
    assert found["metadata"] == {"name": "j", "namespace": "d", "annotations": {"team": "vision"}}
    assert found["spec"] == {"suspend": True, "trainer": {"numNodes": 2}}
    assert "status" not in found


def test_only_the_trainer_of_a_job_set_is_resized():
    def replicated(name, step=None):
        worn = {"metadata": {"labels": {labels.TRAIN_JOB_ANCESTOR: step}}} if step else {}
        return {"name": name, "template": {**worn, "spec": {"parallelism": 1, "completions": 1}}}

    job_set = {
        "spec": {"replicatedJobs": [replicated("dataset", "dataset-initializer"), replicated("node", "trainer")]}
    }
    sizes = [entry["template"]["spec"]["completions"] for entry in resized(job_set, 3)["spec"]["replicatedJobs"]]
    assert sizes == [1, 3]


@pytest.mark.parametrize("ending", ["Complete", "Failed"])
def test_a_job_that_is_over_has_no_size_to_change(ending):
    with pytest.raises(CannotScale, match=f'"j" is {ending.lower()}'):
        asyncio.run(scale(None, Job(train_job(ending)), 2))


def test_only_a_job_that_is_over_is_tried_again():
    with pytest.raises(CannotScale, match='"j" is suspended; only one that is over'):
        asyncio.run(retry(None, Job(train_job(suspend=True))))
