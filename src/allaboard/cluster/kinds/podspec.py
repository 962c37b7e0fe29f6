"""What a pod spec may say, in a Pod or in the template of a Job: defaults and rules."""

from __future__ import annotations

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, placement, security, volumes
from allaboard.cluster.metadata import annotation_causes, label_causes, label_key

DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION = ("PreemptLowerPriority", "Never")


def default(spec: Document) -> Document:
    """The spec as every reader may rely on it."""
    filled = {**DEFAULTS, **spec}
    if filled.get("securityContext") is None:
        filled["securityContext"] = {}
    filled["containers"] = containers.default_all(spec.get("containers") or [])
    for more in ("initContainers", "ephemeralContainers"):
        if spec.get(more):
            filled[more] = containers.default_all(spec[more])
    if spec.get("volumes"):
        filled["volumes"] = volumes.default_all(spec["volumes"])
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The old name of the field always mirrors the new one.
        filled["serviceAccountName"] = filled["serviceAccount"] = account
    return filled


def default_template(template: Document) -> Document:
    return {**template, "metadata": template.get("metadata") or {}, "spec": default(template.get("spec") or {})}


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


def causes(spec: Document, field: str) -> list[Cause]:
    """Every breach in a pod spec."""
    mountable, found = volumes.causes(spec.get("volumes") or [], f"{field}.volumes")
    found += containers.regular(spec, mountable, f"{field}.containers")
    found += containers.initial(spec, mountable, f"{field}.initContainers")
    found += _host_network(spec, field)
    found += containers.one_of(spec, "restartPolicy", RESTART_POLICIES, field)
    found += containers.one_of(spec, "dnsPolicy", DNS_POLICIES, field)
    if labels := spec.get("nodeSelector"):
        found += label_causes(labels, f"{field}.nodeSelector")
    found += security.pod(spec.get("securityContext") or {}, spec, f"{field}.securityContext")
    found += placement.affinity(spec.get("affinity"), f"{field}.affinity")
    found += _dns_config(spec, f"{field}.dnsConfig")
    found += _gates(spec, field)
    found += placement.spread(spec.get("topologySpreadConstraints") or [], f"{field}.topologySpreadConstraints")
    found += _names(spec, field)
    found += _numbers(spec, field)
    found += placement.tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    return found + _host_aliases(spec, f"{field}.hostAliases")


def _host_network(spec: Document, field: str) -> list[Cause]:
    if not spec.get("hostNetwork"):
        return []
    found: list[Cause] = []
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if host and host != port.get("containerPort"):
                why = "must match `containerPort` when `hostNetwork` is true"
                found.append(complaints.invalid(f"{field}.containers[{index}].ports[{place}].hostPort", host, why))
    return found


def _dns_config(spec: Document, field: str) -> list[Cause]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [complaints.required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [complaints.required(f"{field}.nameservers", why)]
    if config is None:
        return []
    found: list[Cause] = []
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        found.append(complaints.invalid(f"{field}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(complaints.required(f"{field}.options[{index}]", "must not be empty"))
    return found


def _gates(spec: Document, field: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where, name = f"{field}.readinessGates[{index}].conditionType", gate.get("conditionType") or ""
        found += complaints.all_invalid(where, name, label_key(name))
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where, name = f"{field}.schedulingGates[{index}]", gate.get("name") or ""
        found += complaints.all_invalid(where, name, label_key(name))
        if name in seen:
            found.append(complaints.duplicate(where, name))
        seen.add(name)
    return found


NAMED = {
    "serviceAccountName": names.dns_subdomain,
    "nodeName": names.dns_subdomain,
    "hostname": names.dns_label,
    "subdomain": names.dns_label,
    "priorityClassName": names.dns_subdomain,
    "runtimeClassName": names.dns_subdomain,
}


def _names(spec: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key, rule in NAMED.items():
        if (name := spec.get(key)) or (name == "" and key == "runtimeClassName"):
            found += complaints.all_invalid(f"{field}.{key}", name, rule(name))
    return found


def _numbers(spec: Document, field: str) -> list[Cause]:
    deadline, preemption = spec.get("activeDeadlineSeconds"), spec.get("preemptionPolicy")
    found: list[Cause] = []
    if deadline is not None and not 1 <= deadline <= 2147483647:
        why = "must be between 1 and 2147483647, inclusive"
        found.append(complaints.invalid(f"{field}.activeDeadlineSeconds", deadline, why))
    if preemption is not None and preemption not in PREEMPTION:
        found.append(complaints.not_supported(f"{field}.preemptionPolicy", preemption, PREEMPTION))
    return found


def _host_aliases(spec: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        for place, name in enumerate(alias.get("hostnames") or ()):
            found += complaints.all_invalid(f"{field}[{index}].hostnames[{place}]", name, names.dns_subdomain(name))
    return found


def template_causes(template: Document, field: str) -> list[Cause]:
    """Every breach in a pod template."""
    metadata = template.get("metadata") or {}
    found = label_causes(metadata.get("labels") or {}, f"{field}.labels")
    found += annotation_causes(metadata.get("annotations") or {}, f"{field}.annotations")
    found += causes(template.get("spec") or {}, f"{field}.spec")
    if (template.get("spec") or {}).get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        found.append(complaints.forbidden(f"{field}.spec.ephemeralContainers", why))
    return found
