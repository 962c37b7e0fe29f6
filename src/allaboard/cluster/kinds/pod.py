"""Pod: defaults, quality of service, what may change after creation, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names, quantity
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.api.labels import COMPLETION_INDEX
from allaboard.api.meta import stamp
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, gated, podchange, podnotes, podspec, podview, podwarnings, selected
from allaboard.cluster.molds import Molds
from allaboard.cluster.rules import Rules, Value, built_in
from allaboard.cluster.words import label, text


def default(pod: Document) -> Document:
    """What a Pod has beyond a template: links to services, and requests where only limits are given."""
    return _with_status({**pod, "spec": _default_spec(pod.get("spec") or {})})


def _default_spec(given: Document) -> Document:
    spec = podspec.default(given)
    spec.setdefault("enableServiceLinks", True)
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = containers.default_of_pod(spec[part])
    if spec.get("hostNetwork"):
        spec["containers"] = [_host_ports(container) for container in spec["containers"]]
    return spec


def _with_status(pod: Document) -> Document:
    status = pod.get("status") or {}
    return {**pod, "status": _addressed(status) if status.get("podIP") or status.get("podIPs") else status}


def _addressed(status: Document) -> Document:
    """One address and the first of a list are the same thing; where they differ, the one counts."""
    one, listed = status.get("podIP"), status.get("podIPs") or []
    if one and (not listed or listed[0].get("ip") != one):
        return {**status, "podIPs": [{"ip": one}]}
    return {**status, "podIP": listed[0].get("ip", "")} if listed and not one else status


def _together(spec: Document) -> Document:
    """What a pod asks for as a whole: its containers' requests, else its own limits."""
    own, listed = spec["resources"], spec["containers"]
    limits = {**(own.get("limits") or {})}
    requests = {**(own.get("requests") or {})}
    for side, target in (("limits", limits), ("requests", requests)):
        sums = quantity.total([quantity.resources(dig(c, "resources", side)) for c in listed])
        for name, amount in sums.items():
            if name.startswith("hugepages-") or (side == "requests" and name in ("cpu", "memory")):
                target.setdefault(name, str(amount))
    for name, amount in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, amount)
    return {**own} | ({"limits": limits} if limits else {}) | ({"requests": requests} if requests else {})


def _host_ports(container: Document) -> Document:
    ports = container.get("ports")
    if not ports:
        return container
    return {**container, "ports": [port if port.get("hostPort") else _on_host(port) for port in ports]}


def _on_host(port: Document) -> Document:
    return {**port, "hostPort": port.get("containerPort")} if port.get("containerPort") else port


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        new = {**new, "spec": gated.open_only(new["spec"])}
        new = selected.merged(podnotes.settled(new))
        if new["spec"].get("terminationGracePeriodSeconds", 0) < 0:
            new = {**new, "spec": {**new["spec"], "terminationGracePeriodSeconds": 1}}
        if new["spec"].get("resources"):
            new = {**new, "spec": {**new["spec"], "resources": _together(new["spec"])}}
        return {**new, "status": first_status(new)}
    if subresource == "status":
        return _status_only(new, old)
    return {**new, "status": old.get("status", {})}


def first_status(pod: Document) -> Document:
    status: Document = {"phase": "Pending", "qosClass": podspec.quality(pod["spec"])}
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
    metadata.pop("ownerReferences", None)
    if "ownerReferences" in old["metadata"]:
        metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
    status = {**(new.get("status") or {})}
    if quality_then := dig(old, "status", "qosClass"):
        status["qosClass"] = quality_then
    return {**old, "metadata": metadata, "status": status}


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
    found = podspec.causes(spec, "spec") + _only_for_pods(spec) + podnotes.causes(pod)
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


def bound(pod: Document, node: str, now: datetime) -> Document:
    """The pod on its node."""
    status = pod.get("status") or {}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp(now)}
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    conditions = [*others, scheduled]
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {**status, "conditions": conditions}}


def marked(pod: Document, binding: Document) -> Document:
    """The pod with the labels and annotations that the metadata of a Binding gives it."""
    given = {part: binding[part] for part in ("annotations", "labels") if binding.get(part)}
    if not given:
        return pod
    worn = {part: {**(pod["metadata"].get(part) or {}), **more} for part, more in given.items()}
    return {**pod, "metadata": {**pod["metadata"], **worn}}


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
        warnings=podwarnings.warnings,
        fields=FIELDS,
        accepted=frozenset({"status.podIPs"}),
        answers_object=True,
        grace=grace,
        columns=podview.COLUMNS,
        row=podview.row,
        molds=Molds("hostname", rest=_with_status),
        own_words={
            "metadata": {"labels": {COMPLETION_INDEX: label}, "annotations": {COMPLETION_INDEX: text}},
            "spec": {"hostname": lambda word: word != "" and not names.dns_label(word)},
        },
    ),
)
