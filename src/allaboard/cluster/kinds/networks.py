"""Addresses and networks as fields of objects: what they must look like, and which of them lead nowhere."""

from __future__ import annotations

import ipaddress

from allaboard.api.errors import Cause
from allaboard.cluster import complaints

NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NOT_A_NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


WIRE_WIDE, WIRE_WIDE_6 = ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16")


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def reachable(text: str, field: str, *, loopback: bool = False) -> list[Cause]:
    """An address of somebody else: not of nobody, of this machine or of this wire alone.

    Pods of ours may live on the loopback of their machine: where they are pointed to, it is allowed.
    """
    if not is_address(text):
        return [complaints.invalid(field, text, NOT_AN_ADDRESS)]
    address = ipaddress.ip_address(text)
    why = ""
    if address.is_unspecified:
        why = f"may not be unspecified ({text})"
    elif address.is_loopback and not loopback:
        why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    elif address.is_link_local:
        why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    elif address in WIRE_WIDE or address in WIRE_WIDE_6:
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return [complaints.invalid(field, text, why)] if why else []


def network(text: str, field: str) -> list[Cause]:
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        return [complaints.invalid(field, text, NOT_A_NETWORK)]
    if "/" not in text:
        return [complaints.invalid(field, text, NOT_A_NETWORK)]
    if found.ip != found.network.network_address:
        return [complaints.invalid(field, text, "must not have bits set beyond the prefix length")]
    return []
