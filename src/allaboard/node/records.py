"""What must outlive an agent, written as lines: a word and a document each, only ever appended.

One file holds everything about one attempt (or one pod), whoever notes it: the agent what was asked for, the
container's init who it is, when it began and how it ended. Nothing is renamed and nothing replaced, because making and
removing files is what a disk is slowest at. Whoever is killed while writing may leave half a line, where the page of a
file ends: the next line does not join it, and the last whole line of a word counts. What an agent writes once in its
life (which boot this is, who holds its namespaces) is a small file of its own, replaced whole.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from allaboard.api.documents import Document

NAME = "record"  # in an attempt's directory
_APPENDING = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


def note(path: str | Path, word: str, document: Document) -> None:
    """Add a line; whoever reads takes all of it or nothing, also if we are killed in the middle."""
    descriptor = os.open(path, _APPENDING, 0o600)
    try:
        note_at(descriptor, word, document)
    finally:
        os.close(descriptor)


def note_at(descriptor: int, word: str, document: Document) -> None:
    os.write(descriptor, f"\n{word} {json.dumps(document)}\n".encode())


def replace(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a small file anew; whoever reads sees the old one or the new one, also if we are killed in the middle."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.chmod(mode)
    os.replace(fresh, path)


def read(path: str | Path, *, at: int | None = None) -> Record:
    """Everything noted so far, nothing where there is no such file; `at` is the directory a relative path starts in."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return Record([])
    with open(descriptor, "rb", buffering=0) as file:
        *lines, _torn = file.read().split(b"\n")
    return Record(lines)


def whole_lines(path: Path) -> list[str]:
    """The lines of a book that is only appended to; none where there is no such file."""
    with contextlib.suppress(OSError):
        return path.read_text().split("\n")[:-1]
    return []


class Record:
    """The lines of one file."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def get(self, word: str) -> Document | None:
        """What was noted last under a word; None where nothing was, or not whole."""
        start = word.encode() + b" "
        for line in reversed(self.lines):
            if line.startswith(start):
                with contextlib.suppress(ValueError):
                    found: Document = json.loads(line[len(start) :])
                    return found
        return None

    def __contains__(self, word: str) -> bool:
        return self.get(word) is not None
