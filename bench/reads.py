"""GET of a pod: the CPU of the API server alone, which runs in its own process, over plain http and over TLS.

The row with the bar keeps 32 connections busy, each with one request in flight. Over a single connection the server
falls asleep after every answer, and the kernel's waking of an idle process is charged to it: an asyncio protocol that
only echoes costs as much as all of our own work then. That row is printed, too, and has no bar.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.api import pod
from bench.fanout import CLIENTS, PODS_PATH, TOKEN, Connection, server, trusting
from bench.rows import Row

WARM, ROUNDS, REPEATS = 1_000, 3_200, 5


def cpu_of(pid: int) -> float:
    """Seconds of CPU that the threads of a process have used."""
    spent = (Path(f"/proc/{pid}/task/{task.name}/schedstat") for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int(path.read_text().split()[0]) for path in spent) / 1e9


class Asker:
    """Asks for the same thing again and again, over every connection at once; answers are read, not looked at."""

    def __init__(self, lines: Sequence[socket.socket], path: str) -> None:
        self.lines = lines
        self.request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        self.buffer, self.size = bytearray(1 << 16), 0  # the size of a whole answer, told by the first

    def ask(self, rounds: int) -> None:
        """So many requests in all: each connection sends its next one when it has its answer."""
        waiting = rounds
        with selectors.DefaultSelector() as ready:
            for index, line in enumerate(self.lines):
                ready.register(line, selectors.EVENT_READ, index)
                line.sendall(self.request)
                waiting -= 1
            asked = len(self.lines)
            while asked:
                for key, _ in ready.select():
                    line = self.lines[key.data]
                    self._receive(line)
                    asked -= 1
                    if waiting:
                        line.sendall(self.request)
                        waiting, asked = waiting - 1, asked + 1

    def _receive(self, line: socket.socket) -> None:
        got = line.recv_into(self.buffer)
        if not self.size:
            head, _, _ = bytes(self.buffer[:got]).partition(b"\r\n\r\n")
            length = next(int(one[15:]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length:"))
            self.size = len(head) + 4 + length
        while got < self.size:
            got += line.recv_into(self.buffer)


def cpu_each(pid: int, asker: Asker) -> float:
    """Microseconds of the server's CPU per GET, at its best of several runs: others may be using the machine."""
    asker.ask(WARM)
    best = float("inf")
    for _ in range(REPEATS):
        began = cpu_of(pid)
        asker.ask(ROUNDS)
        best = min(best, (cpu_of(pid) - began) / ROUNDS * 1e6)
    return best


def connected(port: int, *, secure: bool) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not secure:
        return line
    return trusting().wrap_socket(line, server_hostname="localhost")


async def _measured(*, secure: bool) -> list[float]:
    """With every connection busy, and with one."""
    with tempfile.TemporaryDirectory() as folder:
        async with server(Path(folder), secure=secure) as (port, pid):
            writer = await Connection(port, secure=secure).open()
            await writer.ask("POST", PODS_PATH, json.dumps(pod("one")).encode())
            found = []
            for count in (CLIENTS, 1):
                lines = [connected(port, secure=secure) for _ in range(count)]
                found.append(await asyncio.to_thread(cpu_each, pid, Asker(lines, f"{PODS_PATH}/one")))
                for line in lines:
                    line.close()
            return found


async def _measure() -> list[Row]:
    (plain, alone), (secure, _) = await _measured(secure=False), await _measured(secure=True)
    return [
        Row("server's CPU: get pod, plain", plain, "µs", 60),
        Row("server's CPU: get pod, TLS", secure, "µs"),
        Row("server's CPU: get pod, plain, one connection", alone, "µs"),
    ]


def measure() -> Iterable[Row]:
    return asyncio.run(_measure())
