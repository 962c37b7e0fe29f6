"""The work of an initializer: list, fetch many files at once, and say how far it is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from allaboard.initializers import gs, hub, local, plain_http, remote, s3, settings
from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import Ledger, Remote
from allaboard.initializers.settings import Settings

Listing = Callable[[Settings], Iterator[Remote]]

SOURCES: Mapping[str, Listing] = {
    "hf": hub.listing,
    "s3": s3.listing,
    "gs": gs.listing,
    "http": plain_http.listing,
    "https": plain_http.listing,
    "file": local.listing,
    "pvc": local.listing,
}
SAY_EVERY = 5.0  # seconds


@dataclass
class Progress:
    """Counts what came; says so every few seconds and at the end."""

    files: int
    size: int | None
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock, self.done, self.came, self._said = threading.Lock(), 0, 0, self.clock()

    def piece(self, size: int) -> None:
        with self._lock:
            self.came += size
            if self.clock() - self._said >= SAY_EVERY:
                self._said = self.clock()
                self.say(str(self))

    def file(self) -> None:
        with self._lock:
            self.done += 1

    def __str__(self) -> str:
        whole = f"/{_human(self.size)}" if self.size is not None else ""
        return f"fetched {self.done}/{self.files} files, {_human(self.came)}{whole}"


def _human(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def fetch_all(wanted: Settings, say: Callable[[str], None]) -> Progress:
    """Everything the URI names, into the folder; the first failure ends it."""
    if wanted.scheme not in SOURCES:
        known = ", ".join(f"{name}://" for name in SOURCES)
        raise FetchError(f'"{wanted.uri}": {wanted.scheme or "no scheme"} is not supported; must be one of {known}')
    files = [found for found in SOURCES[wanted.scheme](wanted) if wanted.wants(found.name)]
    if not files:
        raise FetchError(f'"{wanted.uri}": has no file to fetch; check the path and IGNORE_PATTERNS')
    sizes = [found.size for found in files]
    whole = sum(size or 0 for size in sizes) if None not in sizes else None
    progress = Progress(len(files), whole, say)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    _fetch_each(files, wanted, progress)
    return progress


def _fetch_each(files: list[Remote], wanted: Settings, progress: Progress) -> None:
    ledger = Ledger(wanted.folder)
    bring = local.fetch if wanted.scheme in ("file", "pvc") else remote.fetch

    def one(found: Remote) -> None:
        bring(found, wanted.folder, ledger, progress.piece)
        progress.file()

    with ThreadPoolExecutor(wanted.at_once, thread_name_prefix="fetch") as pool:
        # The largest first, so that the last one does not begin when all others are done.
        ordered = sorted(files, key=lambda found: -(found.size or 0))
        tasks: list[Future[None]] = [pool.submit(one, found) for found in ordered]
        done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
        failed = next((task for task in done if task.exception() is not None), None)
        if failed is not None:
            pool.shutdown(cancel_futures=True)
            failed.result()


def main(kind: str, env: Mapping[str, str], say: Callable[[str], None] | None = None) -> int:
    """Run an initializer; 0 when everything is there, 1 with a sentence when not."""
    speak = say or _to_stderr
    try:
        wanted = settings.read(kind, env)
        speak(f"fetching {kind} {wanted.uri} into {wanted.folder}")
        speak(str(fetch_all(wanted, speak)))
    except (FetchError, OSError) as error:
        speak(f"error: {error}")
        return 1
    return 0


def _to_stderr(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
