"""What failed pods mean: the rules of podFailurePolicy, and how long a Job waits after failures."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.jobs import backoff
from allaboard.jobs.members import read
from allaboard.jobs.podfailure import judge

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(code=0, condition="", name="p", seconds=0, **annotations):
    ended = {"exitCode": code, "finishedAt": (NOON + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")}
    rows = [{"name": "main", "state": {"terminated": ended}}]
    conditions = [{"type": condition, "status": "True"}] if condition else []
    metadata = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations}
    return {"metadata": metadata, "status": {"containerStatuses": rows, "conditions": conditions, "phase": "Failed"}}


def on_codes(action, operator, *values, container=None):
    wanted = {"operator": operator, "values": list(values), **({"containerName": container} if container else {})}
    return {"action": action, "onExitCodes": wanted}


def on_condition(action, type_):
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"}]}


RULES = {
    "no rule fits": ([on_codes("FailJob", "In", 1)], pod(2), "", True),
    "a code that is named": ([on_codes("FailJob", "In", 1, 2)], pod(2), "FailJob", True),
    "a code that is not excepted": ([on_codes("Ignore", "NotIn", 1)], pod(2), "Ignore", False),
    "success is never a failure": ([on_codes("FailJob", "NotIn", 1)], pod(0), "", True),
    "another container's code": ([on_codes("FailJob", "In", 2, container="side")], pod(2), "", True),
    "a condition": ([on_condition("Ignore", "DisruptionTarget")], pod(137, "DisruptionTarget"), "Ignore", False),
    "the first rule that fits": (
        [on_condition("Count", "Evil"), on_codes("Ignore", "In", 2)],
        pod(2, "Evil"),
        "Count",
        True,
    ),
}


@pytest.mark.parametrize(("rules", "document", "action", "counts"), RULES.values(), ids=RULES)
def test_a_failed_pod_is_judged(rules, document, action, counts):
    finding = judge({"rules": rules}, document)
    assert (finding.action, finding.counts) == (action, counts)


def test_the_message_names_pod_container_code_and_rule():
    finding = judge({"rules": [on_condition("Ignore", "X"), on_codes("FailJob", "In", 42)]}, pod(42))
    assert finding.message == "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 1"


WAITS = {
    "the first": (1, 10),
    "the second": (2, 20),
    "the fourth": (4, 80),
    "the seventh": (7, 600),
    "the hundredth": (100, 600),
}


@pytest.mark.parametrize(("failures", "seconds"), WAITS.values(), ids=WAITS)
def test_failures_wait_longer_each_time(failures, seconds):
    assert backoff.delay_of(failures) == timedelta(seconds=seconds)


def test_a_failure_seen_twice_counts_once_and_a_success_forgives():
    failed = [read(pod(1, name=str(number), seconds=number)) for number in range(3)]
    record = backoff.noted(backoff.noted(backoff.FRESH, [], failed), [], failed)
    assert backoff.due(record) == NOON + timedelta(seconds=2 + 40)
    forgiven = backoff.noted(record, [read(pod(0, name="good", seconds=9))], failed)
    assert backoff.due(forgiven) is None


def test_an_index_waits_for_its_own_failures_only():
    annotations = {
        "batch.kubernetes.io/job-index-failure-count": "1",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    assert backoff.due_for_index(read(pod(1, **annotations))) == NOON + timedelta(seconds=40)
    assert backoff.due_for_index(None) is None
