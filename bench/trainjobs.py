"""From a TrainJob to bound pods: jobs per second, CPU per job, latency of one, and one large job."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import uvloop

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.cluster.access import MASTERS, User
from allaboard.cluster.server import Address, App, Doors, serve
from allaboard.cluster.sqlite import Sqlite
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.informer import Informer
from allaboard.kube.remote import RemoteClient
from allaboard.main.citizen import Citizen
from allaboard.main.configuration import Post
from allaboard.main.heart import SCHEDULERS, Heart
from allaboard.main.plane import collect_often
from allaboard.testing.plane import add_nodes, plane
from bench.rows import Row

NODES, JOBS, PODS = 200, 300, 4
SINGLES, LARGE = 20, 500
STILL = 1.5  # seconds without a write: longer than the pause before the status of a PodGroup
ELSEWHERE = ("trainjob", "jobset", "job", "grouper", "scheduler", "podgroups", "queues", "binder")


def train_job(name: str, nodes: int) -> Document:
    trainer = {
        "numNodes": nodes,
        "image": "bench",
        "command": ["true"],
        "resourcesPerNode": {"requests": {"cpu": "10m", "memory": "1Mi"}},
    }
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": TRAIN_JOB.api_version, "kind": "TrainJob", "metadata": metadata, "spec": spec}


class Bound:
    """Counts the pods that have a node, and tells when there are enough."""

    def __init__(self, informer: Informer) -> None:
        self.pods: set[Key] = set()
        self.enough = asyncio.Event()
        self.wanted = 0
        informer.subscribe(self._see)

    def _see(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and dig(new, "spec", "nodeName"):
            self.pods.add(Key(new["metadata"]["namespace"], new["metadata"]["name"]))
            if len(self.pods) >= self.wanted:
                self.enough.set()

    async def more(self, count: int) -> None:
        self.wanted = len(self.pods) + count
        self.enough.clear()

    async def reached(self) -> None:
        async with asyncio.timeout(120):
            await self.enough.wait()


async def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Sqlite(Path(folder) / "store.db")
        async with plane(journal=journal) as heart:
            await add_nodes(heart, NODES, cpu="64", memory="256Gi", pods="1000")
            bound = Bound(heart.informers.of(POD))  # the scheduler's: one of our own would be counted with the jobs
            garbage = asyncio.create_task(collect_often())  # as a plane does it
            rows = [*await _latency(heart, bound), *await _rate(heart, bound), *await _large(heart, bound)]
            garbage.cancel()
            await asyncio.gather(garbage, return_exceptions=True)
        journal.close()
    return rows


async def _latency(heart: Heart, bound: Bound) -> list[Row]:
    times = []
    for number in range(SINGLES):
        await bound.more(PODS)
        began = time.perf_counter()
        await heart.client.create(TRAIN_JOB, train_job(f"single-{number}", PODS), manager="bench")
        await bound.reached()
        times.append((time.perf_counter() - began) * 1000)
    return [Row(f"one TrainJob of {PODS} pods: create → bound, p50", statistics.median(times), "ms", 20)]


async def _rate(heart: Heart, bound: Bound) -> list[Row]:
    await bound.more(JOBS * PODS)
    revision, cpu, began = heart.cluster.store.revision, time.process_time(), time.perf_counter()
    await asyncio.gather(
        *(heart.client.create(TRAIN_JOB, train_job(f"many-{n}", PODS), manager="bench") for n in range(JOBS))
    )
    await bound.reached()
    seconds = time.perf_counter() - began
    await _settled(heart)
    used = time.process_time() - cpu
    writes = (heart.cluster.store.revision - revision) / JOBS
    return [
        Row(f"TrainJobs of {PODS} pods, durable, {NODES} nodes", JOBS / seconds, "/s", 150, higher_is_better=True),
        Row("CPU per TrainJob", used / JOBS * 1000, "ms", 8),
        Row("writes per TrainJob", writes, ""),
    ]


async def _settled(heart: Heart) -> None:
    """Until nothing is written any more: statuses that follow the last bind are part of a job's price."""
    before = -1
    while before != heart.cluster.store.revision:
        before = heart.cluster.store.revision
        await asyncio.sleep(STILL)


async def _large(heart: Heart, bound: Bound) -> list[Row]:
    await bound.more(LARGE)
    began = time.perf_counter()
    await heart.client.create(TRAIN_JOB, train_job("large", LARGE), manager="bench")
    await bound.reached()
    return [Row(f"one TrainJob of {LARGE} nodes: create → bound", time.perf_counter() - began, "s", 0.8)]


class Neighbour(Citizen):
    """Our controllers over HTTP, in this process; whose pods they take is as embedded."""

    schedulers = SCHEDULERS


async def _over_http() -> list[Row]:
    """The same jobs, every controller a client of the API server."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Sqlite(Path(folder) / "store.db")
        async with plane(controllers=("accounts", "garbage"), journal=journal) as heart:
            await add_nodes(heart, NODES, cpu="64", memory="256Gi", pods="1000")
            doors = Doors({"t": User("bench", (MASTERS, "system:authenticated"))}, "allow")
            async with serve(App(heart.cluster, doors), Address()) as serving:
                client = RemoteClient(Transport(Target("127.0.0.1", serving.port), _token))
                settings = replace(heart.settings, controllers=ELSEWHERE)
                citizen = Neighbour(settings, client, heart.clock, Post("", ""))
                informer = Informer(heart.client, POD, heart.clock)
                bound = Bound(informer)
                tasks = [asyncio.create_task(work) for work in (citizen.watch(), citizen.run(), informer.run())]
                rows = await _rate(heart, bound)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await client.transport.close()
        journal.close()
    return [replace(row, name=f"over HTTP: {row.name}", bar=None) for row in rows[:2]]


async def _token() -> str:
    return "t"


def measure() -> Iterable[Row]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [*runner.run(_measure()), *runner.run(_over_http())]
