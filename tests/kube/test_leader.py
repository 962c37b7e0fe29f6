"""Leader election: of several copies one works, another takes over when it is gone, and who is deposed stops."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from allaboard.api.documents import Key
from allaboard.api.errors import Internal
from allaboard.api.kinds import LEASE
from allaboard.api.meta import micro_stamp
from allaboard.kube.leader import ASK_AGAIN, RENEW_BEFORE, TERM, Candidate, Deposed, claim, lead
from allaboard.testing.clock import FakeClock
from allaboard.testing.plane import plane

PLACE = Key("kubeflow-system", "leader")
FIRST, SECOND = Candidate("first", PLACE), Candidate("second", PLACE)
NOW = FakeClock().now()


def lease(holder="first", age=timedelta(0), **spec):
    """A lease renewed that long ago."""
    held = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": micro_stamp(NOW - age), **spec}
    return {"metadata": {"name": PLACE.name, "namespace": PLACE.namespace}, "spec": held}


CLAIMS = {
    "nobody has it": (None, "second", 0),
    "the holder let it go": (lease(""), "second", 1),
    "another holds it": (lease(), None, None),
    "another held it too long ago": (lease(age=TERM, leaseTransitions=3), "second", 4),
    "it was never renewed": (lease(renewTime=None), "second", 1),
    "it is ours": (lease("second", leaseTransitions=3), "second", 3),
}


@pytest.mark.parametrize(("found", "holder", "transitions"), CLAIMS.values(), ids=CLAIMS)
def test_who_may_take_the_lease(found, holder, transitions):
    wanted = claim(SECOND, found, NOW)
    assert (wanted and wanted["spec"]["holderIdentity"]) == holder
    if wanted:
        assert wanted["spec"]["leaseTransitions"] == transitions
        assert wanted["spec"]["renewTime"] == micro_stamp(NOW)


def test_a_renewal_keeps_when_it_was_acquired():
    assert claim(FIRST, lease(acquireTime="long ago"), NOW)["spec"]["acquireTime"] == "long ago"
    assert claim(SECOND, lease(age=TERM, acquireTime="long ago"), NOW)["spec"]["acquireTime"] == micro_stamp(NOW)


def test_durations_are_the_candidates_own():
    slow = Candidate("slow", PLACE, term=timedelta(seconds=60))
    assert claim(slow, None, NOW)["spec"]["leaseDurationSeconds"] == 60


class Work:
    """Something only a leader does."""

    def __init__(self):
        self.started, self.ended = asyncio.Event(), False

    async def __call__(self):
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


class Flaky:
    """A server that can be told to stop answering."""

    def __init__(self, client):
        self.client, self.down = client, False

    def __getattr__(self, name):
        if self.down:
            raise Internal("etcdserver: request timed out")
        return getattr(self.client, name)


@asynccontextmanager
async def candidates(clock):
    async with plane(controllers=(), admission=()) as heart:
        flaky, first, second = Flaky(heart.client), Work(), Work()
        tasks = [asyncio.create_task(lead(flaky, FIRST, clock, first))]
        await first.started.wait()
        tasks.append(asyncio.create_task(lead(heart.client, SECOND, clock, second)))
        try:
            yield flaky, first, second, tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def pass_time(clock, span, step=ASK_AGAIN):
    """Let it pass in steps, so that everybody who waits gets a turn."""
    for _ in range(int(span / step) + 1):
        clock.advance(step)
        for _ in range(20):
            await asyncio.sleep(0)


def test_only_one_works_for_as_long_as_it_renews():
    async def story():
        clock = FakeClock()
        async with candidates(clock) as (flaky, first, second, _):
            await pass_time(clock, 4 * TERM)
            return first.ended, second.started.is_set(), (await flaky.get(LEASE, PLACE))["spec"]["holderIdentity"]

    assert asyncio.run(story()) == (False, False, "first")


def test_who_cannot_renew_stops_before_another_may_start():
    async def story():
        clock = FakeClock()
        async with candidates(clock) as (flaky, first, second, tasks):
            flaky.down = True
            await pass_time(clock, RENEW_BEFORE + ASK_AGAIN)
            stopped = first.ended and not second.started.is_set()
            with pytest.raises(Deposed, match="could not be renewed by first"):
                await tasks[0]
            await pass_time(clock, TERM)
            return stopped, second.started.is_set()

    assert asyncio.run(story()) == (True, True)


def test_work_that_fails_ends_the_lead_with_its_error():
    async def broken():
        raise ValueError("boom")

    async def story():
        async with plane(controllers=(), admission=()) as heart:
            await lead(heart.client, FIRST, FakeClock(), broken)

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(story())
