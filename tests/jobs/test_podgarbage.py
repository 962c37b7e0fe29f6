"""Pods that nobody will ever finish are finished."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.jobs.podgarbage import missing_nodes, sweep

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(text):
    """`a@n1` runs on n1; `b@` has no node; `!` is leaving, `.` is over."""
    name, _, node = text.rstrip("!.").partition("@")
    metadata = {"name": name, "namespace": "ns", "uid": name, **({"deletionTimestamp": "t"} if "!" in text else {})}
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Succeeded" if "." in text else "Running"},
    }


CASES = {
    "a pod on a node that is there stays": ("a@n1", "n1", 60, ""),
    "a pod on a node that is gone goes": ("a@n1 b@n2", "n2", 60, "fail:a -a"),
    "but not at once": ("a@n1 b@n2", "n2", 39, ""),
    "a pod that is over is only removed": ("a@n1.", "n2", 60, "-a"),
    "a leaving pod without a node goes": ("a@!", "n2", 0, "fail:a -a"),
    "a pod without a node waits": ("a@", "n2", 60, ""),
    "without any node nobody is missed": ("a@n1", "", 60, ""),
}


@pytest.mark.parametrize(("pods", "nodes", "seconds", "want"), CASES.values(), ids=CASES)
def test_a_sweep(pods, nodes, seconds, want):
    documents = [pod(text) for text in pods.split()]
    missing = dict.fromkeys(missing_nodes(documents, nodes.split()), NOW - timedelta(seconds=seconds))
    plan = sweep(documents, missing, NOW)
    told = [f"fail:{write.key.name}" for write in plan.patch] + [f"-{write.key.name}" for write in plan.delete]
    assert " ".join(told) == want
