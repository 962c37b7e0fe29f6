"""GET of a pod: the CPU of the API server alone, which runs in its own process, over plain http and over TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.api import pod
from bench.fanout import PODS_PATH, TOKEN, Connection, server, trusting
from bench.rows import Row

WARM, ROUNDS, REPEATS = 1_000, 3_000, 5


def cpu_of(pid: int) -> float:
    """Seconds of CPU that the threads of a process have used."""
    spent = (Path(f"/proc/{pid}/task/{task.name}/schedstat") for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int(path.read_text().split()[0]) for path in spent) / 1e9


def asked(line: socket.socket, path: str, rounds: int) -> None:
    """Ask for the same thing again and again over one connection; the answer is read, not looked at."""
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    buffer = bytearray(1 << 16)
    size = 0  # of a whole answer, told by the first
    for _ in range(rounds):
        line.sendall(request)
        got = line.recv_into(buffer)
        if not size:
            head, _, _ = bytes(buffer[:got]).partition(b"\r\n\r\n")
            length = next(int(one[15:]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length:"))
            size = len(head) + 4 + length
        while got < size:
            got += line.recv_into(buffer)


def cpu_each(pid: int, line: socket.socket, path: str) -> float:
    """Microseconds of the server's CPU per GET, at its best of several runs: others may be using the machine."""
    asked(line, path, WARM)
    best = float("inf")
    for _ in range(REPEATS):
        began = cpu_of(pid)
        asked(line, path, ROUNDS)
        best = min(best, (cpu_of(pid) - began) / ROUNDS * 1e6)
    return best


def connected(port: int, *, secure: bool) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not secure:
        return line
    return trusting().wrap_socket(line, server_hostname="localhost")


async def _one(*, secure: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with server(Path(folder), secure=secure) as (port, pid):
            writer = await Connection(port, secure=secure).open()
            await writer.ask("POST", PODS_PATH, json.dumps(pod("one")).encode())
            with connected(port, secure=secure) as line:
                return await asyncio.to_thread(cpu_each, pid, line, f"{PODS_PATH}/one")


async def _measure() -> list[Row]:
    return [
        Row("server's CPU: get pod, plain", await _one(secure=False), "µs", 60),
        Row("server's CPU: get pod, TLS", await _one(secure=True), "µs"),
    ]


def measure() -> Iterable[Row]:
    return asyncio.run(_measure())
