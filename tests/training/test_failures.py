"""Seed 003's table of failures, each with its behaviour: what is tried again, what is final, what waits.

The double stands for the outside world: an API server that answers writes with errors for a while.
"""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import AlreadyExists, ApiError, Conflict, Internal, TooManyRequests, Unavailable
from allaboard.api.meta import condition_of
from allaboard.kube.clock import SystemClock
from allaboard.kube.controller import Loop
from allaboard.kube.informer import Informers
from allaboard.testing.plane import plane
from allaboard.training.controller import TrainJobController
from tests.patience import eventually
from tests.training.world import runtime, trainjob

JOB = Key("default", "run")


class Outside:
    """The cluster behind a bad line: the first writes of some kinds fail."""

    def __init__(self, client, errors=(), kinds_=(kinds.JOB_SET,)):
        self.client, self.errors, self.kinds = client, list(errors), kinds_

    def __getattr__(self, name):
        return getattr(self.client, name)

    async def apply(self, kind, document, **options):
        if kind in self.kinds and self.errors:
            raise self.errors.pop(0)
        return await self.client.apply(kind, document, **options)

    async def apply_new(self, writes, *, manager):
        return None  # one by one, as over a line


@asynccontextmanager
async def at_work(errors=()):
    """A plane, and the TrainJob controller on the far side of a bad line."""
    async with plane(controllers=("quota",)) as heart:
        await heart.client.create(kinds.CLUSTER_TRAINING_RUNTIME, runtime(), manager="test")
        outside = Outside(heart.client, errors)
        informers = Informers(outside, SystemClock())
        controller = TrainJobController(informers, SystemClock(), live=outside)
        loop = Loop(controller, outside, informers, SystemClock())
        for kind in (kinds.SECRET, kinds.CONFIG_MAP):
            informers.of(kind)
        tasks = [asyncio.create_task(informers.run())]
        await informers.synced()
        tasks.append(asyncio.create_task(loop.run()))
        try:
            yield heart.client, outside, loop
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def wanted():
    job = trainjob()
    return {**job, "metadata": {"name": JOB.name, "namespace": JOB.namespace}}


PASSING = {
    "the line breaks (network)": ConnectionResetError("connection reset by peer"),
    "no answer comes (network)": TimeoutError("the API server did not answer"),
    "409, somebody wrote in between": Conflict("the object has been modified"),
    "409, it is there already": AlreadyExists('jobsets.jobset.x-k8s.io "run" already exists'),
    "429, too many requests": TooManyRequests("too many requests, please try again later"),
    "500, a failure of the server": Internal("etcdserver: request timed out"),
    "503, no server": Unavailable("the server is currently unable to handle the request"),
}


@pytest.mark.parametrize("error", PASSING.values(), ids=PASSING)
def test_seed_003_failures_passing_trouble_is_tried_again_until_it_works(error, caplog):
    async def story():
        async with at_work([error, error, error]) as (client, outside, loop):
            await client.create(kinds.TRAIN_JOB, wanted(), manager="me")
            await eventually(lambda: client.get(kinds.JOB_SET, JOB))
            job = await client.get(kinds.TRAIN_JOB, JOB)
            return outside.errors, loop.queue.count.retries >= 3, condition_of(job, "Failed")

    with caplog.at_level(logging.ERROR, "allaboard"):
        assert asyncio.run(story()) == ([], True, None)
    if not isinstance(error, Conflict):
        assert 'msg="Reconcile failed" trainjob=default/run error="' in caplog.text


async def counted(client, hard):
    quota = await client.get(kinds.RESOURCE_QUOTA, Key("default", "q"))
    return quota.get("status", {}).get("hard", {}).get("count/jobsets.jobset.x-k8s.io") == hard


def test_seed_003_failures_a_job_that_waits_for_quota_starts_when_there_is_some(caplog):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}

    def of(count):
        return {**quota, "spec": {"hard": {"count/jobsets.jobset.x-k8s.io": str(count)}}}

    async def story():
        async with at_work() as (client, _, _):
            await client.create(kinds.RESOURCE_QUOTA, of(0), manager="me")
            await eventually(lambda: counted(client, "0"))
            await client.create(kinds.TRAIN_JOB, wanted(), manager="me")
            events = await eventually(lambda: client.list(kinds.EVENT))
            waits = await client.get(kinds.JOB_SET, JOB) is None
            await client.apply(kinds.RESOURCE_QUOTA, of(1), manager="me", force=True)
            await eventually(lambda: client.get(kinds.JOB_SET, JOB))
            job = await client.get(kinds.TRAIN_JOB, JOB)
            return waits, events[0]["reason"], "exceeded quota" in events[0]["message"], condition_of(job, "Failed")

    assert asyncio.run(story()) == (True, "TrainJobResourcesCreationFailed", True, None)
    assert "Reconcile failed" not in caplog.text  # a wait is no error


def test_seed_003_failures_what_admission_refuses_is_never_reconciled():
    job = wanted()
    job["spec"]["trainer"] = {"env": [{"name": "PET_NNODES", "value": "1"}]}

    async def story():
        async with at_work() as (client, _, loop):
            with pytest.raises(ApiError, match="must not have reserved envs"):
                await client.create(kinds.TRAIN_JOB, job, manager="me")
            await asyncio.sleep(0)
            return loop.queue.idle, await client.list(kinds.TRAIN_JOB), await client.list(kinds.EVENT)

    assert asyncio.run(story()) == (True, [], [])
