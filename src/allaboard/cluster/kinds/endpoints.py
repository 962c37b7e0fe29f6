"""Endpoints and EndpointSlice: where a service's pods listen, in the old form and the new."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, probes, shown
from allaboard.cluster.kinds.networks import NOT_AN_ADDRESS, is_address, reachable
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import label_key
from allaboard.cluster.rules import Rules, built_in

SHOWN = 3
PROTOCOLS, MOST_ADDRESSES = ("SCTP", "TCP", "UDP"), 100
FAMILIES = ("FQDN", "IPv4", "IPv6")


def default(document: Document) -> Document:
    subsets = document.get("subsets")
    return {**document, "subsets": [_with_protocols(subset) for subset in subsets]} if subsets else document


def default_slice(document: Document) -> Document:
    filled = _with_protocols(document)
    if filled.get("ports"):
        filled = {**filled, "ports": [{"name": "", **port} for port in filled["ports"]]}
    return filled


def _with_protocols(document: Document) -> Document:
    ports = document.get("ports")
    return {**document, "ports": [{"protocol": "TCP", **port} for port in ports]} if ports else document


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    found: list[Cause] = []
    for index, subset in enumerate(new.get("subsets") or ()):
        here = f"subsets[{index}]"
        listed = [(key, subset.get(key) or []) for key in ("addresses", "notReadyAddresses")]
        if not any(addresses for _, addresses in listed):
            found.append(complaints.required(here, "must specify `addresses` or `notReadyAddresses`"))
        for key, addresses in listed:
            for place, address in enumerate(addresses):
                found += _target(address, f"{here}.{key}[{place}]")
        ports = subset.get("ports") or []
        for place, port in enumerate(ports):
            found += _port(port, f"{here}.ports[{place}]", must_be_named=len(ports) > 1)
    return found


def _target(address: Document, here: str) -> list[Cause]:
    text, found = address.get("ip") or "", list[Cause]()
    if not is_address(text):
        # Upstream looks twice.
        found.append(complaints.invalid(f"{here}.ip", text, "must be a valid IP address"))
    found += reachable(text, f"{here}.ip", loopback=True)
    for key, rule in (("hostname", names.dns_label), ("nodeName", names.dns_subdomain)):
        if address.get(key):
            found += complaints.all_invalid(f"{here}.{key}", address[key], rule(address[key]))
    return found


def _port(port: Document, here: str, *, must_be_named: bool) -> list[Cause]:
    name, found = port.get("name") or "", list[Cause]()
    if must_be_named and not name:
        found.append(complaints.required(f"{here}.name"))
    elif name:
        found += complaints.all_invalid(f"{here}.name", name, names.dns_label(name))
    found += probes.port_causes(port.get("port", 0), f"{here}.port")
    found += containers.one_of(port, "protocol", PROTOCOLS, here)
    if (protocol := port.get("appProtocol")) is not None:
        found += complaints.all_invalid(f"{here}.appProtocol", protocol, label_key(protocol))
    return found


def check_slice(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    family, found = new.get("addressType") or "", list[Cause]()
    if not family:
        found.append(complaints.required("addressType"))
    elif family not in FAMILIES:
        found.append(complaints.not_supported("addressType", family, FAMILIES))
    for index, endpoint in enumerate(new.get("endpoints") or ()):
        here = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            found.append(complaints.required(here))
        if len(addresses) > MOST_ADDRESSES:
            found.append(complaints.too_many(here, len(addresses), MOST_ADDRESSES))
        for place, address in enumerate(addresses):
            found += _family(address, (old or {}).get("addressType") or family, here, place)
        for key, rule in (("hostname", names.dns_label), ("nodeName", names.dns_subdomain)):
            if endpoint.get(key) is not None:
                where = f"endpoints[{index}].{key}"
                found += complaints.all_invalid(where, endpoint[key], rule(endpoint[key]))
    found += _slice_ports(new.get("ports") or [])
    if old is not None and family != old.get("addressType"):
        # Upstream prints no value here.
        found.append(complaints.invalid("addressType", None, complaints.IMMUTABLE))
    return found


def prepare_slice(new: Document, old: Document | None, subresource: str) -> Document:
    """What is stored has no empty lists."""
    empty = {key: None for key in ("endpoints", "ports") if new.get(key) == []}
    return {**new, **empty} if empty else new


def _slice_ports(ports: Documents) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, port in enumerate(ports):
        name, here = port.get("name") or "", f"ports[{index}]"
        if name:
            found += complaints.all_invalid(f"{here}.name", name, names.dns_label(name))
        if name in seen:
            found.append(complaints.duplicate(f"{here}.name", name))
        seen.add(name)
        found += containers.one_of(port, "protocol", PROTOCOLS, here)
        if (protocol := port.get("appProtocol")) is not None:
            found += complaints.all_invalid(f"{here}.appProtocol", protocol, label_key(protocol))
    return found


def slice_warnings(new: Document, old: Document | None) -> list[str]:
    return ["spec.addressType: FQDN endpoints are deprecated"] if new.get("addressType") == "FQDN" else []


def _family(address: str, family: str, field: str, place: int) -> list[Cause]:
    here = f"{field}[{place}]"
    if family == "FQDN":
        return complaints.all_invalid(here, address, names.dns_subdomain(address))
    if family not in ("IPv4", "IPv6"):
        return []
    if not is_address(address):
        return [complaints.invalid(here, address, NOT_AN_ADDRESS)]
    if f"IPv{ipaddress.ip_address(address).version}" != family:
        return [complaints.invalid(field, address, f"must be an {family} address")]
    return reachable(address, here, loopback=True)


def row(document: Document, now: datetime) -> list[object]:
    return [shown.name_of(document), _text(document.get("subsets") or []), shown.age_of(document, now)]


def _text(subsets: Documents) -> str:
    found: list[str] = []
    for subset in subsets:
        addresses = [str(address.get("ip")) for address in subset.get("addresses") or ()]
        for port in subset.get("ports") or [None]:
            found += [f"{address}:{port['port']}" if port else address for address in addresses]
    if not found:
        return shown.NONE
    more = f" + {len(found) - SHOWN} more..." if len(found) > SHOWN else ""
    return ",".join(found[:SHOWN]) + more


def slice_row(document: Document, now: datetime) -> list[object]:
    ports = [str(port.get("port", "*")) for port in document.get("ports") or ()]
    addresses = [str(a) for endpoint in document.get("endpoints") or () for a in endpoint.get("addresses") or ()]
    more = f" + {len(addresses) - SHOWN} more..." if len(addresses) > SHOWN else ""
    return [
        shown.name_of(document),
        document.get("addressType", ""),
        shown.joined(ports, "<unset>"),
        (",".join(addresses[:SHOWN]) or "<unset>") + more,
        shown.age_of(document, now),
    ]


ADDRESSES = column("Endpoints", "Addresses and ports at which pods of the service listen, the first of them only.")

RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.ENDPOINTS),
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        default=default,
        check=check,
        columns=(shown.NAME, ADDRESSES, shown.AGE),
        row=row,
    ),
    replace(
        built_in(kinds.ENDPOINT_SLICE),
        generation=True,
        default=default_slice,
        check=check_slice,
        spec_changed=lambda new, old: any(
            new.get(key) != old.get(key) for key in ("addressType", "endpoints", "ports")
        ),
        columns=(
            shown.NAME,
            column(
                "AddressType", "Which kind of addresses this slice carries: of the fourth version, the sixth, or names."
            ),
            column("Ports", "The ports at which every endpoint of this slice listens, whatever its address may be."),
            column(
                "Endpoints", "The addresses of the endpoints in this slice, the first few of them if there are many."
            ),
            shown.AGE,
        ),
        row=slice_row,
        prepare=prepare_slice,
        warnings=slice_warnings,
    ),
)
