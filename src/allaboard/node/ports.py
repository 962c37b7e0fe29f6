"""Rendezvous ports where pods share the machine's network: one per job, the same for every pod of it, free when chosen.

The book is on disk: a pod that comes back after a restart of the agent must meet its peers where they already are.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from allaboard.node import records

FIRST, COUNT = 20_000, 12_000  # below the range from which kernels give ports to those who call


class Ports:
    """Which job meets where. `seed` moves the first choice, so that two planes of one machine seldom want the same."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.next = path, seed % COUNT
        self.book: dict[str, int] = {}

    def open(self) -> None:
        """Read the book (one line per job, the last one counts), and begin a clean copy of its younger half."""
        for line in records.whole_lines(self.path):
            job, _, port = line.partition("\t")
            if port.isdigit():
                self.book[job] = int(port)
        self.book = dict(list(self.book.items())[-COUNT // 2 :])
        records.replace(self.path, "".join(f"{job}\t{port}\n" for job, port in self.book.items()))

    def of(self, job: str) -> int:
        """The job's port: what it had, else one that nobody was promised and nobody uses."""
        if job not in self.book:
            self.book[job] = self._choose()
            with open(self.path, "a") as file:
                file.write(f"{job}\t{self.book[job]}\n")
        return self.book[job]

    def _choose(self) -> int:
        promised = set(self.book.values())
        for step in range(COUNT):
            port = FIRST + (self.next + step) % COUNT
            if port not in promised and is_free(port):
                break
        self.next = port - FIRST + 1
        return port


def is_free(port: int) -> bool:
    """Whether one may listen there, at every address."""
    with socket.socket() as link, contextlib.suppress(OSError):
        link.bind(("", port))
        return True
    return False
