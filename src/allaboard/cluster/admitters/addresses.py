"""Services get an address and ports that nobody else has, and keep what they have got."""

from __future__ import annotations

import ipaddress
from hashlib import sha256

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, dig
from allaboard.cluster import complaints, refusals
from allaboard.cluster.admission import Request, View
from allaboard.cluster.kinds.networks import is_address
from allaboard.cluster.kinds.service import WITH_PORTS, is_headless, needs_health_check

RANGE = ipaddress.ip_network("10.96.0.0/16")
RESERVED = 256  # the first addresses are for those who ask for one by number
PORTS = range(30000, 32768)
# Whoever lists the endpoints of a headless service by hand may use both kinds of addresses.
EITHER = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
FAMILY = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}


class ServiceAddresses:
    """Upstream allocates in the registry, after admission; so does this hook, the last that may change a service."""

    name = "ServiceAddresses"
    prefix = False
    kinds = (kinds.SERVICE,)
    operations = ("CREATE", "UPDATE")

    def mutate(self, request: Request, view: View) -> Document | None:
        service = request.new or {}
        spec = dict(service["spec"])
        if request.old is not None:
            spec = carried_over(spec, request.old["spec"])
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if request.old is not None and spec.get("type") == "ExternalName":
            spec = _given_up(spec, request.old["spec"])
        if spec.get("type") == "ExternalName":
            return {**service, "spec": spec}
        headless = is_headless({"spec": spec})
        spec = {**(EITHER if headless and not spec.get("selector") else FAMILY), **spec}
        if headless and spec.get("type") not in WITH_PORTS:
            return {**service, "spec": spec}  # it takes nothing that others could have
        others = [s for s in view.list(kinds.SERVICE) if not _same(s, request)]
        if not headless:
            self._address(request, spec, others)
        if spec.get("type") in WITH_PORTS:
            _ports(request, spec, others)
        return {**service, "spec": spec}

    def _address(self, request: Request, spec: Document, others: Documents) -> None:
        taken = {address for other in others for address in dig(other, "spec", "clusterIPs", default=[])}
        asked = spec.get("clusterIP")
        if not asked:
            address = str(_free_address(dig(request.new, "metadata", "uid", default=""), taken))
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
        elif is_address(asked) and request.old is None and len(spec.get("clusterIPs") or ()) < 2:
            why = ""
            if ipaddress.ip_address(asked) not in RANGE:
                why = "the provided network does not match the current range"
            elif asked in taken:
                why = "provided IP is already allocated"
            if why:
                words = f"failed to allocate IP {asked}: {why}"
                cause = complaints.invalid("spec.clusterIPs", spec.get("clusterIPs") or [asked], words)
                raise refusals.invalid(kinds.SERVICE, request.key.name, [cause])


def _same(service: Document, request: Request) -> bool:
    metadata = service["metadata"]
    return bool(metadata.get("name") == request.key.name and metadata.get("namespace") == request.key.namespace)


def carried_over(spec: Document, before: Document) -> Document:
    """What was allocated stays unless the type gives it up. Upstream: patchAllocatedValues, dropTypeDependentFields."""
    kept = dict(spec)
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        # Whoever changes the one address means the list as well.
        kept["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not kept.get(key) and before.get(key):
                kept[key] = before[key]
    then = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or ()}
    if spec.get("type") in WITH_PORTS and before.get("type") in WITH_PORTS:
        kept["ports"] = [
            _with_port(port, then.get((port.get("port"), port.get("protocol")))) for port in kept.get("ports") or ()
        ]
    if needs_health_check(spec) and needs_health_check(before):
        kept.setdefault("healthCheckNodePort", before.get("healthCheckNodePort"))
    return _without_ports(kept, before)


def _given_up(spec: Document, before: Document) -> Document:
    """A service that becomes a mere name gives its addresses back."""
    kept = dict(spec)
    if before.get("type") != "ExternalName":
        if spec.get("clusterIPs") == before.get("clusterIPs"):
            kept.pop("clusterIP", None)
            kept.pop("clusterIPs", None)
        for key in ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(key) == before.get(key):
                kept.pop(key, None)
    return kept


def _with_port(port: Document, number: int | None) -> Document:
    return {**port, "nodePort": number} if number and not port.get("nodePort") else port


def _without_ports(spec: Document, before: Document) -> Document:
    """A service that is no longer reachable from outside gives back what only such services have."""
    if spec.get("type") not in WITH_PORTS and before.get("type") in WITH_PORTS:
        if spec.get("ports") == before.get("ports"):
            spec["ports"] = [{k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()]
        for key in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"):
            if spec.get(key) == before.get(key):
                spec.pop(key, None)
    return spec


def _number(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8]) % size


def _free_address(seed: str, taken: set[str]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address nobody has, found from a place that the seed picks."""
    size = RANGE.num_addresses - RESERVED - 1
    start = _number(seed, size)
    for step in range(size):
        address = RANGE[RESERVED + (start + step) % size]
        if str(address) not in taken:
            return address
    raise refusals.bare(500, "failed to allocate a serviceIP: range is full")


def _ports(request: Request, spec: Document, others: Documents) -> None:
    taken = {port.get("nodePort") for other in others for port in dig(other, "spec", "ports", default=[])}
    taken |= {dig(other, "spec", "healthCheckNodePort") for other in others}
    seed = dig(request.new, "metadata", "uid", default="")
    wants = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    ports = []
    for index, port in enumerate(spec.get("ports") or ()):
        _refuse_taken(request, port.get("nodePort"), taken, index)
        number = port.get("nodePort") or (_free_port(f"{seed}/{index}", taken) if wants else None)
        taken.add(number)
        ports.append(_with_port(port, number))
    spec["ports"] = ports
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = _free_port(f"{seed}/health", taken)


def _refuse_taken(request: Request, asked: int | None, taken: set[int | None], index: int) -> None:
    if not asked:
        return
    why = ""
    if asked not in PORTS:
        why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
    elif asked in taken:
        why = "provided port is already allocated"
    if why:
        cause = complaints.invalid(f"spec.ports[{index}].nodePort", asked, why)
        raise refusals.invalid(kinds.SERVICE, request.key.name, [cause])


def _free_port(seed: str, taken: set[int | None]) -> int:
    start = _number(seed, len(PORTS))
    for step in range(len(PORTS)):
        port = PORTS[(start + step) % len(PORTS)]
        if port not in taken:
            return port
    raise refusals.bare(500, "failed to allocate a nodePort: range is full")
