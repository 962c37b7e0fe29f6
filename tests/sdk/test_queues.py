"""Queues as a tree, and what pods use."""

import pytest

from allaboard.api.documents import Key
from allaboard.sdk.queues import Branch, capacity, held, tree
from allaboard.sdk.usage import Sample, Usage, rates, samples


def queue(name, parent="", quota=0, limit=-1, used="0"):
    spec = {"resources": {"gpu": {"quota": quota, "limit": limit}, "cpu": {"quota": 1500}}}
    status = {"allocated": {"nvidia.com/gpu": used, "cpu": "500m"}}
    return {"metadata": {"name": name}, "spec": spec | ({"parentQueue": parent} if parent else {}), "status": status}


def group(where, pending=1, allocated=0):
    return {"metadata": {"name": "g"}, "spec": {"queue": where}, "status": {"pending": pending, "allocated": allocated}}


QUEUES = [queue("vision", "org", 32), queue("org", quota=96, used="88"), queue("nlp", "org", 32, 64, "40")]
QUEUES += [queue("orphan", "gone")]
GROUPS = [group("nlp"), group("nlp", 1, 1), group("vision"), group("nlp", 0)]


def test_queues_stand_below_their_parents_by_name_and_count_who_waits_below_them():
    found = tree(QUEUES, GROUPS, {"nlp": {"gpu": 40.0}}, "gpu")
    assert [(b.name, b.depth, b.waiting) for b in found] == [
        ("org", 0, 2),
        ("nlp", 1, 1),
        ("vision", 1, 1),
        ("orphan", 0, 0),
    ]
    assert found[1] == Branch("nlp", 1, 32.0, 64.0, 40.0, 40.0, 0.0, 1)


def test_processors_are_counted_in_processors():
    found = tree(QUEUES, [], {"org": {"cpu": 2500.0}}, "cpu")[0]
    assert (found.deserved, found.share, found.used) == (1.5, 2.5, 0.5)


STATES = {
    "borrows": (4.0, 6.5, "borrowing 2.5"),
    "has some left": (4.0, 1.0, "3 of its own unused"),
    "uses its own": (4.0, 4.0, ""),
    "deserves everything": (-1.0, 4.0, ""),
}


@pytest.mark.parametrize(("deserved", "used", "state"), STATES.values(), ids=STATES)
def test_state(deserved, used, state):
    assert Branch("q", 0, deserved, -1.0, None, used, 0.0, 0).state == state


def test_devices_of_every_vendor_are_devices():
    assert held({"nvidia.com/gpu": "4", "amd.com/gpu": "2", "cpu": "8"}, "gpu") == 6
    assert held({"memory": "2Gi"}, "memory") == 2
    assert held({"cpu": "not a number"}, "cpu") == 0
    assert capacity([{"status": {"allocatable": {"cpu": "1500m"}}}] * 2, "cpu") == 3


POD = Key("default", "p")


def summary(time, nanoseconds, cores=None):
    cpu = {"usageCoreNanoSeconds": nanoseconds} | ({"usageNanoCores": cores} if cores is not None else {})
    containers = [{"name": "c", "time": time, "cpu": cpu, "memory": {"workingSetBytes": 2**30}}]
    return {"pods": [{"podRef": {"namespace": "default", "name": "p"}, "containers": containers}, {"podRef": {}}]}


def test_time_spent_between_two_looks_is_a_rate():
    before, after = samples(summary(10.0, 10**9)), samples(summary(12.0, 4 * 10**9))
    assert rates(before, after) == {POD: Usage(1.5, 2**30)}
    assert rates({}, after) == {POD: Usage(0.0, 2**30)}


def test_a_rate_the_node_knows_is_taken_and_stamps_are_read():
    found = samples(summary("2026-01-01T00:00:00Z", 0, 250_000_000))
    assert found == {POD: Sample(1767225600.0, 0.0, 2**30, 0.25)}
    assert rates({}, found)[POD].cpu == 0.25
