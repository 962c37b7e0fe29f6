"""Pods nobody will ever finish: bound to a node that is gone, or asked to leave before they had one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, key_of, stamp, uid_of
from allaboard.kube.client import PatchType
from allaboard.kube.plan import NOTHING, Delete, Patch, Plan

PERIOD, QUARANTINE = timedelta(seconds=20), timedelta(seconds=40)


def missing_nodes(pods: Iterable[Document], nodes: Iterable[str]) -> set[str]:
    """Nodes that pods are bound to and that do not exist. A cluster without nodes is somebody else's play."""
    there = set(nodes)
    bound = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
    return {name for name in bound if name and name not in there} if there else set()


def sweep(pods: Sequence[Document], missing_since: Mapping[str, datetime], now: datetime) -> Plan:
    """Fail and remove pods of nodes that have been gone for a while; remove leaving pods that never had one."""
    gone = {name for name, since in missing_since.items() if now - since >= QUARANTINE}
    lost = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") in gone]
    stuck = [pod for pod in pods if is_leaving(pod) and not (pod.get("spec") or {}).get("nodeName")]
    if not lost and not stuck:
        return NOTHING
    return Plan(
        patch=tuple(_failed(pod, now, gone=pod in lost) for pod in (*lost, *stuck) if not _is_over(pod)),
        delete=tuple(Delete(kinds.POD, key_of(pod), uid_of(pod), grace=0) for pod in (*lost, *stuck)),
    )


def _is_over(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _failed(pod: Document, now: datetime, *, gone: bool) -> Patch:
    """Failed, so that its Job may count it; whose node is gone was disrupted."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": stamp(now),
    }
    body = {"status": {"phase": "Failed"} | ({"conditions": [condition]} if gone else {})}
    return Patch(kinds.POD, key_of(pod), body, PatchType.STRATEGIC, "status")
