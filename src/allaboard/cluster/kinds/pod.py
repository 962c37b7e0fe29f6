"""Pod: defaults, quality of service, what may change after creation, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, podchange, podspec, podview
from allaboard.cluster.rules import Rules, Value, built_in


def default(pod: Document) -> Document:
    """What a Pod has beyond a template: links to services, and requests where only limits are given."""
    spec = podspec.default(pod.get("spec") or {})
    spec.setdefault("enableServiceLinks", True)
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [containers.requests_from_limits(container) for container in spec[part]]
    if spec.get("hostNetwork"):
        spec["containers"] = [_host_ports(container) for container in spec["containers"]]
    return {**pod, "spec": spec}


def _host_ports(container: Document) -> Document:
    ports = container.get("ports")
    if not ports:
        return container
    return {**container, "ports": [port if port.get("hostPort") else _on_host(port) for port in ports]}


def _on_host(port: Document) -> Document:
    return {**port, "hostPort": port.get("containerPort")} if port.get("containerPort") else port


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        return {**new, "status": first_status(new)}
    if subresource == "status":
        return _status_only(new, old)
    if subresource == "ephemeralcontainers":
        # Nothing else may change; podchange refuses what differs.
        return {**new, "status": old.get("status", {})}
    return {**new, "status": old.get("status", {})}


def first_status(pod: Document) -> Document:
    status: Document = {"phase": "Pending", "qosClass": quality(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
            }
        ]
    return status


def _status_only(new: Document, old: Document) -> Document:
    """Labels may change with the status, owners and the quality of service may not."""
    metadata = {**new["metadata"]}
    for key in ("ownerReferences",):
        metadata.pop(key, None)
        if key in old["metadata"]:
            metadata[key] = old["metadata"][key]
    status = {**(new.get("status") or {})}
    if quality_then := dig(old, "status", "qosClass"):
        status["qosClass"] = quality_then
    return {**old, "metadata": metadata, "status": status}


def quality(spec: Document) -> str:
    """Guaranteed where every container's limits equal its requests, BestEffort where nothing is asked for."""
    asked, guaranteed = False, True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        wanted = container.get("resources") or {}
        limits, requests = _compute(wanted.get("limits")), _compute(wanted.get("requests"))
        asked = asked or bool(limits or requests)
        guaranteed = guaranteed and limits.keys() == {"cpu", "memory"} and (not requests or requests == limits)
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(listed: Document | None) -> Document:
    return {name: amount for name, amount in (listed or {}).items() if name in ("cpu", "memory") and amount != "0"}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if old is None:
        return _on_create(new)
    if subresource == "status":
        return podchange.status_causes(new, old)
    if subresource == "ephemeralcontainers":
        return podchange.ephemeral_causes(new, old)
    if subresource == "resize":
        return podchange.resize_causes(new, old)
    if new["spec"] == old["spec"]:
        return []
    return podspec.causes(new["spec"], "spec") + podchange.causes(new, old)


def _on_create(pod: Document) -> list[Cause]:
    spec = pod["spec"]
    found = podspec.causes(spec, "spec") + _only_for_pods(spec)
    if spec.get("ephemeralContainers"):
        found.append(complaints.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        found.append(complaints.forbidden("spec.nodeName", why))
    return found


def _only_for_pods(spec: Document) -> list[Cause]:
    found: list[Cause] = []
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                found.append(complaints.invalid(f"spec.{part}[{index}].image", image, why))
    return found


def grace(pod: Document, asked: int | None) -> int:
    """Seconds between the request to stop and the end: none for a pod that never ran or no longer runs."""
    if not dig(pod, "spec", "nodeName") or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    seconds = dig(pod, "spec", "terminationGracePeriodSeconds", default=30) if asked is None else asked
    return int(seconds) if seconds >= 0 else 1


def bound(pod: Document, binding: Document, now: datetime) -> Document:
    """The pod with the node, labels and annotations a Binding gives it."""
    status = pod.get("status") or {}
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    metadata = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        if given := binding.get("metadata", {}).get(part):
            metadata[part] = {**(metadata.get(part) or {}), **given}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": binding["target"]["name"]},
        "status": {**status, "conditions": [*others, scheduled]},
    }


def _text(*path: str) -> Value:
    def read(pod: Document) -> str:
        return str(dig(pod, *path, default=""))

    return read


def _host_network(pod: Document) -> str:
    return "true" if dig(pod, "spec", "hostNetwork", default=False) else "false"


FIELDS: dict[str, Value] = {
    "spec.nodeName": _text("spec", "nodeName"),
    "spec.restartPolicy": _text("spec", "restartPolicy"),
    "spec.schedulerName": _text("spec", "schedulerName"),
    "spec.serviceAccountName": _text("spec", "serviceAccountName"),
    "spec.hostNetwork": _host_network,
    "status.phase": _text("status", "phase"),
    "status.podIP": _text("status", "podIP"),
    "status.nominatedNodeName": _text("status", "nominatedNodeName"),
}

RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.POD),
        default=default,
        prepare=prepare,
        check=check,
        warnings=podview.warnings,
        fields=FIELDS,
        accepted=frozenset({"status.podIPs"}),
        answers_object=True,
        grace=grace,
        columns=podview.COLUMNS,
        row=podview.row,
    ),
)
