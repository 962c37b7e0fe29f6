"""Follows the steps of a container (`steps.py`) in Python; `init.c` is the same workman, compiled."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from allaboard.node import syscalls
from allaboard.node.syscalls import MS_BIND, MS_NODEV, MS_REC, mount

OPAQUE = "trusted.overlay.opaque"


class StartError(Exception):
    """The container could not be made; the words go into its status."""


@dataclass
class Builder:
    """What steps refer to: the pod's namespaces by open descriptor, and where its users begin."""

    held: Mapping[str, int] = field(default_factory=dict)
    uid: int = 0
    gid: int = 0

    def follow(self, steps: Iterable[Sequence[str]]) -> None:
        for word, *rest in steps:
            work: Callable[..., None] = getattr(self, "do_" + word.removeprefix("?").replace("-", "_"))
            try:
                work(*rest)
            except OSError:
                if not word.startswith("?"):
                    raise

    def _own(self, path: str, uid: int = 0, gid: int = 0) -> None:
        if self.uid or uid or gid:
            os.chown(path, self.uid + uid, self.gid + gid, follow_symlinks=False)

    # Control groups.

    def do_group(self, path: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)

    def do_set(self, path: str, text: str) -> None:
        Path(path).write_text(text)

    # The file tree.

    def do_shift(self, uid: str, gid: str) -> None:
        self.uid, self.gid = int(uid), int(gid)

    def do_mount(self, source: str, target: str, kind: str, flags: str, options: str) -> None:
        mount(source, target, kind, int(flags), options)

    def do_fresh(self, kind: str, target: str, flags: str, other: str) -> None:
        """A file system of the kernel's own; where it is refused, the host's."""
        try:
            mount(kind, target, kind, int(flags))
        except OSError:
            mount(other, target, "", MS_BIND | MS_REC)

    def do_mkdir(self, path: str, mode: str) -> None:
        os.mkdir(path)
        os.chmod(path, int(mode, 8))
        self._own(path)

    def do_mkdirs(self, path: str) -> None:
        parent = os.path.dirname(path)
        if os.path.isdir(path):
            return
        self.do_mkdirs(parent)
        self.do_mkdir(path, "755")

    def do_rmdir(self, path: str) -> None:
        os.rmdir(path)

    def do_symlink(self, target: str, path: str) -> None:
        os.symlink(target, path)
        self._own(path)

    def do_write(self, path: str, mode: str, uid: str, gid: str, text: str) -> None:
        self.do_mkdirs(os.path.dirname(path))
        Path(path).write_text(text)
        os.chmod(path, int(mode, 8))
        self._own(path, int(uid), int(gid))

    def do_chown(self, path: str, uid: str, gid: str) -> None:
        self._own(path, int(uid), int(gid))

    def do_layer(self, *words: str) -> None:
        lower, target, low, upper, work, option = words
        for path in (upper, work):
            self.do_mkdirs(path)
        os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode))
        below = lower
        if "user" in self.held:
            os.mkdir(low)
            syscalls.show_shifted(lower, low, self.held["user"], deep=False)
            below = low
        options = f"lowerdir={below},upperdir={upper},workdir={work}" + (f",{option}" if option else "")
        try:
            mount("overlay", target, "overlay", MS_NODEV, options)
        except OSError:
            # Directories with mounts of an outer namespace inside cannot be overlaid: shown as they are, sealed.
            mount(lower, target, "", MS_BIND | MS_REC)
            for path in mounts_below(target):
                syscalls.remount_read_only(path)

    def do_reveal(self, *words: str) -> None:
        lower, target = words[0], words[1]
        if os.path.exists(target) or not os.path.isdir(lower):
            return
        self.do_mkdirs(target)
        # Hidden homes are private to root; what stands in them must be reachable by every user of the container.
        root = target.removesuffix(lower)
        top = f"{root}/{Path(lower).parts[1]}"
        os.chmod(top, stat.S_IMODE(os.stat(top).st_mode) | 0o055)
        self.do_layer(*words)

    def do_empty(self, path: str, options: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            mount("tmpfs", path, "tmpfs", MS_NODEV, options)

    def do_whole(self, *words: str) -> None:
        """The host's whole tree, below what the upper layer has already and a layer between, where there is one."""
        root, low, upper, work, cover = words
        os.mkdir(work)
        os.chmod(upper, stat.S_IMODE(os.stat("/").st_mode))
        below = "/"
        if "user" in self.held:
            os.mkdir(low)
            syscalls.show_shifted("/", low, self.held["user"], deep=False)
            below = low
        layers = f"{cover}:{below}" if cover else below
        mount("overlay", root, "overlay", MS_NODEV, f"lowerdir={layers},upperdir={upper},workdir={work}")

    def do_cover(self, path: str, mode: str) -> None:
        """In an upper layer: a directory that lets nothing through from below."""
        self.do_mkdir(path, mode)
        os.setxattr(path, OPAQUE, b"y")

    def do_nothing(self, path: str) -> None:
        """In an upper layer: the mark that there is nothing of this name, whatever stands below."""
        os.mknod(path, stat.S_IFCHR, 0)

    def do_like(self, upper: str, path: str) -> None:
        """In an upper layer: the directories of the host down to this one, as they are there."""
        so_far = ""
        for name in path.split("/"):
            so_far += f"/{name}"
            if not os.path.isdir(upper + so_far):
                self.do_mkdir(upper + so_far, f"{stat.S_IMODE(os.stat(so_far).st_mode):o}")

    def do_hide(self, upper: str, path: str, mode: str) -> None:
        """In an upper layer: an empty directory over one of the host, or, in case the host gets it yet, over none."""
        parent = os.path.dirname(path)
        if not os.path.isdir(f"/{parent}"):
            return
        if parent:
            self.do_like(upper, parent)
        if not os.path.isdir(f"/{path}"):
            if not os.path.lexists(f"{upper}/{path}"):
                self.do_nothing(f"{upper}/{path}")
        elif os.path.isdir(f"{upper}/{path}"):  # something in it is hidden, too
            os.setxattr(f"{upper}/{path}", OPAQUE, b"y")
        else:
            self.do_cover(f"{upper}/{path}", mode)

    def do_pivot(self, root: str, old: str) -> None:
        syscalls.pivot_root(root, old)
        os.chdir("/")

    def do_unmount(self, path: str) -> None:
        syscalls.unmount(path)

    def do_device(self, source: str, target: str) -> None:
        if os.path.exists(source):
            self.do_mkdirs(os.path.dirname(target))
            _touch(target)
            mount(source, target, "", MS_BIND)

    def do_mask(self, path: str) -> None:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", syscalls.MS_RDONLY, "size=0")
        elif os.path.exists(path):
            mount("/dev/null", path, "", MS_BIND)

    def do_seal(self, path: str) -> None:
        if os.path.exists(path):
            mount(path, path, "", MS_BIND | MS_REC)
            syscalls.remount_read_only(path)

    def do_volume(self, source: str, target: str, how: str, group: str, inner: str) -> None:
        part = _beneath(source, inner)
        shown = f"/proc/self/fd/{part}"
        try:
            if os.path.isdir(shown):
                self.do_mkdirs(target)
            elif not os.path.exists(target):
                self.do_mkdirs(os.path.dirname(target))
                _touch(target)
            self._bind(shown, target)
        finally:
            os.close(part)
        if group:
            _give(target, int(group))
        if how == "ro":
            syscalls.remount_read_only(target)

    def _bind(self, source: str, target: str) -> None:
        if "user" in self.held:
            # A file system that cannot shift owners is shown as it is: the pod's users are nobody there.
            with contextlib.suppress(OSError):
                syscalls.show_shifted(source, target, self.held["user"], deep=True)
                return
        mount(source, target, "", MS_BIND | MS_REC)

    # From a fork to a program.

    def do_rlimit(self, name: str, amount: str) -> None:
        which = {"data": resource.RLIMIT_DATA}[name]
        hard, asked = resource.getrlimit(which)[1], int(amount)
        most = asked if hard == resource.RLIM_INFINITY else min(hard, asked)
        with contextlib.suppress(ValueError):
            resource.setrlimit(which, (most, most))

    def do_users(self) -> None:
        """The pod's own users: from here on its root, who is nobody outside."""
        if "user" in self.held:
            syscalls.setns(self.held["user"])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)

    def do_groups(self, numbers: str) -> None:
        os.setgroups([int(number) for number in numbers.split(",") if number])

    def do_gid(self, number: str) -> None:
        if int(number) != os.getgid():
            os.setgid(int(number))

    def do_capabilities(self, mask: str) -> None:
        bits = int(mask, 16)
        syscalls.keep_capabilities(frozenset(number for number in range(64) if bits >> number & 1))

    def do_uid(self, number: str) -> None:
        if int(number) != os.getuid():
            os.setuid(int(number))

    def do_filter(self, digits: str) -> None:
        syscalls.set_filter(bytes.fromhex(digits))

    def do_no_new_privileges(self) -> None:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)

    def do_cwd(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
                raise
        os.chdir(path)


def mounts_below(target: str) -> list[str]:
    """A mount and every mount inside it; sealing the outer one does not seal those."""
    with open("/proc/self/mountinfo") as file:
        places = [line.split()[4].replace("\\040", " ") for line in file]
    return [place for place in places if place == target or place.startswith(target + "/")]


def _beneath(source: str, inner: str) -> int:
    """A volume, or the part of it that is wanted: made where it is missing, and never outside of the volume."""
    top = os.open(source, os.O_PATH | os.O_CLOEXEC)
    here, so_far = top, ""
    for name in filter(None, inner.split("/")):
        so_far = f"{so_far}/{name}".lstrip("/")
        try:
            there = syscalls.open_beneath(top, so_far)
        except FileNotFoundError:
            os.mkdir(name, 0o755, dir_fd=here)
            there = syscalls.open_beneath(top, so_far)
        if here != top:
            os.close(here)
        here = there
    if here != top:
        os.close(top)
    return here


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _give(top: str, group: int) -> None:
    """A volume's files to the pod's group, as fsGroup wants it: readable, and directories writable and inherited."""
    for folder, _, names in os.walk(top):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            with contextlib.suppress(OSError):
                os.chown(path, -1, group, follow_symlinks=False)
                if not os.path.islink(path):
                    extra = 0o2070 if os.path.isdir(path) else 0o040
                    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | extra)


def find(command: str, path: str) -> str:
    """Upstream: the runtime's words for a command that is not there or may not run."""
    if "/" in command:
        if not os.path.exists(command):
            raise StartError(f'exec: "{command}": stat {command}: no such file or directory')
        if not os.access(command, os.X_OK) or os.path.isdir(command):
            raise StartError(f'exec: "{command}": permission denied')
        return command
    for place in (path or os.defpath).split(":"):
        found = os.path.join(place, command)
        if os.access(found, os.X_OK) and not os.path.isdir(found):
            return found
    raise StartError(f'exec: "{command}": executable file not found in $PATH')
