"""A Job whose labels the server implied: the first write after its creation is one, even if it changes nothing."""

import asyncio

import pytest

from tests.cluster.plane import Plane, plain

JOBS = "/apis/batch/v1/namespaces/default/jobs"
APPLY = {"content_type": "application/apply-patch+yaml"}
MERGE = {"content_type": "application/merge-patch+json"}


def job(**metadata):
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    return plain("batch/v1", "Job", "j", metadata=metadata, spec={"template": pod})


async def revisions(body, *writes):
    plane = await Plane().furnish()
    made = await plane.ask("PATCH", f"{JOBS}/j?fieldManager=m", body, **APPLY)
    found = [made.body["metadata"]]
    for patch, headers in writes:
        found.append((await plane.ask("PATCH", f"{JOBS}/j?fieldManager=m", patch, **headers)).body["metadata"])
    return [int(each["resourceVersion"]) for each in found], found[-1]["generation"]


CASES = {
    "an apply of the same": (job(), (job(), APPLY)),
    "a patch of nothing": (job(), ({}, MERGE)),
}


@pytest.mark.parametrize(("body", "write"), CASES.values(), ids=CASES)
def test_the_first_write_counts_and_the_second_does_not(body, write):
    (first, second, third), generation = asyncio.run(revisions(body, write, write))
    assert first < second == third
    assert generation == 1


def test_labels_of_its_own_are_stored_at_once():
    body = job(labels={"a": "b"})
    (first, second), _ = asyncio.run(revisions(body, (body, APPLY)))
    assert first == second
