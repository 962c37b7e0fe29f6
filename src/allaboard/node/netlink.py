"""Network devices by raw netlink: a veth into a namespace, addresses, routes. (Spawning `ip` would halve our speed.)"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

NEWLINK, DELLINK, NEWADDR, NEWROUTE = 16, 17, 20, 24
REQUEST, ACK, REPLACE, EXCL, CREATE = 1, 4, 0x100, 0x200, 0x400
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 18, 28
IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES = 31, 32
IFLA_AF_SPEC, INET6_ADDR_GEN_MODE = 26, 8
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC = 1, 4, 5, 7
TABLE_MAIN, PROTO_STATIC, SCOPE_UNIVERSE, SCOPE_LINK, UNICAST, ONLINK = 254, 4, 0, 253, 1, 4


def attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + b"\0" * (-length % 4)


# These devices take no lock to send, so one queue is as fast as the one per processor they would get, and less to make.
ONE_QUEUE = attribute(IFLA_NUM_TX_QUEUES, struct.pack("=I", 1)) + attribute(IFLA_NUM_RX_QUEUES, struct.pack("=I", 1))


def _name(text: str) -> bytes:
    return attribute(IFLA_IFNAME, text.encode() + b"\0")


def _link(index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


@dataclass(frozen=True, slots=True)
class Request:
    """One wish: which kind, how, and its body."""

    kind: int
    flags: int
    body: bytes


def veth(name: str, peer: str, namespace: int) -> Request:
    """A pair of devices: `name` here and up, `peer` in the network namespace of that descriptor."""
    far = _link() + _name(peer) + attribute(IFLA_NET_NS_FD, struct.pack("=i", namespace)) + ONE_QUEUE
    data = attribute(INFO_DATA, attribute(VETH_PEER, far))
    body = _link(0, IFF_UP) + _name(name) + attribute(IFLA_LINKINFO, attribute(INFO_KIND, b"veth\0") + data)
    return Request(NEWLINK, CREATE | EXCL, body + ONE_QUEUE)


def no_link(name: str) -> Request:
    return Request(DELLINK, 0, _link() + _name(name))


def link_up(index: int) -> Request:
    return Request(NEWLINK, 0, _link(index, IFF_UP))


def no_link_local(index: int) -> Request:
    """No IPv6 address that nobody asked for: the kernel spends more on those than on everything else of a device."""
    mode = attribute(socket.AF_INET6, attribute(INET6_ADDR_GEN_MODE, b"\1"))
    return Request(NEWLINK, 0, _link(index) + attribute(IFLA_AF_SPEC, mode))


def address(index: int, numbers: str) -> Request:
    """An address with no neighbours: /32."""
    packed = socket.inet_aton(numbers)
    body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, SCOPE_UNIVERSE, index)
    return Request(NEWADDR, CREATE | REPLACE, body + attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed))


def route(index: int, to: str, gateway: str = "") -> Request:
    """To one address over a device, or (no address) everything through a gateway."""
    length = 32 if to else 0
    scope = SCOPE_UNIVERSE if gateway else SCOPE_LINK
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, length, 0, 0, TABLE_MAIN, PROTO_STATIC, scope, UNICAST, 0)
    if to:
        body += attribute(RTA_DST, socket.inet_aton(to))
    if gateway:
        body += attribute(RTA_GATEWAY, socket.inet_aton(gateway))
    return Request(NEWROUTE, CREATE | REPLACE, body + attribute(RTA_OIF, struct.pack("=i", index)))


class Wire:
    """A netlink socket; it belongs for ever to the network namespace it was opened in."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.bind((0, 0))

    def close(self) -> None:
        self.socket.close()

    def ask(self, *wishes: Request) -> None:
        """Send requests together and wait for every acknowledgement; the first that was refused is raised."""
        parts = []
        for wish in wishes:
            padded = wish.body + b"\0" * (-len(wish.body) % 4)
            parts.append(struct.pack("=IHHII", 16 + len(padded), wish.kind, wish.flags | REQUEST | ACK, 1, 0) + padded)
        self.socket.send(b"".join(parts))
        answers = [(struct.unpack_from("=i", self.socket.recv(65536), 16)[0], wish.kind) for wish in wishes]
        for error, kind in answers:
            if error:
                raise OSError(-error, f"netlink request {kind}: {os.strerror(-error)}")
