"""What pods really use: asked of the nodes through the API, twice, because processors are counted in time spent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import ApiError
from allaboard.api.kinds import NODE
from allaboard.kube.remote import RemoteClient


@dataclass(frozen=True, slots=True)
class Usage:
    """Processors and bytes of memory."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu + other.cpu, self.memory + other.memory)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a pod: when, seconds of processor time spent so far, memory now, and a rate if the node has one."""

    moment: float
    spent: float
    memory: float
    rate: float | None


Samples = dict[Key, Sample]


async def read_usage(client: RemoteClient, nodes: Iterable[str], pause: float) -> dict[Key, Usage]:
    """What every pod on these nodes uses; pods of nodes that do not answer are left out."""
    names = list(nodes)
    before = await _look(client, names)
    if before and any(sample.rate is None for sample in before.values()):
        await asyncio.sleep(pause)
    return rates(before, await _look(client, names))


def rates(before: Mapping[Key, Sample], after: Mapping[Key, Sample]) -> dict[Key, Usage]:
    """Two looks become usage; a pod seen once has memory, and no processors yet."""
    return {key: Usage(_rate(before.get(key), sample), sample.memory) for key, sample in after.items()}


def _rate(before: Sample | None, after: Sample) -> float:
    if after.rate is not None:
        return after.rate
    if before is None or after.moment <= before.moment:
        return 0.0
    return max(0.0, after.spent - before.spent) / (after.moment - before.moment)


async def _look(client: RemoteClient, nodes: list[str]) -> Samples:
    found: Samples = {}
    for node in nodes:
        try:
            found |= samples(await client.ask("GET", NODE.path("", node, "proxy/stats/summary")))
        except ApiError:  # a node that cannot be asked has nothing to say
            continue
    return found


def samples(summary: Document) -> Samples:
    """A kubelet's summary, or our node's: pods with their containers."""
    found: Samples = {}
    for pod in summary.get("pods") or []:
        containers = pod.get("containers") or []
        if containers:
            found[Key(dig(pod, "podRef", "namespace"), dig(pod, "podRef", "name"))] = _sample(containers)
    return found


def _sample(containers: list[Document]) -> Sample:
    spent = sum(dig(c, "cpu", "usageCoreNanoSeconds", default=0) for c in containers) / 10**9
    memory = sum(dig(c, "memory", "workingSetBytes", default=0) for c in containers)
    known = [dig(c, "cpu", "usageNanoCores") for c in containers]
    rate = None if any(each is None for each in known) else sum(known) / 10**9
    return Sample(max(_moment(c) for c in containers), spent, memory, rate)


def _moment(container: Document) -> float:
    """Our nodes write seconds, kubelets stamps."""
    said = container.get("time") or dig(container, "cpu", "time", default=0.0)
    return said if isinstance(said, int | float) else datetime.fromisoformat(said).timestamp()
