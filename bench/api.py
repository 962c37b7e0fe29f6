"""The API server: CPU of a GET, a durable create and an unchanged apply, and creates per second over HTTP."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import uvloop

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import JOB_SET, POD, SERVICE_ACCOUNT
from allaboard.cluster.access import MASTERS, User
from allaboard.cluster.server import Address, App, Doors, serve
from allaboard.cluster.sqlite import Sqlite
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.remote import RemoteClient
from allaboard.main.heart import Heart
from allaboard.main.plane import collect_often
from allaboard.testing.plane import plane, until
from bench.rows import Row

ROUNDS, CLIENTS, RUNS = 300, 32, 4


def pod(name: str) -> Document:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    container = {
        "name": "main",
        "image": "python:3.11",
        "command": ["python3", "-c", "print(1)"],
        "resources": resources,
    }
    metadata = {"name": name, "namespace": "default", "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def job_set(name: str) -> Document:
    template = {"spec": {"template": {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}}}
    parts = [{"name": part, "replicas": 1, "template": template} for part in ("launcher", "node")]
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": JOB_SET.api_version,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": parts},
    }


async def cpu_each(work: Callable[[int], Awaitable[object]]) -> float:
    """Microseconds of this process's CPU per call, at the best of a few runs: others may be using the machine."""
    return min([await _cpu(work, run * ROUNDS, ROUNDS) for run in range(RUNS)])


async def _cpu(work: Callable[[int], Awaitable[object]], first: int, rounds: int) -> float:
    began = time.process_time()
    for number in range(first, first + rounds):
        await work(number)
    return (time.process_time() - began) / rounds * 1e6


async def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Sqlite(Path(folder) / "store.db")
        async with plane(controllers=("accounts",), admission=(), journal=journal) as heart:
            await until(heart, SERVICE_ACCOUNT, Key("default", "default"), lambda _: True)
            collecting = asyncio.create_task(collect_often())  # as a plane does it
            rows = await _verbs(heart)
            rows += await _over_http(heart)
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
        journal.close()
    return rows


async def _verbs(heart: Heart) -> list[Row]:
    client = heart.client
    create = await cpu_each(lambda n: client.create(POD, pod(f"p{n}"), manager="bench"))
    get = await cpu_each(lambda n: client.get(POD, Key("default", f"p{n}")))
    at_once = min([await _cpu(lambda n: _side_by_side(heart, f"s{n}"), run * 20, 20) for run in range(RUNS)]) / CLIENTS
    await client.apply(JOB_SET, job_set("same"), manager="bench")
    unchanged = await cpu_each(lambda n: client.apply(JOB_SET, job_set("same"), manager="bench"))
    return [
        Row("in process: get pod", get, "µs"),
        Row("in process: create pod, durable", create, "µs", 500),
        Row(f"in process: create pod, durable, {CLIENTS} side by side", at_once, "µs"),
        Row("in process: apply JobSet unchanged", unchanged, "µs", 400),
    ]


async def _side_by_side(heart: Heart, name: str) -> None:
    """As many writers as clients of the row over HTTP: their commits are one."""
    names = (f"{name}-{number}" for number in range(CLIENTS))
    await asyncio.gather(*(heart.client.create(POD, pod(name), manager="bench") for name in names))


async def _over_http(heart: Heart) -> list[Row]:
    doors = Doors({"t": User("bench", (MASTERS,))}, "allow")

    async def token() -> str:
        return "t"

    async with serve(App(heart.cluster, doors), Address()) as serving:
        clients = [RemoteClient(Transport(Target("127.0.0.1", serving.port), token)) for _ in range(CLIENTS)]
        get = await cpu_each(lambda n: clients[0].get(POD, Key("default", f"p{n}")))
        began = time.perf_counter()
        await asyncio.gather(*(_creates(client, number) for number, client in enumerate(clients)))
        seconds = time.perf_counter() - began
        for client in clients:
            await client.transport.close()
    rate = CLIENTS * 50 / seconds
    return [
        Row("http: get pod, server and client in one process", get, "µs"),
        Row(f"http: durable creates, {CLIENTS} clients, plain", rate, "/s", 1500, higher_is_better=True),
    ]


async def _creates(client: RemoteClient, number: int) -> None:
    for turn in range(50):
        await client.create(POD, pod(f"c{number}-{turn}"), manager="bench")


def measure() -> Iterable[Row]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as a plane has it
        return runner.run(_measure())
