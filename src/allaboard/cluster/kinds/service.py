"""Service: defaults by type, addresses that stay once given, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, probes, shown
from allaboard.cluster.kinds.networks import NOT_AN_ADDRESS, is_address, network, reachable
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import label_causes, label_key
from allaboard.cluster.rules import Rules, built_in

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
NEAR = ("PreferClose", "PreferSameZone", "PreferSameNode")
WITH_PORTS = ("NodePort", "LoadBalancer")
HINTS, MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
LONGEST_AFFINITY = 86400
ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"


def is_headless(service: Document) -> bool:
    return bool(
        dig(service, "spec", "clusterIPs", default=[]) == ["None"] or dig(service, "spec", "clusterIP") == "None"
    )


def needs_health_check(spec: Document) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_reachable(spec: Document) -> bool:
    """Whether traffic from outside of the cluster can come in."""
    kind = spec.get("type")
    return kind in WITH_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def default(service: Document) -> Document:
    spec = {"sessionAffinity": "None", "type": "ClusterIP", **(service.get("spec") or {})}
    kind = spec["type"]
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif (
        spec["sessionAffinity"] == "ClientIP"
        and dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if spec.get("ports"):
        spec["ports"] = [_port(port) for port in spec["ports"]]
    if is_reachable(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", *WITH_PORTS):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    return {**service, "spec": spec, "status": _status(service.get("status") or {})}


def _port(port: Document) -> Document:
    filled = {"protocol": "TCP", **port}
    if filled.get("targetPort") in (None, "", 0):
        filled["targetPort"] = port.get("port", 0)
    return filled


def _status(status: Document) -> Document:
    balancer = status.get("loadBalancer") or {}
    if balancer.get("ingress"):
        balancer = {**balancer, "ingress": [_ingress(entry) for entry in balancer["ingress"]]}
    return {**status, "loadBalancer": balancer}


def _ingress(entry: Document) -> Document:
    return {"ipMode": "VIP", **entry} if entry.get("ip") else entry


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        return {**new, "status": {"loadBalancer": {}}}
    if subresource == "status":
        return {**new, "spec": old["spec"]}
    status = old.get("status", {})
    if dig(new, "spec", "type") != "LoadBalancer":
        status = {**status, "loadBalancer": {}}
    return {**new, "status": status}


# Rules


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    spec = new["spec"]
    if subresource == "status":
        ingress = dig(new, "status", "loadBalancer", "ingress")
        if ingress and spec.get("type") != "LoadBalancer":
            why = "may only be used when `spec.type` is 'LoadBalancer'"
            return [complaints.forbidden("status.loadBalancer.ingress", why)]
        return []
    found = _kind(new, spec) + _ports(spec)
    found += label_causes(spec.get("selector") or {}, "spec.selector")
    found += containers.one_of(spec, "sessionAffinity", ("ClientIP", "None"), "spec")
    seconds = dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
    if seconds is not None and not 0 < seconds <= LONGEST_AFFINITY:
        why = f"must be greater than 0 and less than {LONGEST_AFFINITY}"
        found.append(complaints.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why))
    found += _addresses(spec)
    if spec.get("type") not in TYPES:
        found.append(complaints.not_supported("spec.type", spec.get("type", ""), TYPES))
    found += _traffic(spec) + _balancing(spec)
    return found if old is None else found + _settled(new, old)


def _kind(service: Document, spec: Document) -> list[Cause]:
    kind, found, headless = spec.get("type"), list[Cause](), is_headless(service)
    if not spec.get("ports") and not headless and kind != "ExternalName":
        found.append(complaints.required("spec.ports"))
    if kind in WITH_PORTS and headless:
        why = f"may not be set to 'None' for {kind} services"
        found.append(complaints.invalid("spec.clusterIPs[0]", "None", why))
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key):
                found.append(complaints.forbidden(f"spec.{key}", "may not be set for ExternalName services"))
        name = (spec.get("externalName") or "").removesuffix(".")
        if not name:
            return [*found, complaints.required("spec.externalName")]
        found += complaints.all_invalid("spec.externalName", name, names.dns_subdomain(name))
    return found


def _ports(spec: Document) -> list[Cause]:
    ports, found, seen = spec.get("ports") or [], list[Cause](), set[str]()
    for index, port in enumerate(ports):
        found += _one_port(port, seen, f"spec.ports[{index}]", must_be_named=len(ports) > 1)
        if spec.get("type") == "ClusterIP" and port.get("nodePort"):
            why = "may not be used when `type` is 'ClusterIP'"
            found.append(complaints.forbidden(f"spec.ports[{index}].nodePort", why))
    return found + _repeated(ports)


def _one_port(port: Document, seen: set[str], here: str, *, must_be_named: bool) -> list[Cause]:
    name, found = port.get("name") or "", list[Cause]()
    if must_be_named and not name:
        found.append(complaints.required(f"{here}.name"))
    elif name:
        found += complaints.all_invalid(f"{here}.name", name, names.dns_label(name))
        if name in seen:
            found.append(complaints.duplicate(f"{here}.name", name))
        seen.add(name)
    found += probes.port_causes(port.get("port", 0), f"{here}.port")
    found += containers.one_of(port, "protocol", containers.PROTOCOLS, here)
    found += probes.port_causes(port.get("targetPort", 0), f"{here}.targetPort")
    if (protocol := port.get("appProtocol")) is not None:
        found += complaints.all_invalid(f"{here}.appProtocol", protocol, label_key(protocol))
    return found


def _repeated(ports: Documents) -> list[Cause]:
    found: list[Cause] = []
    for index, port in enumerate(ports):
        earlier = ports[:index]
        node, protocol = port.get("nodePort"), port.get("protocol")
        if node and any(p.get("nodePort") == node and p.get("protocol") == protocol for p in earlier):
            found.append(complaints.duplicate(f"spec.ports[{index}].nodePort", node))
        if any(p.get("port") == port.get("port") and p.get("protocol") == protocol for p in earlier):
            # Upstream prints the Go struct.
            shape = f'{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{port.get("port")},'
            words = f'Duplicate value: {shape}"TargetPort":0,"NodePort":0}}'
            found.append(Cause("FieldValueDuplicate", f"spec.ports[{index}]", words))
    return found


def _addresses(spec: Document) -> list[Cause]:
    if spec.get("type") == "ExternalName":
        return []
    given, first, found = spec.get("clusterIPs") or [], spec.get("clusterIP") or "", list[Cause]()
    if first and given and given[0] != first:
        found.append(complaints.invalid("spec.clusterIPs", given, "first value must match `clusterIP`"))
    if not first and given:
        why = "must be empty when `clusterIP` is not specified"
        found.append(complaints.invalid("spec.clusterIPs", given, why))
    if given[:1] == ["None"] and len(given) > 1:
        found.append(complaints.invalid("spec.clusterIPs", given, "'None' must be the first and only value"))
    for index, address in enumerate(given):
        if not is_address(address) and (index, address) != (0, "None"):
            found.append(complaints.invalid(f"spec.clusterIPs[{index}]", address, NOT_AN_ADDRESS))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            found.append(complaints.not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6")))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in ("PreferDualStack", "RequireDualStack", "SingleStack"):
        choices = ("PreferDualStack", "RequireDualStack", "SingleStack")
        found.append(complaints.not_supported("spec.ipFamilyPolicy", policy, choices))
    for index, address in enumerate(spec.get("externalIPs") or ()):
        found += reachable(address, f"spec.externalIPs[{index}]")
    return found + _stacks(spec, given)


def _stacks(spec: Document, given: list[str]) -> list[Cause]:
    """There is one kind of addresses here, IPv4; a service can have one."""
    families, policy, found = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy"), list[Cause]()
    for index, family in enumerate(families):
        if family in families[:index]:
            found.append(complaints.duplicate(f"spec.ipFamilies[{index}]", family))
    if len(set(families)) > 1 and policy in (None, "SingleStack"):
        why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        found.append(complaints.invalid("spec.ipFamilyPolicy", "SingleStack", why))
    elif policy == "RequireDualStack" and (spec.get("selector") or given[:1] != ["None"]):
        why = "this cluster is not configured for dual-stack services"
        found.append(complaints.invalid("spec.ipFamilyPolicy", policy, why))
    elif families[:1] == ["IPv6"]:
        found.append(complaints.invalid("spec.ipFamilies[0]", "IPv6", "not configured on this cluster"))
    if len(given) > 1 and all(is_address(address) and ":" not in address for address in given):
        why = "may specify no more than one IP for each IP family"
        found.append(complaints.invalid("spec.clusterIPs", given, why))
    return found


def _traffic(spec: Document) -> list[Cause]:
    kind, outside, inside = spec.get("type"), spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    reachable, found = kind in WITH_PORTS or bool(spec.get("externalIPs")), list[Cause]()
    if outside and not reachable:
        why = "may only be set for externally-accessible services"
        found.append(complaints.invalid("spec.externalTrafficPolicy", outside, why))
    elif reachable and outside and outside not in ("Cluster", "Local"):
        found.append(complaints.not_supported("spec.externalTrafficPolicy", outside, ("Cluster", "Local")))
    if inside is not None and inside not in ("Cluster", "Local"):
        found.append(complaints.not_supported("spec.internalTrafficPolicy", inside, ("Cluster", "Local")))
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        found.append(complaints.forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED))
    return found


def _balancing(spec: Document) -> list[Cause]:
    """What only services with a load balancer in front of them have."""
    balanced, found = spec.get("type") == "LoadBalancer", list[Cause]()
    if spec.get("loadBalancerClass") is not None:
        name = spec["loadBalancerClass"]
        words = label_key(name) if balanced else ()
        found += complaints.all_invalid("spec.loadBalancerClass", name, words)
        found += [] if balanced else [complaints.forbidden("spec.loadBalancerClass", ONLY_BALANCED)]
    if ranges := spec.get("loadBalancerSourceRanges"):
        found += [] if balanced else [complaints.forbidden("spec.LoadBalancerSourceRanges", ONLY_BALANCED)]
        for index, text in enumerate(ranges):
            found += network(text.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    port = spec.get("healthCheckNodePort") or 0
    if port and not needs_health_check(spec):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(complaints.invalid("spec.healthCheckNodePort", port, why))
    near = spec.get("trafficDistribution")
    if near is not None and near not in NEAR:
        found.append(complaints.not_supported("spec.trafficDistribution", near, NEAR))
    return found


def warnings(new: Document, old: Document | None) -> list[str]:
    spec, found = new.get("spec") or {}, list[str]()
    kind, outside, headless = spec.get("type"), spec.get("externalIPs") or [], is_headless(new)
    if HINTS in (new["metadata"].get("annotations") or {}):
        found.append(f"annotation {HINTS} is deprecated, please use {MODE} instead")
    if headless:
        said = {"loadBalancerIP": spec.get("loadBalancerIP"), "externalIPs": outside}
        said["SessionAffinity"] = spec.get("sessionAffinity") != "None"
        found += [f"spec.{key} is ignored for headless services" for key, value in said.items() if value]
    if outside and not headless and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if outside and kind == "ExternalName":
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.get("externalName") and kind != "ExternalName":
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _settled(new: Document, old: Document) -> list[Cause]:
    after, before = new["spec"], old["spec"]
    if "ExternalName" in (after.get("type"), before.get("type")) or (is_headless(new) and is_headless(old)):
        return []
    now, then = after.get("clusterIPs") or [], before.get("clusterIPs") or []
    if len(now) != len(then) or (after.get("clusterIP") and after["clusterIP"] != now[0]):
        return []
    return [
        complaints.invalid(f"spec.clusterIPs[{index}]", now, "may not change once set")
        for index, address in enumerate(then)
        if address != now[index]
    ]


# How it is shown


COLUMNS = (
    shown.NAME,
    column("Type", "How the service can be reached: from inside of the cluster only, through ports, or from outside."),
    column("Cluster-IP", "The address of the service inside of the cluster; None where names lead straight to pods."),
    column("External-IP", "Addresses outside of the cluster at which traffic for this service is accepted as well."),
    column("Port(s)", "The ports the service listens on, with the ports of the nodes that lead to it, and protocols."),
    shown.AGE,
    column(
        "Selector", "Which labels a pod carries for traffic of this service to be sent to it in the end.", wide=True
    ),
)


def row(service: Document, now: datetime) -> list[object]:
    spec = service.get("spec") or {}
    return [
        shown.name_of(service),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [shown.NONE])[0],
        _external(service, spec),
        shown.joined(_port_text(port) for port in spec.get("ports") or ()),
        shown.age_of(service, now),
        shown.pairs(spec.get("selector")),
    ]


def _external(service: Document, spec: Document) -> str:
    kind, given = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return shown.joined(given)
    ingress = dig(service, "status", "loadBalancer", "ingress", default=[])
    told = [str(entry.get("ip") or entry.get("hostname")) for entry in ingress]
    return ",".join(told + given) or "<pending>"


def _port_text(port: Document) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol')}"


def _address(service: Document) -> str:
    return str(dig(service, "spec", "clusterIP", default=""))


def _type(service: Document) -> str:
    return str(dig(service, "spec", "type", default=""))


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.SERVICE),
        generation=False,
        names=names.dns_label,
        default=default,
        prepare=prepare,
        check=check,
        warnings=warnings,
        fields={"spec.clusterIP": _address, "spec.type": _type},
        answers_object=True,
        columns=COLUMNS,
        row=row,
    ),
)
