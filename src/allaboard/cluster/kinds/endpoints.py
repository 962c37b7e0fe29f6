"""Endpoints and EndpointSlice: where a service's pods listen, in the old form and the new."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import probes, shown
from allaboard.cluster.kinds.podspec import NOT_AN_ADDRESS
from allaboard.cluster.kinds.service import is_address
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

SHOWN = 3
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
                if not is_address(address.get("ip", "")):
                    where = f"{here}.{key}[{place}].ip"
                    found.append(complaints.invalid(where, address.get("ip", ""), NOT_AN_ADDRESS))
        for place, port in enumerate(subset.get("ports") or ()):
            found += probes.port_causes(port.get("port", 0), f"{here}.ports[{place}].port")
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
            found.append(complaints.required(here, "must contain at least 1 address"))
        for place, address in enumerate(addresses):
            found += _family(address, family, f"{here}[{place}]")
    if old is not None:
        found += complaints.immutable("addressType", family, old.get("addressType"))
    return found


def _family(address: str, family: str, field: str) -> list[Cause]:
    if family not in ("IPv4", "IPv6"):
        return []
    if not is_address(address):
        return [complaints.invalid(field, address, NOT_AN_ADDRESS)]
    if f"IPv{ipaddress.ip_address(address).version}" != family:
        return [complaints.invalid(field, address, f"must be an {family} address")]
    return []


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
        built_in(kinds.ENDPOINTS), default=default, check=check, columns=(shown.NAME, ADDRESSES, shown.AGE), row=row
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
    ),
)
