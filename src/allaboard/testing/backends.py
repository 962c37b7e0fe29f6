"""The two backends of the client contract over one cluster in memory: in process, and over HTTP on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from allaboard.cluster.access import MASTERS, User
from allaboard.cluster.admitters import ADMISSION
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import keeping
from allaboard.cluster.memory import Store
from allaboard.cluster.plane import Cluster
from allaboard.cluster.server import Address, App, Doors, serve
from allaboard.cluster.store import NoJournal
from allaboard.kube.client import Client
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.remote import RemoteClient
from allaboard.main.heart import bootstrap

BACKENDS = ("inside", "http")
TOKEN = "test-token"


@contextlib.asynccontextmanager
async def client_of(backend: str) -> AsyncIterator[Client]:
    """A client of a fresh cluster with our kinds and first objects in it."""
    cluster = Cluster(Store(NoJournal()), ADMISSION)
    async with keeping(cluster) as keeper:
        await bootstrap(Inside(cluster), keeper, "a certificate nobody checks")
        if backend == "inside":
            yield Inside(cluster)
            return
        doors = Doors({TOKEN: User("tester", (MASTERS, "system:authenticated"))}, "allow")
        async with serve(App(cluster, doors), Address()) as serving:
            transport = Transport(Target("127.0.0.1", serving.port), _token)
            yield RemoteClient(transport)
            await transport.close()


async def _token() -> str:
    return TOKEN
