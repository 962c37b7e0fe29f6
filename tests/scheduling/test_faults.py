"""Whatever goes wrong while a gang is bound, it never stays half bound for longer than one pass of the binder."""

import asyncio
import contextlib
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.api import crds, kinds, labels
from allaboard.api.errors import ApiError, Conflict, Internal, TimedOut
from allaboard.api.meta import is_leaving
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import keeping
from allaboard.cluster.memory import Store
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import NoJournal
from allaboard.kube.clock import SystemClock
from allaboard.kube.controller import Loop
from allaboard.kube.informer import Informers
from allaboard.scheduling.binder import Binder
from tests.patience import PATIENCE

SIZE = 3
ERRORS = {"timeout": TimedOut, "broken": Internal, "conflict": Conflict}


class Unlucky(Inside):
    """The real cluster on a bad day: some calls to bind fail, before or after the pod was bound."""

    def __init__(self, cluster, faults):
        super().__init__(cluster)
        self.faults = list(faults)

    async def bind(self, pod, uid, node):
        fault = self.faults.pop(0) if self.faults else ""
        error, _, when = fault.partition(" ")
        if when != "before" or not error:
            await super().bind(pod, uid, node)
        if error:
            raise ERRORS[error]("bad luck")

    async def bind_many(self, binds):
        return [await self._refusal(*bind) for bind in binds]

    async def _refusal(self, pod, uid, node):
        try:
            await self.bind(pod, uid, node)
        except ApiError as error:
            return error


class Watchful(Binder):
    """The real binder, which notes how many pods of the gang are bound whenever a pass begins."""

    def __init__(self, reader, clock, client):
        super().__init__(reader, clock)
        self.client, self.seen = client, []

    async def reconcile(self, key):
        self.seen.append(await bound(self.client))
        return await super().reconcile(key)


async def bound(client):
    pods = await client.list(kinds.POD)
    return sum(1 for pod in pods if pod["spec"].get("nodeName") and not is_leaving(pod))


async def prepare(client):
    await client.create(kinds.NAMESPACE, {"metadata": {"name": "default"}}, manager="test")
    await client.create(kinds.NODE, {"metadata": {"name": "n"}}, manager="test")
    requests = []
    for index in range(SIZE):
        name = f"p{index}"
        metadata = {"name": name, "namespace": "default", "annotations": {labels.POD_GROUP: "pg"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        pod = await client.create(kinds.POD, {"metadata": metadata, "spec": spec}, manager="test")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        request = {"apiVersion": kinds.BIND_REQUEST.api_version, "kind": "BindRequest", "metadata": dict(metadata)}
        request["metadata"]["ownerReferences"] = [owner]
        requests.append({**request, "spec": {"podName": name, "selectedNode": "n"}})
    return requests


async def settled(client):
    """Nothing left to do: every request is carried out or has failed."""
    requests = await client.list(kinds.BIND_REQUEST)
    return all((request.get("status") or {}).get("phase") == "Failed" for request in requests)


async def unlucky_day(faults):
    cluster = Cluster(Store(NoJournal()), hooks=())
    client, clock = Unlucky(cluster, faults), SystemClock()
    async with keeping(cluster, garbage=False) as keeper:
        for crd in crds.documents():
            if crd["spec"]["group"] == "scheduling.run.ai":
                await client.create(kinds.CRD, crd, manager="test")
        await keeper.settle()
        requests = await prepare(client)
        informers = Informers(client, clock)
        binder = Watchful(informers, clock, client)
        loop = Loop(binder, client, informers, clock)
        work = [asyncio.create_task(informers.run())]
        await informers.synced()
        await client.together(requests, manager="test")
        work.append(asyncio.create_task(loop.run()))
        async with asyncio.timeout(PATIENCE):
            while not await settled(client):
                await asyncio.sleep(0.005)
        for task in work:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return [*binder.seen, await bound(client)]


fault = st.sampled_from(["", "timeout before", "timeout after", "broken before", "conflict after"])


@settings(max_examples=40, deadline=None)
@given(st.lists(fault, max_size=3 * SIZE))
def test_no_gang_stays_half_bound(faults):
    seen = asyncio.run(unlucky_day(faults))
    half = [0 < count < SIZE for count in seen]
    assert not half[-1], f"ended half bound: {seen}"
    assert not any(now and after for now, after in itertools.pairwise(half)), f"half bound twice: {seen}"


def test_without_bad_luck_one_pass_is_enough():
    assert asyncio.run(unlucky_day([])) in ([0, SIZE], [0, SIZE, SIZE])
