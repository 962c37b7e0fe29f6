"""Where a container runs: the pod's network, host name and IPC, and a root file system that never writes to the host.

Pod = network + UTS + IPC namespace, kept by open descriptors in the zygote. Container = mount + PID namespace, made
by its init. All of this runs in the single-threaded zygote or in a child it forked; nothing here is called by the
agent. Which of it is done depends on the level (A root, B rootless, C no network namespace, D plain processes).
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.node import syscalls
from allaboard.node.netlink import Wire
from allaboard.node.syscalls import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, mount

OLD = "/.old"
# Rebuilt for every container; everything else at the top of the host's tree is shown through an overlay.
FRESH = frozenset({"proc", "sys", "dev", "tmp", "run", "lost+found", "home", "root", ".old"})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger", "/proc/latency_stats")
SEALED = ("/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq")
# Places of the host that hold what belongs to others.
EMPTIED = ("var/backups", "var/log", "var/tmp", "var/spool", "var/lib/aboard")
KINDS = {"net": syscalls.NEWNET, "uts": syscalls.NEWUTS, "ipc": syscalls.NEWIPC}


@dataclass(frozen=True, slots=True)
class Network:
    """How the pods of this machine are connected: routed, one /32 each, through one gateway address."""

    gateway: str
    wire: Wire


def open_network(gateway: str) -> Network:
    """Make the present (new) network namespace the one that routes between pods."""
    wire = Wire()
    loopback = socket.if_nametoindex("lo")
    wire.raise_link(loopback)
    wire.add_address(loopback, gateway)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    return Network(gateway, wire)


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


def make_pod(spec: Document, network: Network | None, homes: Homes) -> dict[str, int]:
    """The pod's namespaces as open descriptors; the zygote itself is back home afterwards."""
    kinds = frozenset(KINDS) if network else frozenset({"uts", "ipc"})
    flags = sum(KINDS[kind] for kind in kinds)
    syscalls.unshare(flags)
    try:
        socket.sethostname(spec["hostname"][:64])
        held = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
        if network:
            _connect(spec, network, held["net"])
    finally:
        homes.back(kinds)
    if network:
        index = _link_index(device_name(spec["pod"]))
        network.wire.raise_link(index)
        network.wire.route(index, spec["address"])
    return held


def _link_index(name: str) -> int:
    return socket.if_nametoindex(name)


def _connect(spec: Document, network: Network, namespace: int) -> None:
    """Inside the pod's network namespace: loopback, eth0 with the pod's address, and the way out."""
    name = device_name(spec["pod"])
    with contextlib.suppress(OSError):
        network.wire.drop_link(name)
    network.wire.make_veth(name, "eth0", namespace)
    inside = Wire()
    try:
        inside.raise_link(socket.if_nametoindex("lo"))
        eth0 = socket.if_nametoindex("eth0")
        inside.add_address(eth0, spec["address"])
        inside.raise_link(eth0)
        inside.route(eth0, network.gateway)
        inside.route(eth0, "", network.gateway)
    finally:
        inside.close()
    with contextlib.suppress(OSError):
        # Upstream: container runtimes let any user listen on low ports of its own network.
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")


def enter_pod(held: dict[str, int]) -> None:
    for descriptor in held.values():
        syscalls.setns(descriptor)


def host_tree() -> list[tuple[str, str]]:
    """What stands at the top of the host's file tree: (name, link target or "")."""
    found = []
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.name in FRESH:
                continue
            if entry.is_symlink():
                found.append((entry.name, os.readlink(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                found.append((entry.name, ""))
    return sorted(found)


def build_root(spec: Document, tree: list[tuple[str, str]], *, rootless: bool) -> None:
    """Leave the host's file tree for the container's own; called by its init, alone in its new namespaces."""
    stage = spec["stage"]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", stage, "tmpfs", MS_NODEV, f"mode=0755,size={spec.get('rootSize') or '50%'}")
    root = f"{stage}/root"
    for name in ("root", "up", "work"):
        os.mkdir(f"{stage}/{name}", 0o755)
    mount(root, root, "", MS_BIND)
    for name, link in tree:
        if link:
            os.symlink(link, f"{root}/{name}")
        else:
            _show(stage, name, spec, rootless=rootless)
    _fresh(root, spec.get("hidden", []))
    for path in spec.get("visible", []):
        _reveal(stage, path, rootless=rootless)
    os.mkdir(root + OLD, 0o700)
    syscalls.pivot_root(root, root + OLD)
    os.chdir("/")
    _furnish(spec)
    _populate(spec)
    for volume in spec.get("mounts", []):
        _bind(volume)
    syscalls.unmount(OLD)
    os.rmdir(OLD)


def _show(stage: str, name: str, spec: Document, *, rootless: bool) -> None:
    """One top directory of the host: its content below, what the container writes above (in memory)."""
    lower, target = f"/{name}", f"{stage}/root/{name}"
    upper, work = f"{stage}/up/{name}", f"{stage}/work/{name}"
    os.mkdir(target, 0o755)
    os.mkdir(upper, 0o755)
    # Written into the upper layer: pseudo-root may not change what belongs to the real one.
    own = {path.removeprefix(f"/{name}/"): text for path, text in _files(spec) if path.startswith(f"/{name}/")}
    _write_upper(upper, {path: [text, _mode(text)] for path, text in own.items()})
    if name == "etc":
        _write_upper(upper, spec.get("etc", {}))
    _layer(lower, target, (upper, work), rootless=rootless)


def _layer(lower: str, target: str, layers: tuple[str, str], *, rootless: bool) -> None:
    upper, work = layers
    for path in layers:
        os.makedirs(path, 0o755, exist_ok=True)
    os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}" + (",userxattr" if rootless else "")
    try:
        mount("overlay", target, "overlay", MS_NODEV, options)
    except OSError:
        # Directories with mounts of an outer namespace inside cannot be overlaid: shown as they are, sealed.
        mount(lower, target, "", MS_BIND | MS_REC)
        for path in _mounts_below(target):
            syscalls.remount_read_only(path)


def _mounts_below(target: str) -> list[str]:
    """A mount and every mount inside it; sealing the outer one does not seal those."""
    with open("/proc/self/mountinfo") as file:
        places = [line.split()[4].replace("\\040", " ") for line in file]
    return [place for place in places if place == target or place.startswith(target + "/")]


def _write_upper(upper: str, files: Mapping[str, Sequence[str | int]]) -> None:
    for name, (text, mode) in files.items():
        path = Path(upper, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
        path.chmod(int(mode))


def _fresh(root: str, hidden: list[str]) -> None:
    """Directories every container gets new and empty."""
    for name, mode in (("tmp", 0o1777), ("run", 0o755), ("home", 0o755), ("root", 0o700), ("dev", 0o755)):
        os.mkdir(f"{root}/{name}")
        os.chmod(f"{root}/{name}", mode)
    for name in ("proc", "sys", "run/sshd", "run/lock", "dev/shm", "dev/pts"):
        os.mkdir(f"{root}/{name}", 0o755)
    os.chmod(f"{root}/dev/shm", 0o1777)
    for name in (*EMPTIED, *(path.lstrip("/") for path in hidden)):
        if os.path.isdir(f"{root}/{name}") and not os.path.islink(f"{root}/{name}"):
            with contextlib.suppress(OSError):
                mount("tmpfs", f"{root}/{name}", "tmpfs", MS_NODEV, "mode=1777" if name == "var/tmp" else "mode=0755")


def _reveal(stage: str, path: str, *, rootless: bool) -> None:
    """A tree that must be seen though its home is hidden: the interpreter and the image's environment."""
    root = f"{stage}/root"
    target = root + path
    if os.path.exists(target) or not os.path.isdir(path):
        return
    for parent in reversed(Path(path).parents):
        if not os.path.isdir(f"{root}{parent}"):
            os.mkdir(f"{root}{parent}", 0o755)
    # Hidden homes are private to root; what stands in them must be reachable by every user of the container.
    top = f"{root}/{Path(path).parts[1]}"
    os.chmod(top, stat.S_IMODE(os.stat(top).st_mode) | 0o055)
    os.mkdir(target, 0o755)
    name = path.strip("/").replace("/", "-")
    _layer(path, target, (f"{stage}/up/{name}", f"{stage}/work/{name}"), rootless=rootless)


def _furnish(spec: Document) -> None:
    """/proc, /sys and /dev, as a container expects them."""
    try:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:
        mount(f"{OLD}/proc", "/proc", "", MS_BIND | MS_REC)
    try:
        mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    except OSError:
        mount(f"{OLD}/sys", "/sys", "", MS_BIND | MS_REC)
    for name in (*DEVICES, *spec.get("devices", [])):
        _device(name)
    with contextlib.suppress(OSError):
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1"}
    for name, target in (links | {"stderr": "/proc/self/fd/2"}).items():
        os.symlink(target, f"/dev/{name}")
    _seal()


def _files(spec: Document) -> list[tuple[str, str]]:
    return list((spec.get("files") or {}).items())


def _mode(text: str) -> int:
    return 0o755 if text.startswith("#!") else 0o644


def _populate(spec: Document) -> None:
    """The user's home and what the image has in it."""
    home, uid, gid = spec.get("home") or ("/root", 0, 0)
    os.makedirs(home, 0o755, exist_ok=True)
    for path, text in _files(spec):
        if path.startswith(home + "/"):
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            Path(path).write_text(text)
            os.chmod(path, _mode(text))
            os.chown(path, uid, gid)
    if uid:
        os.chown(home, uid, gid)


def _device(name: str) -> None:
    source, target = f"{OLD}/dev/{name}", f"/dev/{name}"
    if os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _touch(target)
        mount(source, target, "", MS_BIND)


def _seal() -> None:
    for path in MASKED:
        if os.path.exists(path):
            with contextlib.suppress(OSError):
                mount("/dev/null", path, "", MS_BIND)
    for path in SEALED:
        if os.path.exists(path):
            with contextlib.suppress(OSError):
                mount(path, path, "", MS_BIND | MS_REC)
                syscalls.remount_read_only(path)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _bind(volume: Document) -> None:
    """One volume at its mountPath; paths are the container's own, so a link in them cannot lead to the host."""
    source, target = OLD + volume["source"], volume["target"]
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _touch(target)
    mount(source, target, "", MS_BIND | MS_REC)
    if "group" in volume:
        _give(target, volume["group"])
    if volume.get("readOnly"):
        syscalls.remount_read_only(target)


def _give(top: str, group: int) -> None:
    """A volume's files to the pod's group, as fsGroup wants it: readable, and directories writable and inherited."""
    for folder, _, names in os.walk(top):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            with contextlib.suppress(OSError):
                os.chown(path, -1, group, follow_symlinks=False)
                if not os.path.islink(path):
                    extra = 0o2070 if os.path.isdir(path) else 0o040
                    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | extra)
