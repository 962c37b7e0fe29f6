"""What is written in C: made once from the source beside us by the machine's compiler, kept in the user's cache."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent
FLAGS = {"init": ("-std=gnu11", "-O2"), "groups": ("-std=gnu11", "-O2", "-shared", "-fPIC")}
OFF = "ABOARD_NO_HELPER"  # set: everything is done by the interpreter


def find(name: str) -> Path | None:
    """Where a compiled part is, made now if need be; None where there is no compiler, or it is not wanted."""
    path = _place(name)
    if path is None:
        return None
    return path if _is_ours(path) or _compile(SOURCES / f"{name}.c", path) else None


def kept(name: str) -> Path | None:
    """Where a part is that was compiled before; None where it would have to be made."""
    path = _place(name)
    return path if path is not None and _is_ours(path) else None


def _place(name: str) -> Path | None:
    """Where it would be: named by its source, so that another version is another file."""
    source = SOURCES / f"{name}.c"
    if os.environ.get(OFF) or not source.exists():
        return None
    mark = hashlib.sha256(source.read_bytes() + " ".join(FLAGS[name]).encode()).hexdigest()[:16]
    return _cache() / f"{name}-{mark}"


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "allaboard"


def _is_ours(path: Path) -> bool:
    """There, executable, and written by nobody but us: it will run as root where we do."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and os.access(path, os.X_OK)


def _compile(source: Path, path: Path) -> bool:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            fresh = Path(place, source.stem)
            words = [compiler, *FLAGS[source.stem], "-o", str(fresh), str(source)]
            done = subprocess.run(words, capture_output=True, check=False, timeout=300)
            if done.returncode:
                log.warning("%s: %s", " ".join(words), done.stderr.decode(errors="replace").strip()[-300:])
                return False
            fresh.chmod(0o755)
            fresh.replace(path)
    except (OSError, subprocess.SubprocessError) as problem:
        log.warning("%s: %s; we do without it", source.name, problem)
        return False
    return _is_ours(path)
