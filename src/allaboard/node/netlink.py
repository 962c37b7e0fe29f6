"""Network devices by raw netlink: a veth into a namespace, addresses, routes. (Spawning `ip` would halve our speed.)"""

from __future__ import annotations

import os
import socket
import struct

NEWLINK, DELLINK, NEWADDR, NEWROUTE = 16, 17, 20, 24
REQUEST, ACK, REPLACE, EXCL, CREATE = 1, 4, 0x100, 0x200, 0x400
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 18, 28
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC = 1, 4, 5, 7
TABLE_MAIN, PROTO_STATIC, SCOPE_UNIVERSE, SCOPE_LINK, UNICAST, ONLINK = 254, 4, 0, 253, 1, 4


def attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + b"\0" * (-length % 4)


def _name(text: str) -> bytes:
    return attribute(IFLA_IFNAME, text.encode() + b"\0")


def _link(index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


class Wire:
    """A netlink socket; it belongs for ever to the network namespace it was opened in."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.bind((0, 0))

    def close(self) -> None:
        self.socket.close()

    def ask(self, kind: int, flags: int, body: bytes) -> None:
        """Send one request and wait for its acknowledgement."""
        head = struct.pack("=IHHII", 16 + len(body), kind, flags | REQUEST | ACK, 1, 0)
        self.socket.send(head + body)
        answer = self.socket.recv(65536)
        error = struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(-error, f"netlink request {kind}: {os.strerror(-error)}")

    def make_veth(self, name: str, peer: str, namespace: int) -> None:
        """A pair of devices: `name` here, `peer` in the network namespace of that descriptor."""
        far = _link() + _name(peer) + attribute(IFLA_NET_NS_FD, struct.pack("=i", namespace))
        data = attribute(INFO_DATA, attribute(VETH_PEER, far))
        body = _link() + _name(name) + attribute(IFLA_LINKINFO, attribute(INFO_KIND, b"veth\0") + data)
        self.ask(NEWLINK, CREATE | EXCL, body)

    def raise_link(self, index: int) -> None:
        self.ask(NEWLINK, 0, _link(index, IFF_UP))

    def drop_link(self, name: str) -> None:
        self.ask(DELLINK, 0, _link() + _name(name))

    def add_address(self, index: int, address: str) -> None:
        """An address with no neighbours: /32."""
        packed = socket.inet_aton(address)
        body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, SCOPE_UNIVERSE, index)
        self.ask(NEWADDR, CREATE | REPLACE, body + attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed))

    def route(self, index: int, address: str, gateway: str = "") -> None:
        """To one address over a device, or (no address) everything through a gateway."""
        length = 32 if address else 0
        scope = SCOPE_UNIVERSE if gateway else SCOPE_LINK
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, length, 0, 0, TABLE_MAIN, PROTO_STATIC, scope, UNICAST, 0)
        if address:
            body += attribute(RTA_DST, socket.inet_aton(address))
        if gateway:
            body += attribute(RTA_GATEWAY, socket.inet_aton(gateway))
        self.ask(NEWROUTE, CREATE | REPLACE, body + attribute(RTA_OIF, struct.pack("=i", index)))
