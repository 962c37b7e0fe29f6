"""What this machine lets us do, found out by doing it: namespaces, mounts, overlay, veth, in children that vanish."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from allaboard.node import netlink, sandbox, syscalls, users
from allaboard.node.builder import Builder

LEVELS = {
    "A": "root: own network, own files, own processes for every pod; limits by control groups",
    "B": "rootless: the same inside one user namespace; limits where control groups are delegated",
    "C": "no network namespace: pods share the host's network on addresses 127.x.y.z",
    "D": "plain processes: nothing is isolated, names and mount paths are rewritten at start",
}
OPEN = {
    "A": "pods share the kernel",
    "B": "pods share the kernel and your account",
    "C": "pods share the kernel, your account and this machine's network",
    "D": "nothing is isolated: pods share files, network and processes with you",
}
REMEDIES = {
    "platform": "isolation is Linux's: run All Aboard in a Linux machine, a virtual one will do",
    "user": "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces>0 "
    "(in a container: run it with seccomp and AppArmor relaxed, or as root)",
    "mount": "allow mount namespaces (CAP_SYS_ADMIN, or user namespaces)",
    "pid": "allow PID namespaces (CAP_SYS_ADMIN, or user namespaces)",
    "net": "allow network namespaces (CAP_SYS_ADMIN, or user namespaces)",
    "veth": "load the veth module (modprobe veth), and give CAP_NET_ADMIN",
    "overlay": "load the overlay module (modprobe overlay); rootless needs Linux 5.11 or newer",
    "whole": "memory file systems with trusted attributes (CONFIG_TMPFS_XATTR); without them pods start more slowly",
    "shift": "Linux 5.19 or newer, for users of every pod's own",
    "users": "give root a range, `root:1000000:16777216` in /etc/subuid and /etc/subgid (Linux 5.19 or newer)",
    "uidmap": "install newuidmap (package uidmap) and give this user a range in /etc/subuid and /etc/subgid",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """What worked ("" per item) and what did not (the kernel's words)."""

    root: bool
    items: Mapping[str, str]

    @property
    def level(self) -> str:
        return level_of(self)

    def not_isolated(self) -> str:
        """What pods of this machine share with it, in one sentence."""
        users = self.items.get("users", "") or self.items.get("shift", "")
        root = " and this machine's root user, stripped of most rights"
        return OPEN[self.level] + (root if self.level == "A" and users else "")

    def misses(self) -> dict[str, str]:
        """Every item that failed, with its remedy."""
        return {name: REMEDIES[name] for name, words in self.items.items() if words and name in REMEDIES}


def level_of(findings: Findings) -> str:
    """The best level whose every need was met."""

    def works(*names: str) -> bool:
        return all(findings.items.get(name, "absent") == "" for name in names)

    if not works("mount", "pid", "overlay"):
        return "D"
    if works("net", "veth"):
        return "A" if findings.root else "B"
    return "C"


def probe() -> Findings:
    """Ask a fresh interpreter to try everything; the agent itself has threads and must not."""
    if not sys.platform.startswith("linux"):
        return Findings(root=os.getuid() == 0, items={"platform": f"{sys.platform} has no namespaces"})
    return _tried()


@functools.cache
def _tried() -> Findings:
    """The machine does not change while we run, and trying takes a while."""
    code = f"import sys; sys.path.insert(0, {str(package_root())!r}); from allaboard.node import levels; levels.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return Findings(root=os.getuid() == 0, items={"user": done.stderr.decode(errors="replace").strip()[-200:]})
    return Findings(found["root"], found["items"])


def package_root() -> Path:
    """Where `import allaboard` finds us, for interpreters we start."""
    return Path(__file__).resolve().parent.parent.parent


def main() -> None:
    """In the fresh interpreter: each attempt in a child of its own; answers as JSON."""
    root = os.getuid() == 0
    with tempfile.TemporaryDirectory() as scratch:
        items = {name: _child(work, scratch, root=root) for name, work in ATTEMPTS.items()}
        items |= {name: _child(work, scratch, root=root) for name, work in AS_ROOT.items()} if root else {}
    items["user"] = "" if root else _child(_user, "", root=root)
    if root:
        items["users"] = (
            "" if own_users() else "root has no sub-users; pods share the machine's users, stripped of most rights"
        )
    else:
        items["uidmap"] = "" if can_map() else "no sub-users"
    print(json.dumps({"root": root, "items": items}))  # noqa: T201


def own_users() -> users.Range | None:
    """The sub-users this account may give to its pods."""
    return users.range_of(sub_range("/etc/subuid"), sub_range("/etc/subgid"))


def can(item: str) -> bool:
    """Whether one of the things we try out in a fresh interpreter works."""
    return probe().items.get(item, "absent") == ""


def can_shift() -> bool:
    """Whether the kernel shows files as those of a pod's users."""
    return can("shift")


def can_map() -> bool:
    """Whether newuidmap is there and this user has a range of sub-users."""
    return bool(shutil.which("newuidmap") and shutil.which("newgidmap") and sub_range("/etc/subuid"))


def sub_range(path: str) -> tuple[int, int] | None:
    """The first range of sub-users of this account: (first, how many)."""
    uid = str(os.getuid())
    name = next((line.split(":")[0] for line in _lines("/etc/passwd") if line.split(":")[2:3] == [uid]), uid)
    for line in _lines(path):
        owner, first, count = line.split(":")
        if owner in (name, uid):
            return int(first), int(count)
    return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _child(work: Callable[[str], None], scratch: str, *, root: bool) -> str:
    """Run one attempt in a forked child (pseudo-root where we are not root); the kernel's words if it failed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if not root:
                _user("")
            work(scratch)
        except BaseException as problem:
            os.write(writing, str(problem).encode()[:500] or b"failed")
        finally:
            os._exit(0)
    os.close(writing)
    words = b""
    while chunk := os.read(reading, 4096):
        words += chunk
    os.close(reading)
    os.waitpid(pid, 0)
    return words.decode(errors="replace")


def _user(_scratch: str) -> None:
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _mount(scratch: str) -> None:
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", scratch, "tmpfs")


def _pid(_scratch: str) -> None:
    syscalls.unshare(syscalls.NEWPID)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    if os.waitpid(pid, 0)[1]:
        raise OSError("the first process of a PID namespace was not number 1")


def _net(_scratch: str) -> None:
    syscalls.unshare(syscalls.NEWNET)


def _veth(_scratch: str) -> None:
    syscalls.unshare(syscalls.NEWNET)
    wire = netlink.Wire()
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    wire.ask(netlink.veth("probe0", "probe1", here))


def _overlay(scratch: str) -> None:
    _mount(scratch)
    for name in ("up", "work", "root"):
        os.mkdir(f"{scratch}/{name}")
    extra = "" if Path("/proc/self/uid_map").read_text().split()[2] != "1" else ",userxattr"
    options = f"lowerdir=/etc,upperdir={scratch}/up,workdir={scratch}/work{extra}"
    syscalls.mount("overlay", f"{scratch}/root", "overlay", 0, options)
    Path(f"{scratch}/root/aboard-probe").write_text("x")


def _whole(scratch: str) -> None:
    """One overlay of the whole tree, with marks in its upper layer that hide what is below."""
    _mount(scratch)
    for name in ("up", "root"):
        os.mkdir(f"{scratch}/{name}")
    workman = Builder()
    workman.do_hide(f"{scratch}/up", "etc", "755")
    workman.do_nothing(f"{scratch}/up/usr")
    workman.do_whole(f"{scratch}/root", "", f"{scratch}/up", f"{scratch}/work", "")
    if os.listdir(f"{scratch}/root/etc") or os.path.exists(f"{scratch}/root/usr") or not os.listdir(f"{scratch}/root"):
        raise OSError("an overlay does not hide what it should")


def _shift(scratch: str) -> None:
    """A user namespace, and the host's files shown as if they belonged to its users."""
    own = own_users() or users.Range(users.EACH, users.EACH, users.EACH)
    held = sandbox.make_users([own.uid, own.gid, users.EACH], frozenset({"uts"}))
    _mount(scratch)
    for name in ("low", "up", "work", "root"):
        os.mkdir(f"{scratch}/{name}")
    syscalls.show_shifted("/etc", f"{scratch}/low", held["user"], deep=False)
    options = f"lowerdir={scratch}/low,upperdir={scratch}/up,workdir={scratch}/work"
    syscalls.mount("overlay", f"{scratch}/root", "overlay", 0, options)
    if os.stat(f"{scratch}/root/passwd").st_uid != own.uid:
        raise OSError("owners are not shifted through an overlay")


ATTEMPTS: dict[str, Callable[[str], None]] = {
    "mount": _mount,
    "pid": _pid,
    "net": _net,
    "veth": _veth,
    "overlay": _overlay,
}
AS_ROOT: dict[str, Callable[[str], None]] = {"shift": _shift, "whole": _whole}
