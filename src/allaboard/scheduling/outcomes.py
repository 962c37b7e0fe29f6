"""What a cycle decided, as things to write: requests to bind, evictions, and words about who waits and why.

Words are written only where they differ from what the document says already, so a cycle that changes nothing
writes nothing, also after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import BIND_REQUEST, POD, POD_GROUP, SCHEDULING_SHARD, Kind
from allaboard.api.meta import (
    annotations_of,
    condition_of,
    key_of,
    labels_of,
    namespace_of,
    owners_of,
    stamp,
    uid_of,
)
from allaboard.kube.client import PatchType
from allaboard.kube.plan import NOTHING, Delete, Event, Patch, Plan
from allaboard.scheduling.facts import MIG_PREFIX
from allaboard.scheduling.podgroups import WORKLOAD
from allaboard.scheduling.reasons import Reason

UNSCHEDULABLE = "UnschedulableOnNodePool"
DEFAULT_POOL = "default"
# Pods that are told why they wait; the rest of a very large gang hears it from the PodGroup.
TOLD_PODS = 256


class Seat(Struct, frozen=True):
    """The place a cycle found for a pod; a share of GPUs has groups and a portion."""

    pod: Document
    node: str
    gang: str
    gpu_groups: tuple[str, ...] = ()
    portion: float = 0.0


def bind_request(seat: Seat, gpus: float) -> Document:
    """The request the binder will carry out; it bears the pod's name and goes with the pod."""
    key, node, shared = key_of(seat.pod), seat.node, bool(seat.gpu_groups)
    count = len(seat.gpu_groups) if shared else round(gpus)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid_of(seat.pod)}
    spec: Document = {
        "podName": key.name,
        "selectedNode": node,
        "receivedResourceType": "Fraction" if shared else "MigInstance" if _asks_for_mig(seat.pod) else "Regular",
        "receivedGPU": {"count": count, "portion": f"{seat.portion if shared else 1.0:.2f}"},
    }
    if shared:
        spec["selectedGPUGroups"] = list(seat.gpu_groups)
    metadata: Document = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {labels.SELECTED_NODE: node[:63]} | _pool(seat.pod),
        "annotations": {labels.POD_GROUP: seat.gang},
        "ownerReferences": [owner],
    }
    return {"apiVersion": BIND_REQUEST.api_version, "kind": BIND_REQUEST.kind, "metadata": metadata, "spec": spec}


def _asks_for_mig(pod: Document) -> bool:
    """Whether a container wants a slice of a GPU that is cut by MIG."""
    for container in pod["spec"].get("containers") or ():
        said = container.get("resources") or {}
        for name in (*(said.get("requests") or ()), *(said.get("limits") or ())):
            if name.startswith(MIG_PREFIX):
                return True
    return False


def _pool(document: Document) -> dict[str, str]:
    pool = labels_of(document).get(labels.NODE_POOL)
    return {labels.NODE_POOL: pool} if pool else {}


def evict(pod: Document, message: str, now: datetime) -> Plan:
    """Tell the pod why it must go, then delete it."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
        "lastTransitionTime": stamp(now),
    }
    # The status of a pod is the one whose subresource lets annotations through: one write says both.
    change = {"metadata": {"annotations": {labels.EVICTED: stamp(now)}}, "status": {"conditions": [condition]}}
    return Plan(
        patch=(Patch(POD, key_of(pod), change, PatchType.STRATEGIC, "status"),),
        delete=(Delete(POD, key_of(pod), uid=uid_of(pod)),),
        events=(Event(_typed(pod), "Evict", message, "Warning", "Preempting"),),
    )


def _typed(pod: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", **pod}


# --- why a gang waits ---


def refuse(group: Document, reason: Reason, now: datetime) -> Plan:
    """Say on the PodGroup and its workload why the gang waits."""
    if says(group, reason):
        return NOTHING
    return _write(group, _unschedulable(_condition(group) or {}, reason, now), reason)


def says(group: Document, reason: Reason) -> bool:
    """Whether the PodGroup gives this reason already."""
    condition = _condition(group)
    return condition is not None and condition["status"] == "True" and condition.get("message") == reason.message


def relieve(group: Document, now: datetime) -> Plan:
    """A gang that was refused has its place now: the condition says so."""
    condition = _condition(group)
    if condition is None or condition["status"] != "True":
        return NOTHING
    new = {**condition, "status": "False", "reason": "Scheduled", "message": "", "reasons": []}
    turned = {**new, "transitionID": _next(condition), "lastTransitionTime": stamp(now)}
    status = {"schedulingConditions": _replaced(group, turned), "aboard": {"why": None}}
    words = "every pod that the gang needs has its place"
    return Plan(
        patch=(Patch(POD_GROUP, key_of(group), {"status": status}, subresource="status"),),
        events=tuple(Event(document, "GangScheduled", words) for document in _concerned(POD_GROUP, group)),
    )


def announce(kind: Kind, group: Document, reason: Reason) -> Plan:
    """For groups of other kinds, whose status has no place for reasons: words for those concerned."""
    return Plan(events=tuple(Event(d, reason.code, reason.message, "Warning") for d in _concerned(kind, group)))


def _condition(group: Document) -> Document | None:
    pool = labels_of(group).get(labels.NODE_POOL, DEFAULT_POOL)
    conditions: list[Document] = dig(group, "status", "schedulingConditions", default=[])
    return next((c for c in conditions if c.get("type") == UNSCHEDULABLE and c.get("nodePool") == pool), None)


def _replaced(group: Document, condition: Document) -> list[Document]:
    old: list[Document] = dig(group, "status", "schedulingConditions", default=[])
    return [*(c for c in old if c.get("nodePool") != condition.get("nodePool")), condition]


def _next(condition: Document) -> str:
    """Transitions are numbered, so that the latest of several writers can be told."""
    return str(int(condition.get("transitionID") or 0) + 1)


def _unschedulable(old: Document, reason: Reason, now: datetime) -> Document:
    moved = old.get("status") != "True"
    return {
        "type": UNSCHEDULABLE,
        "nodePool": DEFAULT_POOL,
        "status": "True",
        "transitionID": _next(old) if moved else old["transitionID"],
        "lastTransitionTime": stamp(now) if moved else old.get("lastTransitionTime", stamp(now)),
        "reason": reason.code,
        "message": reason.message,
        "reasons": [{"reason": reason.code, "message": reason.message}],
    }


def _write(group: Document, condition: Document, reason: Reason) -> Plan:
    pool = labels_of(group).get(labels.NODE_POOL, DEFAULT_POOL)
    status = {
        "schedulingConditions": _replaced(group, {**condition, "nodePool": pool}),
        "aboard": {"why": why(reason)},
    }
    patch = Patch(POD_GROUP, key_of(group), {"status": status}, subresource="status")
    before = _condition(group)
    said = before is not None and before["status"] == "True" and before.get("reason") == reason.code
    return Plan(patch=(patch,)) + (NOTHING if said else announce(POD_GROUP, group, reason))


def _concerned(kind: Kind, group: Document) -> Iterable[Document]:
    """The PodGroup, and the workload a user knows it by: noted by the grouper, or its owner."""
    yield {"apiVersion": kind.api_version, "kind": kind.kind, **group}
    parts = annotations_of(group).get(WORKLOAD, "").split("|")
    if len(parts) == 4:
        names = {"name": parts[2], "namespace": namespace_of(group), "uid": parts[3]}
        yield {"apiVersion": parts[0], "kind": parts[1], "metadata": names}
    elif kind != POD_GROUP and (owner := next(iter(owners_of(group)), None)):
        names = {"name": owner["name"], "namespace": namespace_of(group), "uid": owner["uid"]}
        yield {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": names}


def workload_of(group: Document) -> str:
    """The name of the workload the grouper noted on a PodGroup; empty where it noted none."""
    parts = annotations_of(group).get(WORKLOAD, "").split("|") if group else []
    return parts[2] if len(parts) == 4 else ""


def why(reason: Reason) -> Document:
    """The reason with its numbers, for tools: what `aboard why` and `ps` read."""
    document: Document = {"code": reason.code, "verdict": reason.verdict, "message": reason.message}
    numbers = {"needs": _plain(reason.needs), "free": _plain(reason.free), "nodes": _plain(reason.nodes)}
    held = [
        {"gang": h.gang, "queue": h.queue, "gpus": float(h.gpus), "preemptible": h.preemptible} for h in reason.held_by
    ]
    facts: Document = {**numbers, "heldBy": held, "unblock": list(reason.unblock), "queue": reason.queue}
    counts = _plain({"wanted": reason.tasks_wanted, "fitting": reason.tasks_fitting, "position": reason.position})
    counts |= _plain({"overall": reason.overall, "priority": reason.priority})
    if reason.estimate is not None:
        facts["estimate"] = stamp(datetime.fromtimestamp(float(reason.estimate), UTC))
    return document | {name: value for name, value in (facts | counts).items() if value}


def _plain(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers as JSON knows them; the scheduler's may be those of its arrays."""
    return {name: int(number) if float(number).is_integer() else float(number) for name, number in numbers.items()}


# --- what the pods say, in kube-scheduler's words ---


def pod_message(reason: Reason, nodes: int) -> str:
    """`0/3 nodes are available: 1 Insufficient cpu, 2 …`, sorted as kube-scheduler sorts."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    objections = sorted(f"{count} {words}" for words, count in reason.nodes.items())
    return f"0/{nodes} nodes are available: {', '.join(objections) or reason.message}."


def tell_pods(pods: Sequence[Document], message: str, now: datetime) -> Plan:
    """Say on each waiting pod why it waits, unless it says so already."""
    plan = NOTHING
    for pod in pods[:TOLD_PODS]:
        old = condition_of(pod, "PodScheduled")
        if old is not None and old.get("reason") == "Unschedulable" and _gist(old.get("message", "")) == _gist(message):
            continue
        plan += _tell_pod(pod, message, old, now)
    return plan


def _gist(message: str) -> str:
    """A message without its numbers: those may change from cycle to cycle without anything being new."""
    return "".join(letter for letter in message if not letter.isdigit())


def _tell_pod(pod: Document, message: str, old: Document | None, now: datetime) -> Plan:
    since = old["lastTransitionTime"] if old and old.get("status") == "False" else stamp(now)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "observedGeneration": dig(pod, "metadata", "generation", default=1),
    }
    change = {"status": {"conditions": [condition]}}
    return Plan(
        patch=(Patch(POD, key_of(pod), change, PatchType.STRATEGIC, "status"),),
        events=(Event(_typed(pod), "FailedScheduling", message, "Warning", "Scheduling", instant=True),),
    )


# --- words to operators ---


def about_shard(shard: Document, reason: str, message: str, kind: str = "Warning") -> Plan:
    named = {"apiVersion": SCHEDULING_SHARD.api_version, "kind": SCHEDULING_SHARD.kind, **shard}
    return Plan(events=(Event(named, reason, message, kind),))


def checked(shard: Document, found: Sequence[str]) -> Plan:
    """What rebuild-and-compare found."""
    if not found:
        return about_shard(shard, "StateSound", "the scheduler's state equals one built anew", "Normal")
    words = f"the scheduler's state differed from one built anew in {len(found)} places and was replaced: "
    return about_shard(shard, "StateDrifted", words + "; ".join(found[:3]))


# --- marks on PodGroups ---


def mark(group: Document, key: str, since: float | None) -> Plan:
    """Set or clear one of the scheduler's times on a PodGroup."""
    value = stamp(datetime.fromtimestamp(since, UTC)) if since is not None else None
    if annotations_of(group).get(key) == value:
        return NOTHING
    return Plan(patch=(Patch(POD_GROUP, key_of(group), {"metadata": {"annotations": {key: value}}}),))


def forget(requests: Iterable[tuple[Key, Document]]) -> Plan:
    """Requests that failed make room for a new decision."""
    return Plan(delete=tuple(Delete(BIND_REQUEST, key_of(r), uid=uid_of(r)) for _, r in requests))
