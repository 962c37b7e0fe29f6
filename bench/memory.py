"""Memory of a plane after 1,000 TrainJobs, every pod of them bound: measured in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import uvloop

from allaboard.api.documents import Document, dig
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.api.meta import uid_of
from allaboard.cluster.sqlite import Sqlite
from allaboard.main.heart import Heart
from allaboard.main.plane import collect_often
from allaboard.testing.plane import add_nodes, plane
from bench.fanout import resident
from bench.rows import Row
from bench.trainjobs import NODES, PODS, train_job

JOBS, AT_ONCE = 1_000, 100


class Bound:
    """The pods that have a node, as the plane's own informer tells."""

    def __init__(self, heart: Heart) -> None:
        self.pods: set[str] = set()
        self.changed = asyncio.Event()
        heart.informers.of(POD).subscribe(self._see)

    def _see(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and dig(new, "spec", "nodeName"):
            self.pods.add(uid_of(new))
            self.changed.set()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(300):
            while len(self.pods) < count:
                self.changed.clear()
                await self.changed.wait()


async def _fill(heart: Heart) -> None:
    bound = Bound(heart)
    for start in range(0, JOBS, AT_ONCE):
        names = (f"job-{number}" for number in range(start, start + AT_ONCE))
        await asyncio.gather(*(heart.client.create(TRAIN_JOB, train_job(n, PODS), manager="bench") for n in names))
        await bound.reach((start + AT_ONCE) * PODS)


async def _grow() -> dict[str, float]:
    """Megabytes before the first job, after the last, and at the most."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Sqlite(Path(folder) / "store.db")
        async with plane(journal=journal) as heart:
            await add_nodes(heart, NODES, cpu="64", memory="256Gi", pods="1000")
            collecting = asyncio.create_task(collect_often())
            before = resident(os.getpid())
            await _fill(heart)
            after, peak = resident(os.getpid()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
        journal.close()
    return {"before": before, "after": after, "peak": peak}


def measure() -> Iterable[Row]:
    told = subprocess.run([sys.executable, "-m", "bench.memory"], check=True, capture_output=True, timeout=600)
    found = json.loads(told.stdout)
    return [
        Row(f"memory after {JOBS:,} TrainJobs of {PODS} pods, a process of its own", found["after"], "MB", 250),
        Row("the same at its peak", found["peak"], "MB"),
        Row("the same before the first job", found["before"], "MB"),
    ]


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(_grow())))
