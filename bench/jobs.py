"""The job controllers: one JobSet of 1,000 pods, and a look at 10,000 jobs that ended long ago."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import uvloop

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import JOB, JOB_SET, POD, SERVICE_ACCOUNT
from allaboard.cluster.sqlite import Sqlite
from allaboard.main.heart import Heart
from allaboard.testing.plane import plane, until
from bench.api import pod
from bench.rows import Row

PODS, FINISHED, AT_ONCE = 1_000, 10_000, 200


def template() -> Document:
    return {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}


def job_set(name: str, pods: int) -> Document:
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template()}
    part = {"name": "node", "replicas": 1, "template": {"spec": spec}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": JOB_SET.api_version,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": [part]},
    }


def finished(number: int) -> Document:
    metadata = {"name": f"done-{number}", "namespace": "default"}
    spec = {"parallelism": 1, "completions": 1, "template": template()}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def outcome() -> Document:
    moment = "2024-01-01T00:00:00Z"
    words = {"status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
    conditions = [
        {"type": kind, **words, "lastProbeTime": moment, "lastTransitionTime": moment}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    counts = {"succeeded": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    return {"startTime": moment, "completionTime": moment, "conditions": conditions, **counts}


async def _account(heart: Heart) -> None:
    await until(heart, SERVICE_ACCOUNT, Key("default", "default"), lambda _: True)


async def _many_pods() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        journal = Sqlite(Path(folder) / "store.db")
        async with plane(controllers=("accounts", "jobset", "job"), journal=journal) as heart:
            await _account(heart)
            began = time.perf_counter()
            await heart.client.create(JOB_SET, job_set("large", PODS), manager="bench")
            while heart.cluster.store.table(POD.resource).count() < PODS:
                await asyncio.sleep(0.005)
            seconds = time.perf_counter() - began
        journal.close()
    return Row(f"one JobSet of {PODS:,} pods: create → all exist, durable", seconds, "s", 1.5)


async def _finish(heart: Heart, number: int) -> None:
    made = await heart.client.create(JOB, finished(number), manager="bench")
    await heart.client.update(JOB, {**made, "status": outcome()}, manager="bench", subresource="status")


async def _resync() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        journal = Sqlite(path)
        async with plane(controllers=("accounts",), journal=journal) as heart:
            await _account(heart)
            for start in range(0, FINISHED, AT_ONCE):
                await asyncio.gather(*(_finish(heart, number) for number in range(start, start + AT_ONCE)))
        journal.close()
        journal = Sqlite(path)
        async with plane(controllers=("accounts", "job"), journal=journal) as heart:
            rows = await _look_again(heart)
        journal.close()
    return rows


async def _look_again(heart: Heart) -> list[Row]:
    loop = next(loop for loop in heart.loops if loop.controller.watches[0].kind == JOB)
    await _idle(heart)  # the first look, at the start
    revision, began = heart.cluster.store.revision, time.perf_counter()
    for key in list(heart.informers.of(JOB).documents):
        loop.queue.add(key)
    await _idle(heart)
    return [
        Row(f"no-op reconcile of {FINISHED:,} finished jobs", time.perf_counter() - began, "s", 2),
        Row("writes of that", heart.cluster.store.revision - revision, ""),
    ]


async def _idle(heart: Heart) -> None:
    """Until no controller has anything left to do."""
    await heart.informers.synced()
    while any(loop.queue.depth for loop in heart.loops):
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.01)


async def _measure() -> list[Row]:
    return [await _many_pods(), *await _resync()]


def measure() -> Iterable[Row]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure())
