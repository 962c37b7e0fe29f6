"""file:///path and pvc://claim/path: what is mounted already, copied to where the program looks for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import PART, Ledger, Remote, place
from allaboard.initializers.settings import Settings


def root_of(settings: Settings) -> Path:
    """The folder or file that the URI names."""
    parts = settings.parts
    if settings.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise FetchError(f'"{settings.uri}": names a host; must be file:///path')
        return Path(parts.path)
    if not parts.netloc:
        raise FetchError(f'"{settings.uri}": names no claim; must be pvc://claim/path')
    root = settings.claims / parts.netloc
    if not root.is_dir():
        raise FetchError(
            f'"{settings.uri}": {root} is not mounted; give the initializer a volume of claim "{parts.netloc}"'
        )
    return place(root, parts.path.strip("/")) if parts.path.strip("/") else root


def listing(settings: Settings) -> Iterator[Remote]:
    """Every file below the folder, or the one file."""
    root = root_of(settings)
    if root.is_file():
        yield _remote(root, root.name)
        return
    if not root.is_dir():
        raise FetchError(f'"{settings.uri}": {root} does not exist')
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        # Volumes of ConfigMaps keep their versions in folders that begin with two dots; the names beside them count.
        if path.is_file() and not any(part.startswith("..") for part in name.split("/")):
            yield _remote(path, name)


def _remote(path: Path, name: str) -> Remote:
    found = path.stat()
    return Remote(name, str(path), found.st_size, f"{found.st_mtime_ns}-{found.st_size}")


def fetch(remote: Remote, folder: Path, ledger: Ledger, told: Callable[[int], None]) -> int:
    """Copy one file; a half copy never looks like a whole one."""
    path = place(folder, remote.name)
    size = remote.size or 0
    if not ledger.knows(remote, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + PART)
        shutil.copyfile(remote.url, part)
        os.replace(part, path)
        ledger.note(remote)
    told(size)
    return size
