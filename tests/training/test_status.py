"""First failures: which container ended badly first, over restarts of pod and JobSet."""

import pytest

from allaboard.training.status import failures, first_failure, recorded_failure


def ended(name, code, time, *, attempt="0", index="0", state="state"):
    status = {"name": "node", state: {"terminated": {"exitCode": code, "finishedAt": time, "message": "boom"}}}
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/restart-attempt": attempt,
        "batch.kubernetes.io/job-completion-index": index,
    }
    return {"metadata": {"name": name, "labels": labels}, "status": {"containerStatuses": [status]}}


CASES = {
    "nobody failed":                            ([ended("a", 0, "1")], None),
    "one failed":                               ([ended("a", 3, "1")], "a"),
    "the earlier one counts":                   ([ended("a", 3, "2"), ended("b", 137, "1")], "b"),
    "equal times go by name":                   ([ended("b", 1, "1"), ended("a", 1, "1")], "a"),
    "a restarted container is remembered":      ([ended("a", 3, "1", state="lastState")], "a"),
    "a new attempt is a new account":           ([ended("a", 3, "1"), ended("b", 4, "2", attempt="1")], "b"),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "want"), CASES.values(), ids=CASES)
def test_the_first_failure(pods, want):
    found = first_failure(*(failure for pod in pods for failure in failures(pod)))
    assert (found or {}).get("pod") == want


def test_what_is_known_of_a_failure():
    assert list(failures(ended("run-node-0-1-x", 3, "2026-01-01T00:00:00Z", index="1"))) == [
        {
            "pod": "run-node-0-1-x",
            "container": "node",
            "exitCode": 3,
            "attempt": 0,
            "job": "node",
            "rank": 1,
            "message": "boom",
            "time": "2026-01-01T00:00:00Z",
        }
    ]


def test_a_jobsets_own_account_fills_in_what_pods_no_longer_tell():
    text = '[{"pod":"run-node-0-1-x","index":1,"node":"n1","exitCode":3,"message":"last words","at":"2","attempt":0}]'
    account = recorded_failure({"metadata": {"annotations": {"aboard.dev/failures": text}}})
    assert account == {
        "pod": "run-node-0-1-x",
        "container": "",
        "exitCode": 3,
        "rank": 1,
        "node": "n1",
        "message": "last words",
        "time": "2",
        "attempt": 0,
    }
    seen = {"pod": "run-node-0-1-x", "container": "node", "exitCode": 3, "attempt": 0, "time": "1"}
    assert first_failure(account, seen)["message"] == "last words"
    assert first_failure(account, seen)["container"] == "node"


@pytest.mark.parametrize("text", ["", "words", "[]", "[{}]"])
def test_an_account_that_makes_no_sense_is_none(text):
    assert recorded_failure({"metadata": {"annotations": {"aboard.dev/failures": text}}}) is None
