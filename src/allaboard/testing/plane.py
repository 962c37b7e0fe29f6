"""A whole control plane inside a test: the real cluster in memory, the controllers you name, a clock you hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import NODE, Kind
from allaboard.cluster.store import Journal, NoJournal
from allaboard.kube.clock import Clock, SystemClock
from allaboard.main.heart import Heart, bootstrap
from allaboard.main.settings import GATES, Settings
from allaboard.sdk.home import Home

PATIENCE = 300.0  # seconds: only a hang takes longer, however busy the machine
EVERYONE = (
    "trainjob",
    "jobset",
    "job",
    "ttl",
    "grouper",
    "scheduler",
    "podgroups",
    "queues",
    "binder",
    "namespaces",
    "accounts",
    "rootca",
    "garbage",
)


@contextlib.asynccontextmanager
async def plane(
    controllers: Iterable[str] = EVERYONE,
    admission: Iterable[str] = ("trainjob", "jobset", "scheduling"),
    *,
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> AsyncIterator[Heart]:
    """Start it, hand it over, end it."""
    settings = Settings(
        Home(Path("/nonexistent")), controllers=tuple(controllers), admission=tuple(admission), gates=dict(GATES)
    )
    heart = Heart(settings, clock or SystemClock(), journal or NoJournal())
    async with heart.keeping() as keeper:
        await bootstrap(heart.client, keeper, "a certificate nobody checks")
        running = asyncio.create_task(heart.run())
        try:
            yield heart
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def node(name: str, **resources: str) -> Document:
    """A node that is ready and has this much of everything."""
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", **resources}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


async def add_nodes(heart: Heart, count: int, **resources: str) -> None:
    """Nodes nobody runs: pods get bound to them and stay there."""
    for number in range(count):
        document = node(f"node-{number:03}", **resources)
        created = await heart.client.create(NODE, document, manager="test")
        # A new node is tainted until somebody says it is ready, as on any cluster.
        created = await heart.client.update(NODE, {**created, "spec": {}}, manager="test")
        await heart.client.update(NODE, {**created, "status": document["status"]}, manager="test", subresource="status")


async def until(
    heart: Heart, kind: Kind, key: Key, fulfilled: Callable[[Document], bool], patience: float = PATIENCE
) -> Document:
    """Wait, by watching, until a document is as it should be."""
    async with asyncio.timeout(patience):
        document = await heart.client.get(kind, key)
        listing = await heart.client.listing(kind)
        if document is not None and fulfilled(document):
            return document
        async for changes in heart.client.watch(kind, listing.revision):
            for change in changes:
                metadata = change.document["metadata"]
                mine = Key(metadata.get("namespace", ""), metadata["name"]) == key
                if mine and change.type != "DELETED" and fulfilled(change.document):
                    return change.document
    raise AssertionError("the watch ended")
