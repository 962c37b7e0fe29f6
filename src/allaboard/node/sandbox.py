"""Where a container runs: the pod's network, host name and IPC, and a root file system that never writes to the host.

Pod = network + UTS + IPC namespace, kept by open descriptors in the zygote. Container = mount + PID namespace, made
by its init. All of this runs in the single-threaded zygote or in a child it forked; nothing here is called by the
agent. Which of it is done depends on the level (A root, B rootless, C no network namespace, D plain processes).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.node import netlink, steps, syscalls
from allaboard.node.builder import Builder
from allaboard.node.netlink import Wire

PRIVATE = ("etc/ssh/ssh_host_*_key", "etc/shadow-", "etc/gshadow*", "etc/sudoers", "etc/krb5.keytab")
WATCHED = ("/", "/etc", "/etc/ssh")  # where what we show or hide comes and goes
KINDS = {"net": syscalls.NEWNET, "uts": syscalls.NEWUTS, "ipc": syscalls.NEWIPC}


@dataclass(frozen=True, slots=True)
class Network:
    """How the pods of this machine are connected: routed, one /32 each, through one gateway address."""

    gateway: str
    wire: Wire
    has_ipv6: bool = False


def open_network(gateway: str) -> Network:
    """Make the present (new) network namespace the one that routes between pods."""
    wire = Wire()
    loopback = _link_index("lo")
    wire.ask(netlink.link_up(loopback), netlink.address(loopback, gateway))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    silent = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    if silent.exists():
        silent.write_text("1")
    return Network(gateway, wire, has_ipv6=silent.exists())


class Homes:
    """The zygote's own namespaces, to come back to."""

    def __init__(self) -> None:
        self.descriptors = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS}

    def back(self, kinds: frozenset[str]) -> None:
        for kind in kinds:
            syscalls.setns(self.descriptors[kind])


def device_name(pod: str) -> str:
    """The veth of a pod, seen from outside; 15 characters at most."""
    return "ab" + pod.replace("-", "")[:12]


def kinds_of(network: Network | None) -> frozenset[str]:
    """The namespaces every pod has."""
    return frozenset(KINDS) if network else frozenset({"uts", "ipc"})


def make_pod(spec: Document, network: Network | None, homes: Homes) -> dict[str, int]:
    """The pod's namespaces as open descriptors; the zygote itself is back home afterwards."""
    kinds = kinds_of(network)
    held = make_users(spec["users"], kinds) if spec.get("users") else {}
    try:
        if held:
            for kind in kinds:
                syscalls.setns(held[kind])
        else:
            syscalls.unshare(sum(KINDS[kind] for kind in kinds))
            held = {kind: _namespace("self", kind) for kind in kinds}
        socket.sethostname(spec["hostname"][:64])
        if network:
            _connect(spec, network, held["net"])
            homes.back(frozenset({"net"}))
            network.wire.ask(netlink.route(_link_index(device_name(spec["pod"])), spec["address"]))
    except OSError:
        for descriptor in held.values():  # else nobody would ever let go of half a pod
            os.close(descriptor)
        raise
    finally:
        homes.back(kinds)
    return held


def _namespace(pid: int | str, kind: str) -> int:
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def make_users(users: list[int], kinds: frozenset[str]) -> dict[str, int]:
    """Namespaces that belong to users of the pod's own: made by a child, whose users we map from outside."""
    uid, gid, count = users
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            syscalls.unshare(syscalls.NEWUSER)
            theirs.send(b"u")
            theirs.recv(1)
            syscalls.unshare(sum(KINDS[kind] for kind in kinds))
            theirs.send(b"n")
            theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        try:
            _expect(ours)
            Path(f"/proc/{pid}/uid_map").write_text(f"0 {uid} {count}")
            Path(f"/proc/{pid}/gid_map").write_text(f"0 {gid} {count}")
            ours.send(b"m")
            _expect(ours)
            return {kind: _namespace(pid, kind) for kind in ("user", *kinds)}
        finally:
            ours.close()
            os.waitpid(pid, 0)


def _expect(link: socket.socket) -> None:
    if not link.recv(1):
        raise OSError("the pod's namespaces could not be made")


def _link_index(name: str) -> int:
    return socket.if_nametoindex(name)


def _connect(spec: Document, network: Network, namespace: int) -> None:
    """Inside the pod's network namespace: loopback, eth0 with the pod's address, and the way out."""
    name = device_name(spec["pod"])
    wanted = netlink.veth(name, "eth0", namespace)
    try:
        network.wire.ask(wanted)
    except FileExistsError:  # of one who was killed in the middle
        network.wire.ask(netlink.no_link(name))
        network.wire.ask(wanted)
    inside = Wire()
    try:
        eth0 = _link_index("eth0")
        inside.ask(
            *([netlink.no_link_local(eth0)] if network.has_ipv6 else []),
            netlink.link_up(_link_index("lo")),
            netlink.address(eth0, spec["address"]),
            netlink.link_up(eth0),
            netlink.route(eth0, network.gateway),
            netlink.route(eth0, "", network.gateway),
        )
    finally:
        inside.close()
    with contextlib.suppress(OSError):
        # Upstream: container runtimes let any user listen on low ports of its own network.
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")


def enter_pod(held: dict[str, int]) -> None:
    """All but the users: an init stays the machine's root, its workload becomes the pod's."""
    for kind in KINDS:
        if kind in held:
            syscalls.setns(held[kind])


def host_tree() -> list[tuple[str, str]]:
    """What stands at the top of the host's file tree: (name, link target, "" for a directory, "." for an empty one)."""
    found = []
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.name in steps.FRESH:
                continue
            if entry.is_symlink():
                found.append((entry.name, os.readlink(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                found.append((entry.name, "" if _has_content(entry.path) else "."))
    return sorted(found)


def last_changed() -> tuple[int, ...]:
    """When something came or went in the directories our view of the host depends on; 0 for one that is not there."""
    found = []
    for path in WATCHED:
        try:
            found.append(os.stat(path).st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


def others_at_top(shown: Sequence[tuple[str, str]]) -> list[str]:
    """What else stands at the top of the host's file tree: files, and directories that are nobody's business."""
    known = {name for name, _ in shown} | {name for name, _ in steps.NEW}
    return sorted(set(os.listdir("/")) - known)


def apart_at_top(shown: Sequence[tuple[str, str]]) -> list[str]:
    """Directories at the top that are file systems of their own: an overlay of the top does not show their content."""
    here = os.stat("/").st_dev
    return [name for name, link in shown if link in ("", ".") and os.stat(f"/{name}").st_dev != here]


def sealed_layer(place: Path, made: Sequence[steps.Step]) -> None:
    """A directory that becomes a memory file system of its own with what these steps make below it, then read-only.

    Containers stand on it: whoever could take a piece away would show them what it covers. One that is not sealed was
    left by somebody killed in the middle, and made again.
    """
    if os.path.ismount(place):
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return
        syscalls.unmount(str(place))
    place.mkdir(mode=0o700, exist_ok=True)
    syscalls.mount("tmpfs", str(place), "tmpfs", syscalls.MS_NODEV, "mode=0755,size=16m")
    Builder().follow(made)
    syscalls.mount("none", str(place), "", syscalls.MS_REMOUNT | syscalls.MS_RDONLY | syscalls.MS_NODEV)


def _has_content(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def private_files() -> list[str]:
    """Files of the machine's own root that a pod's root must not read."""
    return sorted(str(path) for pattern in PRIVATE for path in Path("/").glob(pattern) if path.is_file())
