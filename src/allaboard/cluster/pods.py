"""What pods have beside themselves: binding to a node and eviction."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.api.meta import is_leaving, stamp, with_condition
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.delete import Outcome, Wish, delete
from allaboard.cluster.ownership import track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.update import change


async def bind(cluster: Cluster, place: Place, binding: Document, ask: Ask) -> None:
    """Give a pod its node, once."""
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    check_binding(target)

    def build(pod: Document) -> Document:
        check_bindable(place, pod, metadata, target.get("name", ""))
        bound = bound_pod(pod, target["name"], metadata.get("annotations") or {}, stamp_of(cluster))
        return track(place, bound, pod, ask, cluster.world.now())

    await change(cluster, place, build, ask)


def stamp_of(cluster: Cluster) -> str:
    return stamp(cluster.world.now())


def check_binding(target: Document) -> None:
    """Upstream says these as bare errors of the binding itself."""
    if target.get("kind") not in (None, "", "Node"):
        words = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise refusals.bare(500, words)
    if not target.get("name"):
        raise refusals.bare(500, "target.name: Required value")


def check_bindable(place: Place, pod: Document, metadata: Document, node: str) -> None:
    """Refuse a binding of a pod that leaves, is another's namesake, or has a node already."""
    kind, name = place.rules.kind, place.key.name
    if metadata.get("uid") and metadata["uid"] != pod["metadata"]["uid"]:
        stated, found = metadata["uid"], pod["metadata"]["uid"]
        why = f"Precondition failed: UID in precondition: {stated}, UID in object meta: {found}"
        raise refusals.conflict(kind, name, why)
    if is_leaving(pod):
        raise _refused(place, f"pod {name} is being deleted, cannot be assigned to a host")
    assigned = pod["spec"].get("nodeName")
    if assigned:
        raise _refused(place, f"pod {name} is already assigned to node \"{assigned}\"")
    if pod["spec"].get("schedulingGates"):
        raise _refused(place, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(place: Place, why: str) -> Exception:
    error = refusals.conflict(place.rules.kind, place.key.name, why)
    error.details = {**error.details, "kind": "pods/binding"}
    error.message = error.message.replace('on pods "', 'on pods/binding "')
    error.args = (error.message,)
    return error


def bound_pod(pod: Document, node: str, annotations: Document, now: str) -> Document:
    """The pod with its node, and the condition that says it was scheduled."""
    metadata = pod["metadata"]
    if annotations:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}
    status = pod.get("status") or {}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [each for each in status.get("conditions") or [] if each.get("type") != "PodScheduled"]
    conditions = [*others, scheduled]
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": conditions},
    }


async def evict(cluster: Cluster, place: Place, eviction: Document, ask: Ask) -> Outcome:
    """Delete a pod because it must make room; without disruption budgets nothing speaks against it."""
    stated = (eviction.get("metadata") or {}).get("name", "")
    if stated != place.key.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    wish = wish_of(options)
    return await delete(cluster, place._replace(subresource=""), wish, ask)


def wish_of(options: Document) -> Wish:
    """How to delete, as DeleteOptions say it."""
    preconditions = options.get("preconditions") or {}
    propagation = options.get("propagationPolicy") or ""
    if options.get("orphanDependents") is not None:
        propagation = "Orphan" if options["orphanDependents"] else "Background"
    return Wish(
        propagation,
        options.get("gracePeriodSeconds"),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        options,
    )


__all__ = ["Cause", "bind", "evict", "wish_of", "with_condition"]
