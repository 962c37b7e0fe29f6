"""What a cycle decided becomes requests, evictions and words, and words only where they are new."""

from datetime import UTC, datetime

import pytest

from allaboard.api import kinds, labels
from allaboard.scheduling import outcomes
from allaboard.scheduling.podgroups import WORKLOAD
from allaboard.scheduling.reasons import Reason

from .builders import at, pod, pod_group

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SHORT = Reason("InsufficientResource", "needs 4 gpu, 3 free", needs={"gpu": 4.0}, free={"gpu": 3.0})


def test_a_request_bears_the_pods_name_and_goes_with_it():
    made = outcomes.bind_request(outcomes.Seat(pod("a"), "n", "pg-x"), gpus=2.0)
    assert made["metadata"]["name"] == "a"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-a"
    assert made["spec"] == {
        "podName": "a",
        "selectedNode": "n",
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 2, "portion": "1.00"},
    }


def test_a_request_for_a_share_names_its_groups():
    seat = outcomes.Seat(pod("a"), "n", "pg-x", ("g1", "g2"), 0.5)
    spec = outcomes.bind_request(seat, gpus=1.0)["spec"]
    assert spec["receivedResourceType"] == "Fraction"
    assert spec["receivedGPU"] == {"count": 2, "portion": "0.50"}
    assert spec["selectedGPUGroups"] == ["g1", "g2"]


def test_an_eviction_tells_the_pod_before_it_goes():
    plan = outcomes.evict(pod("a", node="n"), "make room", NOW)
    assert plan.patch[0].body["status"]["conditions"][0]["type"] == "DisruptionTarget"
    assert plan.delete[0].uid == "uid-a"
    assert plan.events[0].message == "make room"


def group(condition=None, **metadata):
    made = pod_group("pg-x", 2)
    made["metadata"] |= metadata
    return made | ({"status": {"schedulingConditions": [condition]}} if condition else {})


def applied(document, plan):
    """The PodGroup after the plan's status patch."""
    (patch,) = plan.patch
    return {**document, "status": {**document.get("status", {}), **patch.body["status"]}}


def test_a_refusal_stands_on_the_group_with_its_numbers():
    after = applied(group(), outcomes.refuse(group(), SHORT, NOW))
    (condition,) = after["status"]["schedulingConditions"]
    assert (condition["type"], condition["status"]) == ("UnschedulableOnNodePool", "True")
    assert (condition["reason"], condition["message"]) == ("InsufficientResource", "needs 4 gpu, 3 free")
    assert condition["transitionID"] == "1"
    assert after["status"]["aboard"]["why"]["needs"] == {"gpu": 4.0}


def test_the_same_refusal_is_not_written_twice():
    after = applied(group(), outcomes.refuse(group(), SHORT, NOW))
    assert not outcomes.refuse(after, SHORT, NOW)


def test_new_numbers_are_written_without_a_new_event():
    after = applied(group(), outcomes.refuse(group(), SHORT, NOW))
    plan = outcomes.refuse(after, Reason("InsufficientResource", "needs 4 gpu, 1 free"), NOW)
    assert plan.patch
    assert not plan.events
    assert applied(after, plan)["status"]["schedulingConditions"][0]["transitionID"] == "1"


def test_relief_turns_the_condition():
    after = applied(group(), outcomes.refuse(group(), SHORT, NOW))
    (condition,) = applied(after, outcomes.relieve(after, NOW))["status"]["schedulingConditions"]
    assert (condition["status"], condition["transitionID"]) == ("False", "2")
    assert not outcomes.relieve(group(), NOW)


def test_the_workload_a_user_knows_hears_it_too():
    named = group(annotations={WORKLOAD: "trainer.kubeflow.org/v1alpha1|TrainJob|x|u"})
    events = outcomes.refuse(named, SHORT, NOW).events
    assert [event.regarding["kind"] for event in events] == ["PodGroup", "TrainJob"]


MESSAGES = {
    "no nodes at all": ({}, 0, "no nodes available to schedule pods"),
    "objections are counted and sorted": (
        {"Insufficient cpu": 1, "node(s) had untolerated taint {k: v}": 2},
        3,
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {k: v}.",
    ),
    "a reason that is no node's": ({}, 3, "0/3 nodes are available: needs 4 gpu, 3 free."),
}


@pytest.mark.parametrize(("nodes", "count", "want"), MESSAGES.values(), ids=MESSAGES)
def test_pods_speak_kube_schedulers_words(nodes, count, want):
    reason = Reason("InsufficientResource", SHORT.message, nodes=nodes)
    assert outcomes.pod_message(reason, count) == want


def waiting(message):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod("a") | {"status": {"phase": "Pending", "conditions": [condition | {"lastTransitionTime": "t"}]}}


def test_a_pod_is_told_once_while_only_numbers_change():
    assert outcomes.tell_pods([pod("a")], "0/3 nodes are available: 3 Insufficient cpu.", NOW).patch
    said = waiting("0/3 nodes are available: 3 Insufficient cpu.")
    assert not outcomes.tell_pods([said], "0/9 nodes are available: 9 Insufficient cpu.", NOW)
    assert outcomes.tell_pods([said], "no nodes available to schedule pods", NOW).patch


def test_marks_are_written_on_change_only():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    plan = outcomes.mark(group(), labels.LAST_START, moment)
    assert plan.patch[0].body["metadata"]["annotations"] == {labels.LAST_START: "2026-01-02T03:04:05Z"}
    said = group(annotations={labels.LAST_START: "2026-01-02T03:04:05Z"})
    assert not outcomes.mark(said, labels.LAST_START, moment)
    assert not outcomes.mark(group(), labels.STALE_SINCE, None)


def test_failed_requests_are_removed():
    request = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}}
    (removal,) = outcomes.forget([(at("a"), request)]).delete
    assert (removal.kind, removal.uid) == (kinds.BIND_REQUEST, "u")
