"""A ready node is open, a silent one is closed."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.upkeep import nodes

from .builders import thing

NOW = datetime(2026, 1, 2, 4, 0, tzinfo=UTC)
NOT_READY = {"key": nodes.NOT_READY, "effect": "NoSchedule"}
UNREACHABLE = {"key": nodes.UNREACHABLE, "effect": "NoSchedule"}
OURS = {"key": "mine", "effect": "NoSchedule"}


def node(ready="True", *taints):
    conditions = [{"type": "Ready", "status": ready}]
    return thing("Node", "n", "", spec={"taints": list(taints)}, status={"conditions": conditions})


def lease(age):
    renewed = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return thing("Lease", "n", "kube-node-lease", spec={"renewTime": renewed})


TAINTS = {
    "a node that became ready is opened": (node("True", NOT_READY, OURS), [OURS]),
    "one that is not is closed": (node("False"), [NOT_READY]),
    "one nobody hears from": (node("Unknown", NOT_READY), [UNREACHABLE]),
}


@pytest.mark.parametrize(("document", "want"), TAINTS.values(), ids=TAINTS)
def test_taints(document, want):
    (write,) = nodes.decide(document, None, NOW).update
    assert write.document["spec"]["taints"] == want


def test_a_heartbeat_in_time_only_sets_the_next_look():
    plan = nodes.decide(node(), lease(10), NOW)
    assert plan.again == NOW + timedelta(seconds=30)
    assert not plan.status


def test_a_silent_node_is_marked_unknown():
    plan = nodes.decide(node(), lease(41), NOW)
    (condition,) = plan.status[0].document["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert plan.events[0].reason == "NodeNotReady"


def test_a_node_without_lease_is_judged_by_its_word():
    assert not nodes.decide(node(), None, NOW + timedelta(days=1))
