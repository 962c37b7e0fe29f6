"""The Linux system calls that Python does not wrap: namespaces, mounts, capabilities."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct

NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 32, 1024, 2048
MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 4096, 16384, 1 << 18, 1 << 21
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
PR_SET_SECCOMP = 22
# Newer calls have the same number everywhere.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR, OPENAT2 = 428, 429, 442, 437
RESOLVE_BENEATH = 8
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_RECURSIVE, AT_EMPTY_PATH, AT_FDCWD = 1, 0o2000000, 0x8000, 0x1000, -100
MOUNT_ATTR_IDMAP = 0x100000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CLONE = {"x86_64": 56, "aarch64": 220}

# Upstream: the set container runtimes give by default, without MKNOD (no device controller guards the nodes here).
CAPABILITIES = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6,
    "SETUID": 7, "SETPCAP": 8, "LINUX_IMMUTABLE": 9, "NET_BIND_SERVICE": 10, "NET_BROADCAST": 11, "NET_ADMIN": 12,
    "NET_RAW": 13, "IPC_LOCK": 14, "IPC_OWNER": 15, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_CHROOT": 18,
    "SYS_PTRACE": 19, "SYS_PACCT": 20, "SYS_ADMIN": 21, "SYS_BOOT": 22, "SYS_NICE": 23, "SYS_RESOURCE": 24,
    "SYS_TIME": 25, "SYS_TTY_CONFIG": 26, "MKNOD": 27, "LEASE": 28, "AUDIT_WRITE": 29, "AUDIT_CONTROL": 30,
    "SETFCAP": 31, "MAC_OVERRIDE": 32, "MAC_ADMIN": 33, "SYSLOG": 34, "WAKE_ALARM": 35, "BLOCK_SUSPEND": 36,
    "AUDIT_READ": 37, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40,
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_held = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: the child of a fork must own it


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def fork_into(flags: int) -> int:
    """Fork with new namespaces for the child alone. (Unsharing and coming back is refused to pseudo-root.)

    Only for a process with one thread: what the interpreter does after a fork of its own is done here by hand.
    """
    number = _CLONE[platform.machine()]
    pid = _check(_held.syscall(number, ctypes.c_ulong(flags | signal.SIGCHLD), 0, 0, 0, 0), "clone")
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return pid


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int = 0) -> None:
    _check(_libc.setns(descriptor, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    text = [value.encode() or None for value in (source, target, kind)]
    data = options.encode() or None
    _check(_libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), data), f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    number = _PIVOT_ROOT[platform.machine()]
    _check(_libc.syscall(number, new.encode(), old.encode()), "pivot_root")


def show_shifted(source: str, target: str, users: int, *, deep: bool) -> None:
    """A bind mount whose owners are those of a user namespace: the machine's 0 is seen as the namespace's 0."""
    recursive = AT_RECURSIVE if deep else 0
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive
    tree = _check(_libc.syscall(OPEN_TREE, AT_FDCWD, source.encode(), flags), f"open {source}")
    try:
        wish = struct.pack("=QQQQ", MOUNT_ATTR_IDMAP, 0, 0, users)
        flags = AT_EMPTY_PATH | recursive
        _check(_libc.syscall(MOUNT_SETATTR, tree, b"", flags, wish, len(wish)), f"shift {source}")
        _check(_libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), 4), f"mount {source} on {target}")
    finally:
        os.close(tree)


def open_beneath(directory: int, path: str) -> int:
    """Something inside a directory, for mounting; links that lead out of it are refused, also while we look."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_BENEATH)
    return _check(_libc.syscall(OPENAT2, directory, path.encode(), how, len(how)), f"subPath {path}")


def set_filter(program: bytes) -> None:
    """Let a seccomp program judge every call of this process and its children, for good."""
    text = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
    _check(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), head, 0, 0), "seccomp")


def prctl(option: int, value: int = 0, more: int = 0) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), 0, 0), "prctl")


def keep_capabilities(kept: frozenset[int]) -> None:
    """Give up every capability but these, for good: bounding set first, then all three working sets."""
    for number in CAPABILITIES.values():
        if number not in kept:
            # EINVAL: a capability this kernel does not have.
            _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
    low = sum(1 << number for number in kept if number < 32)
    high = sum(1 << (number - 32) for number in kept if number >= 32)
    header = struct.pack("=Ii", 0x20080522, 0)
    # Effective, permitted, inheritable; nothing is inherited across an exec of another user.
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    _check(_libc.syscall(_CAPSET[platform.machine()], header, data), "capset")


def remount_read_only(target: str) -> None:
    """Make one bind mount read-only, keeping the flags an outer namespace locked."""
    have = os.statvfs(target).f_flag
    kept = have & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    kept |= MS_NOATIME if have & os.ST_NOATIME else MS_RELATIME
    mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


IN_MODIFY, IN_ONESHOT, IN_NONBLOCK, IN_CLOEXEC = 0x2, 0x80000000, 0o4000, 0o2000000
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 1, 2


def inotify_open() -> int:
    return _check(_libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC), "inotify")


def inotify_once(descriptor: int, path: str) -> int:
    """Be told of the next change of a file, once."""
    return _check(_libc.inotify_add_watch(descriptor, path.encode(), ctypes.c_uint32(IN_MODIFY | IN_ONESHOT)), path)


def punch_hole(descriptor: int, length: int) -> None:
    """Give the first bytes of a file back to the disk; every other byte keeps its place."""
    mode = FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE
    _check(_libc.fallocate(descriptor, mode, ctypes.c_long(0), ctypes.c_long(length)), "fallocate")
