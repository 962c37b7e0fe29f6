"""What may change about a pod once it exists, through each of its doors."""

from __future__ import annotations

from allaboard.api import names
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, difference, placement, volumes
from allaboard.cluster.kinds.networks import NOT_AN_ADDRESS, is_address
from allaboard.cluster.kinds.podspec import quality
from allaboard.schema import gostructs

CHANGEABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
ADDED_OR_REMOVED = "pod updates may not add or remove containers"


def causes(new: Document, old: Document) -> list[Cause]:
    """Every forbidden change of a pod's spec."""
    after, before = new["spec"], old["spec"]
    found: list[Cause] = []
    for part in ("containers", "initContainers"):
        if len(after.get(part) or ()) != len(before.get(part) or ()):
            return [*found, complaints.forbidden(f"spec.{part}", ADDED_OR_REMOVED)]
        found += _images(after.get(part) or [], f"spec.{part}")
    broken, stop = _deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    found += broken
    if stop:
        return found
    found += _tolerations(after.get("tolerations") or [], before.get("tolerations") or [])
    found += _gates(after.get("schedulingGates") or [], before.get("schedulingGates") or [])
    munged, broken = _as_before(after, before)
    found += broken
    if _differs(munged, before):
        why = f"pod updates may not change fields other than {','.join(CHANGEABLE)}"
        found.append(complaints.forbidden("spec", f"{why}\n{difference.between('core.PodSpec', before, munged)}"))
    return found


def _images(listed: Documents, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, container in enumerate(listed):
        image = container.get("image") or ""
        if image != image.strip():
            why = "must not have leading or trailing whitespace"
            found.append(complaints.invalid(f"{field}[{index}].image", image, why))
    return found


def _deadline(after: int | None, before: int | None) -> tuple[list[Cause], bool]:
    field = "spec.activeDeadlineSeconds"
    if after is None:
        why = "must not update from a positive integer to nil value"
        return ([complaints.invalid(field, None, why)] if before is not None else []), False
    if not 0 <= after <= 2147483647:
        return [complaints.invalid(field, after, "must be between 0 and 2147483647, inclusive")], True
    if before is not None and before < after:
        return [complaints.invalid(field, after, "must be less than or equal to previous value")], True
    return [], False


def _tolerations(after: Documents, before: Documents) -> list[Cause]:
    def timeless(toleration: Document) -> Document:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [timeless(toleration) for toleration in after]
    if any(timeless(toleration) not in kept for toleration in before):
        why = "existing toleration can not be modified except its tolerationSeconds"
        return [complaints.forbidden("spec.tolerations", why)]
    return placement.tolerations(after, "spec.tolerations")


def _gates(after: Documents, before: Documents) -> list[Cause]:
    known = {gate.get("name") for gate in before}
    found = []
    for index, gate in enumerate(after):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(complaints.forbidden(f"spec.schedulingGates[{index}].name", why))
    return found


def _as_before(after: Document, before: Document) -> tuple[Document, list[Cause]]:
    """The new spec with everything taken back that was allowed to change."""
    munged = dict(after)
    for part in ("containers", "initContainers"):
        if after.get(part):
            pairs = zip(after[part], before[part], strict=True)
            munged[part] = [{**now, "image": then.get("image")} for now, then in pairs]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take_back(munged, before, key)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if not before.get("schedulingGates"):
        return munged, []
    found = _node_selector(munged.get("nodeSelector") or {}, before.get("nodeSelector") or {})
    _take_back(munged, before, "nodeSelector")
    found += _node_affinity(munged, before)
    return munged, found


def _take_back(munged: Document, before: Document, key: str) -> None:
    munged.pop(key, None)
    if key in before:
        munged[key] = before[key]


def _node_selector(after: Document, before: Document) -> list[Cause]:
    """While a gate holds, the selector may grow."""
    if all(after.get(key) == value for key, value in before.items()):
        return []
    why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [complaints.invalid("spec.nodeSelector", after, why)]


def _node_affinity(munged: Document, before: Document) -> list[Cause]:
    after_node, before_node = dig(munged, "affinity", "nodeAffinity"), dig(before, "affinity", "nodeAffinity")
    if after_node == before_node:
        return []
    required = placement.REQUIRED
    found: list[Cause] = []
    terms = dig(before_node, required, "nodeSelectorTerms", default=[])
    now = dig(after_node, required, "nodeSelectorTerms", default=[])
    where = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
    if terms and len(now) != len(terms):
        shape = complaints.Ordered([gostructs.printed("core.NodeSelectorTerm", term) for term in now] or None)
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.append(complaints.invalid(where, shape, why))
    else:
        for index, (after, then) in enumerate(zip(now, terms, strict=False)):
            if not _tightens(after, then):
                value = complaints.struct("core.NodeSelectorTerm", after)
                why = "only additions are allowed (no mutations or deletions)"
                found.append(complaints.invalid(f"{where}[{index}]", value, why))
    affinity = {**(munged.get("affinity") or {})}
    affinity.pop("nodeAffinity", None)
    if before_node is not None:
        affinity["nodeAffinity"] = before_node
    munged.pop("affinity", None)
    if affinity or before.get("affinity") is not None:
        munged["affinity"] = affinity
    return found


def _tightens(after: Document, before: Document) -> bool:
    parts = ("matchExpressions", "matchFields")
    return all((after.get(part) or [])[: len(before.get(part) or [])] == (before.get(part) or []) for part in parts)


def _differs(after: Document, before: Document) -> bool:
    return any(after.get(key) != before.get(key) for key in after.keys() | before.keys())


# Status


def status_causes(new: Document, old: Document) -> list[Cause]:
    after, before = new.get("status") or {}, old.get("status") or {}
    found: list[Cause] = []
    policy = dig(new, "spec", "restartPolicy", default="Always")
    if policy != "Always":
        now, then = after.get("containerStatuses") or [], before.get("containerStatuses") or []
        found += _no_resurrection(now, then, policy)
    found += _conditions(after.get("conditions") or []) + _addresses(after)
    name = after.get("nominatedNodeName") or ""
    if name and name != before.get("nominatedNodeName"):
        if dig(new, "spec", "nodeName"):
            why = "may not be set on pods that are already bound to a node"
            found.append(complaints.forbidden("status.nominatedNodeName", why))
        found += complaints.all_invalid("status.nominatedNodeName", name, names.dns_subdomain(name))
    if (after.get("observedGeneration") or 0) < 0:
        why = "must be a non-negative integer"
        found.append(complaints.invalid("status.observedGeneration", after["observedGeneration"], why))
    return found


def _addresses(status: Document) -> list[Cause]:
    """Where a pod is: addresses, no more than one of each family."""
    found: list[Cause] = []
    for key in ("podIPs", "hostIPs"):
        listed = [entry.get("ip") or "" for entry in status.get(key) or ()]
        for index, text in enumerate(listed):
            if not is_address(text):
                where = f"status.podIPs[{index}]" if key == "podIPs" else f"status.hostIPs[{index}].ip"
                found.append(complaints.invalid(where, text, NOT_AN_ADDRESS))
        if len(listed) > 1 and len({":" in text for text in listed}) < len(listed):
            shape = complaints.Ordered([{"IP": text} for text in listed])
            why = "may specify no more than one IP for each IP family"
            found.append(complaints.invalid(f"status.{key}", shape, why))
    hosts = status.get("hostIPs") or []
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        found.append(complaints.invalid("status.hostIPs[0].ip", hosts[0].get("ip"), "must be equal to `hostIP`"))
    return found


def _no_resurrection(after: Documents, before: Documents, policy: str) -> list[Cause]:
    """Once a container is over for good, its status may not say that it runs."""
    found = []
    ended = {status.get("name"): dig(status, "state", "terminated") for status in before}
    for index, status in enumerate(after):
        then = ended.get(status.get("name"))
        if then is None or dig(status, "state", "terminated") is not None:
            continue
        if policy == "OnFailure" and then.get("exitCode"):
            continue
        why = "may not be transitioned to non-terminated state"
        found.append(complaints.forbidden(f"status.containerStatuses[{index}].state", why))
    return found


def _conditions(listed: Documents) -> list[Cause]:
    found: list[Cause] = []
    for index, condition in enumerate(listed):
        kind = condition.get("type") or ""
        found += complaints.all_invalid(f"status.conditions[{index}].Type", kind, names.qualified_name(kind))
    return found


# Ephemeral containers and resizing


def ephemeral_causes(new: Document, old: Document) -> list[Cause]:
    after, before = new["spec"].get("ephemeralContainers") or [], old["spec"].get("ephemeralContainers") or []
    field = "spec.ephemeralContainers"
    mountable, _ = volumes.causes(new["spec"].get("volumes") or [], "spec.volumes")
    found = containers.ephemeral(new["spec"], mountable, field)
    known = {container.get("name"): container for container in after}
    for container in before:
        name = container.get("name")
        if name not in known:
            why = f"existing ephemeral containers {complaints.quoted(str(name))} may not be removed\n"
            found.append(complaints.forbidden(field, why))
        elif known[name] != container:
            why = f"existing ephemeral containers {complaints.quoted(str(name))} may not be changed\n"
            found.append(complaints.forbidden(field, why))
    return found


def resize_causes(new: Document, old: Document) -> list[Cause]:
    """Only the resources of containers may change."""
    munged = dict(new["spec"])
    for part in ("containers", "initContainers"):
        then = {c.get("name"): c.get("resources") for c in old["spec"].get(part) or ()}
        if munged.get(part):
            munged[part] = [{**c, "resources": then.get(c.get("name"), c.get("resources"))} for c in munged[part]]
    if _differs(munged, old["spec"]):
        return [complaints.forbidden("spec", "only cpu and memory resources are mutable")]
    before = dig(old, "status", "qosClass", default="")
    if quality(new["spec"]) != before:
        return [complaints.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")]
    return []
