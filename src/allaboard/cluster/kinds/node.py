"""Node: taints, addresses and capacity; what is settled once it is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, dig, without
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import placement, resources, shown
from allaboard.cluster.kinds.networks import network
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import label_value
from allaboard.cluster.rules import Rules, built_in

ROLE = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"


def default(node: Document) -> Document:
    """What a node has it can give, until it says less; one range of addresses is a list of one."""
    status, spec = node.get("status") or {}, node.get("spec") or {}
    capacity = status.get("capacity")
    if capacity and not status.get("allocatable"):
        status = {**status, "allocatable": capacity}
    if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
        spec = {**spec, "podCIDRs": [spec["podCIDR"]]}
    elif spec.get("podCIDRs") and not spec.get("podCIDR"):
        spec = {**spec, "podCIDR": spec["podCIDRs"][0]}
    return {**node, "spec": spec, "status": status}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    """A node may be born with a status: kubelets register themselves in one write."""
    new = without(new, "spec", "configSource")
    if old is None:
        return new
    if subresource == "status":
        return {**new, "spec": old.get("spec", {})}
    return {**new, "status": old.get("status", {})}


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    found = taints(dig(new, "spec", "taints", default=[]), "metadata.taints")
    for index, text in enumerate(dig(new, "spec", "podCIDRs", default=[])):
        found += network(text, f"spec.podCIDRs[{index}]")
    ranges = dig(new, "spec", "podCIDRs", default=[])
    if len(ranges) > 1 and len({":" in text for text in ranges}) < len(ranges):
        why = "may specify no more than one CIDR for each IP family"
        found.append(complaints.invalid("spec.podCIDRs", ranges, why))
    for part in ("capacity", "allocatable"):
        for name, amount in dig(new, "status", part, default={}).items():
            words = resources.amount_complaints(name, str(amount))
            found += complaints.all_invalid(f"status.{part}.{name}", amount, words)
    listed = dig(new, "status", "addresses", default=[])
    for index, address in enumerate(listed):
        if address in listed[:index]:
            value = complaints.Ordered({"Type": address.get("type", ""), "Address": address.get("address", "")})
            found.append(complaints.duplicate(f"status.addresses[{index}]", value))
    if old is None:
        return found
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if before.get("providerID") and after.get("providerID") != before["providerID"]:
        # Upstream prints no value here.
        did = "modified" if after.get("providerID") else "cleared"
        found.append(complaints.invalid("spec.providerID", None, f"field cannot be {did} once set"))
    if after.get("externalID") != before.get("externalID"):
        found.append(complaints.forbidden("spec.externalID", "may not be updated"))
    if before.get("podCIDRs") and after.get("podCIDRs") != before["podCIDRs"]:
        why = 'node updates may not change podCIDR except from "" to valid'
        found.append(complaints.forbidden("spec.podCIDRs", why))
    return found


def warnings(new: Document, old: Document | None) -> list[str]:
    given = dig(new, "spec", "externalID")
    return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"] if given else []


def taints(listed: Documents, field: str) -> list[Cause]:
    seen, found = set[tuple[str, str]](), list[Cause]()
    for index, taint in enumerate(listed):
        here, key, effect = f"{field}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        found += placement.label_name(key, f"{here}.key")
        if words := label_value(taint.get("value") or ""):
            found.append(complaints.invalid(f"{here}.value", taint.get("value"), ";".join(words)))
        if not effect:
            found.append(complaints.required(f"{here}.effect"))
        elif effect not in placement.EFFECTS:
            found.append(complaints.not_supported(f"{here}.effect", effect, placement.EFFECTS))
        if (key, effect) in seen:
            found.append(_repeated(taint, here))
        seen.add((key, effect))
    return found


def _repeated(taint: Document, here: str) -> Cause:
    # Upstream prints the Go struct.
    words = complaints.shown([taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")])[1:-1].split(",")
    value = f'{{"Key":{words[0]},"Value":{words[1]},"Effect":{words[2]},"TimeAdded":null}}'
    return Cause("FieldValueDuplicate", here, f"Duplicate value: {value}: taints must be unique by key and effect pair")


COLUMNS = (
    shown.NAME,
    column("Status", "The status of the node"),
    column("Roles", "The roles of the node"),
    shown.AGE,
    column("Version", "Kubelet Version reported by the node."),
    column("Internal-IP", "The address at which other nodes of the same cluster can reach this one.", wide=True),
    column("External-IP", "The address at which the world outside of the cluster can reach this node.", wide=True),
    column("OS-Image", "The operating system of the node, as its release file calls it in plain words.", wide=True),
    column(
        "Kernel-Version", "The version of the kernel that the node runs, as the kernel itself reports it.", wide=True
    ),
    column(
        "Container-Runtime", "What runs the containers on this node, and which version of it is installed.", wide=True
    ),
)


def row(node: Document, now: datetime) -> list[object]:
    told = dig(node, "status", "nodeInfo", default={})
    return [
        shown.name_of(node),
        _status(node),
        shown.joined(sorted(_roles(node))),
        shown.age_of(node, now),
        told.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        told.get("osImage") or shown.UNKNOWN,
        told.get("kernelVersion") or shown.UNKNOWN,
        told.get("containerRuntimeVersion") or shown.UNKNOWN,
    ]


def _status(node: Document) -> str:
    ready = [c.get("status") for c in dig(node, "status", "conditions", default=[]) if c.get("type") == "Ready"]
    words = ["Unknown" if not ready else "Ready" if ready[-1] == "True" else "NotReady"]
    return ",".join([*words, "SchedulingDisabled"] if dig(node, "spec", "unschedulable") else words)


def _roles(node: Document) -> set[str]:
    labels = node["metadata"].get("labels") or {}
    named = {key.removeprefix(ROLE) for key in labels if key.startswith(ROLE) and key != ROLE}
    return named | ({labels[ROLE_LABEL]} if labels.get(ROLE_LABEL) else set())


def _address(node: Document, kind: str) -> str:
    listed = dig(node, "status", "addresses", default=[])
    return next((str(a.get("address")) for a in listed if a.get("type") == kind), shown.NONE)


def _unschedulable(node: Document) -> str:
    return "true" if dig(node, "spec", "unschedulable", default=False) else "false"


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.NODE),
        generation=False,
        default=default,
        prepare=prepare,
        check=check,
        warnings=warnings,
        fields={"spec.unschedulable": _unschedulable},
        columns=COLUMNS,
        row=row,
    ),
)
