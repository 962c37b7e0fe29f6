"""Nodes: a ready one is open to pods, one whose heartbeat stopped is not."""

from __future__ import annotations

from datetime import datetime, timedelta

from allaboard.api.documents import Document, Key, dig, replace
from allaboard.api.kinds import LEASE, NODE
from allaboard.api.meta import condition_of, moment_of, name_of, stamp, with_condition
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.plan import NOTHING, Event, Plan, Status, Update

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
LEASES = "kube-node-lease"
# Upstream: node-monitor-grace-period.
GRACE = timedelta(seconds=40)
SILENT = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


def heard(node: Document, lease: Document | None) -> datetime:
    """When the node last gave a sign of life: its lease, else its Ready condition, else its birth."""
    ready = condition_of(node, "Ready") or {}
    said = (dig(lease or {}, "spec", "renewTime"), ready.get("lastHeartbeatTime"))
    return moment_of(next((text for text in said if text), node["metadata"]["creationTimestamp"]))


def taints_for(node: Document) -> list[Document]:
    """The node's taints, with those that follow from its readiness brought up to date."""
    ready = (condition_of(node, "Ready") or {}).get("status", "Unknown")
    kept = [t for t in dig(node, "spec", "taints", default=[]) if t.get("key") not in (NOT_READY, UNREACHABLE)]
    wanted = {"True": [], "False": [NOT_READY]}.get(ready, [UNREACHABLE])
    return kept + [{"key": key, "effect": "NoSchedule"} for key in wanted]


def decide(node: Document, lease: Document | None, now: datetime) -> Plan:
    """Fall silent and be marked unknown; be marked and be tainted; be ready and be open. One step a pass."""
    ready = condition_of(node, "Ready")
    until = heard(node, lease) + GRACE
    if lease is not None and now >= until and ready is not None and ready.get("status") != "Unknown":
        return _mark_unknown(node, now)
    taints = taints_for(node)
    if ready is not None and taints != dig(node, "spec", "taints", default=[]):
        changed = replace(node, "spec", "taints", value=taints)
        return Plan(update=(Update(NODE, changed),), again=until if lease and until > now else None)
    return Plan(again=until) if lease is not None and until > now else NOTHING


def _mark_unknown(node: Document, now: datetime) -> Plan:
    reason, message = SILENT
    new = {"type": "Ready", "status": "Unknown", "reason": reason, "message": message}
    conditions = with_condition(node["status"]["conditions"], {**new, "lastTransitionTime": stamp(now)}, now)
    told = Event(node, "NodeNotReady", f"Node {name_of(node)} status is now: NodeNotReady", "Warning")
    return Plan(status=(Status(NODE, replace(node, "status", "conditions", value=conditions)),), events=(told,))


class Nodes:
    """Follows heartbeats through leases (kube-node-lease) and keeps the taints of readiness."""

    name = "node-lifecycle-controller"
    manager = "kube-controller-manager"
    watches = (Watch(NODE), Watch(LEASE, nobody))  # a lease renewed in time is no news

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        if (node := await self.reader.get(NODE, key)) is None:
            return NOTHING
        return decide(node, await self.reader.get(LEASE, Key(LEASES, key.name)), self.clock.now())
