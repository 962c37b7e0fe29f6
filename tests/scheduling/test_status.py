"""PodGroups count their pods, queues sum up what is below them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import kinds, labels
from allaboard.api.documents import Key
from allaboard.scheduling.status import PodGroupStatus, QueueStatus, changes, other_status, pod_group_status
from allaboard.testing.clock import FakeClock

from .builders import World, finished, pod, pod_group, queue

IN_GROUP = {labels.POD_GROUP: "g"}


def pods(text):
    """`2p 1a 1r 0s 0f`: pending, allocated, running, succeeded, failed."""
    made = []
    for word in text.split():
        phase = {"r": "Running", "s": "Succeeded", "f": "Failed"}.get(word[-1], "Pending")
        for index in range(int(word[:-1])):
            where = "" if word[-1] == "p" else "n"
            made.append(pod(f"{word}-{index}", said=IN_GROUP, node=where, phase=phase, cpu="1"))
    return made


PHASES = {
    "nobody yet": ("", "Pending", {}),
    "waiting": ("2p", "Pending", {"pending": 2}),
    "on nodes but not running": ("2a", "Pending", {"allocated": 2}),
    "the minimum runs": ("2r", "Running", {"running": 2, "allocated": 2}),
    "half of it does": ("1r 1p", "Pending", {"running": 1, "pending": 1, "allocated": 1}),
    "more than the minimum runs": ("2r 3p", "Running", {"running": 2, "pending": 3, "allocated": 2}),
    "all done": ("2s", "Succeeded", {"succeeded": 2}),
    "one failed": ("1s 1f", "Failed", {"succeeded": 1, "failed": 1}),
    "one failed, the other waits": ("1f 1p", "Pending", {"failed": 1, "pending": 1}),
}


@pytest.mark.parametrize(("text", "phase", "counts"), PHASES.values(), ids=PHASES)
def test_phase_and_counters(text, phase, counts):
    found = pod_group_status(pod_group("g", 2), pods(text), preemptible=True)
    assert found["phase"] == phase
    assert {
        name: found[name] for name in ("allocated", "pending", "running", "succeeded", "failed") if found[name]
    } == counts


def test_what_is_asked_for_and_what_is_held():
    found = pod_group_status(pod_group("g", 2), pods("2p 1r 1s"), preemptible=False)["resourcesStatus"]
    assert found == {"requested": {"cpu": "3"}, "allocated": {"cpu": "1"}, "allocatedNonPreemptible": {"cpu": "1"}}


def test_a_share_counts_for_each_of_its_devices():
    said = {labels.GPU_FRACTION: "0.5", labels.GPU_FRACTION_DEVICES: "3"}
    found = pod_group_status(pod_group("g", 1), [pod("a", said=said, node="n")], preemptible=True)
    assert found["resourcesStatus"]["allocated"] == {"nvidia.com/gpu": "1500m"}


def test_other_kinds_use_their_own_words():
    group = pod_group("g", 1)
    assert other_status(kinds.POD_GROUP_COSCHEDULING, group, pods("1s"))["phase"] == "Finished"
    assert other_status(kinds.POD_GROUP_VOLCANO, group, pods("1s"))["phase"] == "Completed"
    assert other_status(kinds.POD_GROUP_VOLCANO, group, pods("1r")) == {
        "phase": "Running", "running": 1, "succeeded": 0, "failed": 0,
    }  # fmt: skip


CHANGES = {
    "nothing new": ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, {}),
    "a new value": ({"a": 1}, {"a": 2}, {"a": 2}),
    "a value that is gone": ({"b": {"c": 1, "d": 2}}, {"b": {"c": 1}}, {"b": {"d": None}}),
    "an empty map that was not there": ({}, {"b": {}}, {"b": {}}),
    "what is not spoken of stays": ({"x": 1}, {}, {}),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=CHANGES)
def test_changes(old, new, want):
    assert changes(old, new) == want


def after_pause(controller, key):
    """The plan once the key's pause is over."""
    first = finished(controller.reconcile(key))
    assert first.again is not None
    controller.clock.advance(timedelta(seconds=1))
    return finished(controller.reconcile(key))


def test_a_gang_is_written_once_after_a_pause_and_then_only_on_change():
    controller = PodGroupStatus(None, FakeClock())
    around = World(controller)
    controller.reader = around
    around.put(kinds.POD_GROUP, pod_group("g", 2))
    for document in pods("2p"):
        around.put(kinds.POD, document)
    key = Key("default", "scheduling.run.ai/g")
    (patch,) = after_pause(controller, key).patch
    assert patch.body["status"]["pending"] == 2
    around.put(kinds.POD_GROUP, pod_group("g", 2) | {"status": patch.body["status"]})
    assert not after_pause(controller, key).patch


def test_a_gang_made_before_its_pods_says_nothing_until_they_come():
    controller = PodGroupStatus(None, FakeClock())
    around = World(controller)
    controller.reader = around
    assert around.put(kinds.POD_GROUP, pod_group("g", 2)) == []
    assert around.put(kinds.POD, pods("1p")[0]) == [Key("default", "scheduling.run.ai/g")]


groups = st.sampled_from([None, IN_GROUP, {labels.POD_GROUP: "other"}])
members = st.builds(
    lambda name, said, place, phase: pod(name, said=said, node=place, phase=phase, cpu="1"),
    st.sampled_from("abc"), groups, st.sampled_from(["", "n"]), st.sampled_from(["Pending", "Running", "Failed"]),
)  # fmt: skip


@given(st.lists(st.tuples(members, st.booleans()), max_size=12))
def test_counters_are_what_a_fresh_start_would_count(history):
    lived, fresh = (PodGroupStatus(None, FakeClock()) for _ in range(2))
    around = lived.reader = World(lived)
    for document, stays in history:
        around.put(kinds.POD, document)
        if not stays:
            around.drop(kinds.POD, document)
    anew = fresh.reader = World(fresh)
    for name in ("g", "other"):
        around.put(kinds.POD_GROUP, pod_group(name, 2))
        anew.put(kinds.POD_GROUP, pod_group(name, 2))
    for (kind, _), document in around.documents.items():
        anew.put(kind, document)
    for key in (Key("default", "scheduling.run.ai/g"), Key("default", "scheduling.run.ai/other")):
        assert after_pause(lived, key) == after_pause(fresh, key)


def holding(name, where, cpu):
    held = {"allocated": {"cpu": cpu}, "requested": {"cpu": cpu}}
    return pod_group(name, 1, queue=where) | {"status": {"resourcesStatus": held}}


def queues(*documents):
    controller = QueueStatus(None, FakeClock())
    around = World(controller)
    controller.reader = around
    for kind, document in documents:
        around.put(kind, document)
    return controller, around


def test_a_queue_sums_up_all_that_is_below_it():
    controller, _ = queues(
        (kinds.QUEUE, queue("top", "")),
        (kinds.QUEUE, queue("mid", "top")),
        (kinds.QUEUE, queue("leaf", "mid")),
        (kinds.POD_GROUP, holding("a", "leaf", "2")),
        (kinds.POD_GROUP, holding("b", "mid", "500m")),
    )
    (write,) = after_pause(controller, Key("", "top")).status
    assert write.document["status"] == {
        "childQueues": ["mid"], "allocated": {"cpu": "2500m"}, "requested": {"cpu": "2500m"},
    }  # fmt: skip


def test_a_group_wakes_its_queue_and_all_above():
    controller, _ = queues((kinds.QUEUE, queue("top", "")), (kinds.QUEUE, queue("leaf", "top")))
    assert [key.name for key in controller.watches[1].keys(holding("a", "leaf", "1"))] == ["leaf", "top"]


def test_a_group_that_holds_what_it_held_wakes_no_queue():
    _, around = queues((kinds.QUEUE, queue("q", "")), (kinds.POD_GROUP, holding("a", "q", "2")))
    again = holding("a", "q", "2")
    assert not around.put(kinds.POD_GROUP, again | {"metadata": {**again["metadata"], "labels": {"x": "y"}}})
    assert around.put(kinds.POD_GROUP, holding("a", "q", "3")) == [Key("", "q")]
    fresh = {name: part for name, part in holding("new", "q", "1").items() if name != "status"}
    assert not around.put(kinds.POD_GROUP, fresh)


def test_what_a_group_no_longer_holds_is_taken_away():
    controller, around = queues((kinds.QUEUE, queue("q", "")), (kinds.POD_GROUP, holding("a", "q", "2")))
    around.drop(kinds.POD_GROUP, holding("a", "q", "2"))
    assert not after_pause(controller, Key("", "q")).status


def test_a_circle_of_parents_is_walked_once():
    controller, _ = queues(
        (kinds.QUEUE, queue("a", "b")), (kinds.QUEUE, queue("b", "a")), (kinds.POD_GROUP, holding("g", "a", "1"))
    )
    (write,) = after_pause(controller, Key("", "a")).status
    assert write.document["status"]["allocated"] == {"cpu": "1"}
