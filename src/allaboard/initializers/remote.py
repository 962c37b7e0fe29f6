"""Files at a source, and how one of them comes to disk: in pieces, where it stopped, and checked."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from allaboard.initializers import web
from allaboard.initializers.errors import FetchError, TryAgain

CHUNK = 1 << 20
PART = ".part"
LEDGER = ".aboard-fetched.jsonl"

Headers = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Remote:
    """One file at a source. The version changes whenever the content does; a checksum is `algorithm:hex`."""

    name: str
    url: str
    size: int | None = None
    version: str = ""
    checksum: str = ""
    # Made afresh for every request: signatures age.
    headers: Headers = field(default=dict)


class Ledger:
    """What was fetched and checked before, one line a file, so that a restarted pod does not begin again."""

    def __init__(self, folder: Path) -> None:
        self.path, self._lock = folder / LEDGER, threading.Lock()
        self._versions: dict[str, str] = {}
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for line in lines:
            try:
                name, version = json.loads(line)
            except ValueError:
                continue  # half written when the pod went: that file is looked at again
            self._versions[name] = version

    def knows(self, remote: Remote, path: Path) -> bool:
        """Whether the file on disk is this version of it."""
        if not path.is_file() or (remote.size is not None and path.stat().st_size != remote.size):
            return False
        return bool(remote.version) and self._versions.get(remote.name) == remote.version

    def note(self, remote: Remote) -> None:
        with self._lock, self.path.open("a") as file:
            self._versions[remote.name] = remote.version
            file.write(json.dumps([remote.name, remote.version]) + "\n")


def place(folder: Path, name: str) -> Path:
    """Where a file goes; a name that leaves the folder is refused."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise FetchError(f'"{name}": leaves the output folder; the source cannot be trusted')
    return folder.joinpath(*inside.parts)


def fetch(remote: Remote, folder: Path, ledger: Ledger, told: Callable[[int], None]) -> int:
    """Bring one file to disk; returns its size. `told` hears of every piece once, however often a try begins."""
    path = place(folder, remote.name)
    if ledger.knows(remote, path):
        told(path.stat().st_size)
        return path.stat().st_size
    path.parent.mkdir(parents=True, exist_ok=True)
    part, count = path.with_name(path.name + PART), _Count(told)
    checksum = web.persist(lambda: _download(remote, part, count))
    _check(remote.checksum or checksum, part, remote.name)
    size = part.stat().st_size
    os.replace(part, path)
    Mark.forget(part)
    ledger.note(remote)
    return size


class _Count:
    """How far a file is; what was told before is not told again."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self.told, self.furthest = told, 0

    def reach(self, position: int) -> None:
        if position > self.furthest:
            self.told(position - self.furthest)
            self.furthest = position


@dataclass(frozen=True)
class Mark:
    """What a part of a file is a part of: without this the rest of another version could be put behind it."""

    version: str = ""  # as the listing had it
    tag: str = ""  # as the server called what it sent
    checksum: str = ""  # of the whole, where the first answer stated one

    @staticmethod
    def of(part: Path) -> Mark:
        try:
            return Mark(*json.loads(_beside(part).read_text()))
        except (OSError, ValueError, TypeError):
            return Mark()

    def keep(self, part: Path) -> None:
        _beside(part).write_text(json.dumps([self.version, self.tag, self.checksum]))

    @staticmethod
    def forget(part: Path) -> None:
        _beside(part).unlink(missing_ok=True)


def _beside(part: Path) -> Path:
    return part.with_name(part.name + ".mark")


def _start(remote: Remote, part: Path, mark: Mark) -> int:
    """How much of this very version is there already; a part that could be of another begins anew."""
    there = part.stat().st_size if part.exists() else 0
    is_same = mark.version == remote.version and bool(mark.tag or mark.version)
    return there if is_same and (remote.size is None or there <= remote.size) else 0


def _download(remote: Remote, part: Path, count: _Count) -> str:
    """Go on where the last try stopped; returns the checksum that the first answer offered."""
    mark = Mark.of(part)
    start = _start(remote, part, mark)
    if start and start == remote.size:
        count.reach(start)
        return mark.checksum
    wanted = {"Range": f"bytes={start}-", **({"If-Range": mark.tag} if mark.tag else {})} if start else {}
    with web.ask(remote.url, {**remote.headers(), **wanted}) as answer:
        if not (resumed := start > 0 and answer.status == 206):
            start, mark = 0, _mark(remote, dict(answer.headers))
            mark.keep(part)
        count.reach(start)
        with part.open("ab" if resumed else "wb") as file:
            _pour(answer, file, count, remote.url)
    if remote.size is not None and part.stat().st_size != remote.size:
        raise TryAgain(f'"{remote.name}": {part.stat().st_size} of {remote.size} bytes came')
    return mark.checksum


def _mark(remote: Remote, headers: Mapping[str, str]) -> Mark:
    """A weak tag does not promise the same bytes, so nothing is put behind what it names."""
    found = {name.lower(): value for name, value in headers.items()}
    tag = found.get("etag") or found.get("last-modified") or ""
    return Mark(remote.version, "" if tag.startswith("W/") else tag, offered_checksum(headers))


def _pour(answer: HTTPResponse, file: BinaryIO, count: _Count, url: str) -> None:
    try:
        while piece := answer.read(CHUNK):
            file.write(piece)
            count.reach(file.tell())
    except (OSError, HTTPException) as error:
        raise TryAgain(f"{url.partition('?')[0]}: {error}") from error
    if answer.length:
        raise TryAgain(f"{url.partition('?')[0]}: the connection ended {answer.length} bytes early")


def offered_checksum(headers: Mapping[str, str]) -> str:
    """The checksum of an answer's body, where the server states one (RFC 3230, RFC 9530, Content-MD5)."""
    found = {name.lower(): value for name, value in headers.items()}
    for name in ("repr-digest", "digest"):
        for item in found.get(name, "").split(","):
            algorithm, _, value = item.strip().partition("=")
            if algorithm.lower() in ("sha-256", "sha-512"):
                return f"{algorithm.lower().replace('-', '')}:{_hex(value.strip(':'))}"
    return f"md5:{_hex(found['content-md5'])}" if found.get("content-md5") else ""


def _hex(text: str) -> str:
    return base64.b64decode(text).hex()


def _check(checksum: str, path: Path, name: str) -> None:
    """What arrived is what the source says it has; otherwise it is thrown away."""
    if not checksum:
        return
    algorithm, _, wanted = checksum.partition(":")
    found = digest(algorithm, path)
    if found != wanted:
        path.unlink()
        Mark.forget(path)
        raise FetchError(
            f'"{name}": {algorithm} is {found}, the source says {wanted}; the download was damaged, run again'
        )


def digest(algorithm: str, path: Path) -> str:
    """The file's checksum; `git` is what git calls a blob."""
    if algorithm == "git":
        sum_ = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        sum_ = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            sum_.update(piece)
    return sum_.hexdigest()
