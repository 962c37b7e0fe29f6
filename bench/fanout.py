"""The API server in its own process: a list of 10,000 pods, 200 watchers, and a start with 20,000 objects."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from bench.api import pod
from bench.rows import Row

TOKEN = "bench-token"
PODS, OBJECTS, WATCHERS, RATE, SECONDS, CLIENTS = 10_000, 20_000, 200, 100, 5, 32
PODS_PATH, MAPS_PATH = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, *, secure: bool = False) -> None:
        self.port, self.context = port, trusting() if secure else None

    async def open(self) -> Connection:
        opened = asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26, ssl=self.context)
        self.reader, self.writer = await opened
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}"
        self.writer.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        data = await self.reader.readexactly(size)
        if int(lines[0].split()[1]) >= 400:
            raise RuntimeError(data.decode())
        return data


def trusting() -> ssl.SSLContext:
    """TLS with whoever answers."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def server(home: Path, *, secure: bool = False) -> AsyncIterator[tuple[int, int]]:
    """A plane without controllers in its own process: where it listens, and its process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tokens = home / "tokens.csv"
    tokens.write_text(f'{TOKEN},bench,bench,"system:masters"\n')
    options = [f"--home={home}", f"--port={port}", "--nodes=0", "--controllers=accounts", "--admission="]
    options += [] if secure else ["--plain"]
    command = [str(Path(sys.executable).with_name("aboard")), "serve", *options, f"--tokens={tokens}"]
    # An installed program has its bytecode; the first start of a home writes it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await _ready(port, secure=secure)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


async def _ready(port: int, *, secure: bool) -> None:
    while True:
        with contextlib.suppress(OSError, RuntimeError, asyncio.IncompleteReadError):
            connection = await Connection(port, secure=secure).open()
            await connection.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")
            connection.writer.close()
            return
        await asyncio.sleep(0.02)


async def fill(port: int, count: int) -> float:
    """Create pods with many clients; pods a second."""
    numbers = iter(range(count))

    async def work() -> None:
        connection = await Connection(port).open()
        for number in numbers:
            await connection.ask("POST", PODS_PATH, json.dumps(pod(f"p-{number}")).encode())

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return count / (time.perf_counter() - began)


def fetched(port: int) -> float:
    """Milliseconds until a whole list is in our hands, over a plain socket."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        began = time.perf_counter()
        line.sendall(f"GET /api/v1/pods HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        buffer = bytearray(1 << 20)
        while line.recv_into(buffer):
            pass
        return (time.perf_counter() - began) * 1e3


class Watching(asyncio.Protocol):
    """A watcher that notes when each event came."""

    def __init__(self, since: str) -> None:
        self.since, self.rest, self.delays = since, b"", list[float]()
        self.revisions: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        head = (
            f"GET {MAPS_PATH}?watch=1&resourceVersion={self.since} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}"
        )
        transport.write(f"{head}\r\n\r\n".encode())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.time()
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if b'"sent":"' in line:
                self.delays.append(now - float(line.partition(b'"sent":"')[2].partition(b'"')[0]))
                self.revisions.append(int(line.partition(b'"resourceVersion":"')[2].partition(b'"')[0]))


async def watched(port: int) -> tuple[float, bool]:
    """The 99th percentile of delivery in milliseconds, and whether everyone saw everything once and in order."""
    writers = [await Connection(port).open() for _ in range(4)]
    since = json.loads(await writers[0].ask("GET", f"{MAPS_PATH}?limit=1"))["metadata"]["resourceVersion"]
    loop = asyncio.get_running_loop()
    watchers = [(await loop.create_connection(lambda: Watching(since), "127.0.0.1", port))[1] for _ in range(WATCHERS)]
    await asyncio.sleep(1)

    async def write(writer: Connection, first: int) -> None:
        began = time.time()
        for number in range(first, RATE * SECONDS, len(writers)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.time()))
            data = {"sent": repr(time.time()), "pad": "x" * 3500}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"w-{number}"}, "data": data}
            await writer.ask("POST", MAPS_PATH, json.dumps(body).encode())

    await asyncio.gather(*(write(writer, index) for index, writer in enumerate(writers)))
    await asyncio.sleep(1)
    delays = sorted(delay for watcher in watchers for delay in watcher.delays)
    want = sorted(set(watchers[0].revisions))
    exact = len(want) == RATE * SECONDS and all(watcher.revisions == want for watcher in watchers)
    return delays[int(len(delays) * 0.99)] * 1e3, exact


def resident(pid: int) -> float:
    """Megabytes a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with server(home) as (port, _):
            creates = await fill(port, PODS)
            listing = min([await asyncio.to_thread(fetched, port) for _ in range(5)])
            delay, exact = await watched(port)
            await fill_maps(port, OBJECTS - PODS)
        began = time.perf_counter()
        async with server(home) as (_, pid):
            start, memory = time.perf_counter() - began, resident(pid)
    return [
        Row("creates over http, 32 clients", creates, "/s", 1500, higher_is_better=True),
        Row("list 10,000 pods", listing, "ms", 150),
        Row("watch delivery p99, 200 watchers x 100/s", delay, "ms", 50),
        Row("watchers that saw everything once, in order", float(exact), "of 1", 1, higher_is_better=True),
        Row("start with 20,000 objects", start, "s", 1.5),
        Row("memory with 20,000 objects", memory, "MB", 300),
    ]


async def fill_maps(port: int, count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        connection = await Connection(port).open()
        for number in numbers:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"f-{number}"},
                "data": {"k": "x" * 2000},
            }
            await connection.ask("POST", MAPS_PATH, json.dumps(body).encode())

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


def measure() -> Iterable[Row]:
    return asyncio.run(_measure())
