"""Volumes on disk: rendered files that change in one step, empty directories, and taking it all away again."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from allaboard.node import syscalls
from allaboard.node.builder import mounts_below
from allaboard.node.mounts import File, safe_mode

DATA = "..data"


def write_files(root: Path, files: Mapping[str, File], *, owner_reads: bool, group: int | None) -> bool:
    """Bring a rendered volume to this content; readers see the old or the new state, never a mixture.

    As Kubernetes does it: a fresh directory, a `..data` link moved to it in one rename, and a link per file.
    """
    if _current(root) == {path: file.content for path, file in files.items()}:
        return False
    root.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=root))
    fresh.chmod(0o755)
    for path, file in files.items():
        _write(fresh / path, file, owner_reads=owner_reads, group=group)
    old = os.readlink(root / DATA) if (root / DATA).is_symlink() else ""
    (root / "..data_tmp").unlink(missing_ok=True)  # of one who was killed in the middle
    os.symlink(fresh.name, root / "..data_tmp")
    os.rename(root / "..data_tmp", root / DATA)
    _link(root, {path.split("/")[0] for path in files})
    if old:
        shutil.rmtree(root / old, ignore_errors=True)
    return True


def _current(root: Path) -> dict[str, bytes] | None:
    top = root / DATA
    if not top.is_symlink():
        return None
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def _write(path: Path, file: File, *, owner_reads: bool, group: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = safe_mode(file.mode, owner_reads=owner_reads, content=file.content)
    path.write_bytes(file.content)
    if group is not None:
        mode |= stat.S_IRGRP
        with contextlib.suppress(PermissionError):
            os.chown(path, -1, group)
    path.chmod(safe_mode(mode, owner_reads=owner_reads, content=file.content))


def _link(root: Path, names: set[str]) -> None:
    """One link per top entry, and none for what is gone."""
    for entry in list(root.iterdir()):
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        if not (root / name).is_symlink():
            os.symlink(f"{DATA}/{name}", root / name)


def make_empty(root: Path, group: int | None) -> None:
    """An emptyDir: anyone in the pod may write."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o777)
    if group is not None:
        with contextlib.suppress(PermissionError):
            os.chown(root, -1, group)
            root.chmod(0o2777)


def check_host_path(path: str, kind: str) -> str:
    """Why a hostPath of this type cannot be used, or "" when it can; makes it where the type says so."""
    place = Path(path)
    # Without a type Kubernetes checks nothing, and container runtimes make a directory of what is missing.
    if kind == "DirectoryOrCreate" or (not kind and not place.exists()):
        place.mkdir(parents=True, exist_ok=True, mode=0o755)
    elif kind == "FileOrCreate":
        place.touch(mode=0o644)
    tests = {
        "Directory": place.is_dir, "DirectoryOrCreate": place.is_dir, "File": place.is_file,
        "FileOrCreate": place.is_file, "Socket": place.is_socket, "CharDevice": place.is_char_device,
        "BlockDevice": place.is_block_device,
    }  # fmt: skip
    if kind in tests and not tests[kind]():
        return f"hostPath type check failed: {path} is not a {kind.removesuffix('OrCreate').lower()}"
    return ""


def size_of(root: Path) -> int:
    """How many bytes stand below a directory."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def unmount_below(root: Path) -> None:
    """What is mounted inside a directory goes, and with it what it holds."""
    with contextlib.suppress(OSError):
        for place in mounts_below(str(root)):
            syscalls.unmount(place)


def take_away(root: Path) -> None:
    """Remove a tree, also where its owner took away his own rights."""
    if not os.path.lexists(root):
        return
    shutil.rmtree(root, ignore_errors=True)
    if not os.path.lexists(root):
        return
    for folder, names, _ in os.walk(root):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            with contextlib.suppress(OSError):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(root, ignore_errors=True)
