"""Keys that are due: once each, one worker per key, later ones by the clock."""

import asyncio
from datetime import timedelta

import pytest

from allaboard.api.documents import Key
from allaboard.kube.queue import LONGEST_DELAY, Queue, backoff
from allaboard.testing.clock import FakeClock

A, B = Key("ns", "a"), Key("ns", "b")


def taken(queue):
    """The keys that can be had right now, in order."""

    async def take():
        keys = []
        while queue.depth:
            keys.append(await queue.get())
        return keys

    return asyncio.run(take())


def test_a_key_said_twice_is_due_once():
    queue = Queue(FakeClock())
    for key in (A, B, A):
        queue.add(key)
    assert taken(queue) == [A, B]


def test_a_key_being_worked_on_waits_for_its_worker():
    async def story():
        queue = Queue(FakeClock())
        queue.add(A)
        await queue.get()
        queue.add(A)
        assert queue.depth == 0
        queue.done(A)
        return queue.depth

    assert asyncio.run(story()) == 1


def test_a_worker_that_waits_is_woken():
    async def story():
        queue = Queue(FakeClock())
        worker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add(A)
        return await worker

    assert asyncio.run(story()) == A


def test_a_delayed_key_comes_when_its_moment_does_and_the_earlier_moment_wins():
    async def story():
        clock = FakeClock()
        queue = Queue(clock)
        running = asyncio.create_task(queue.run())
        queue.add_at(A, clock.now() + timedelta(seconds=60))
        queue.add_at(A, clock.now() + timedelta(seconds=10))
        seen = []
        for _ in range(3):
            await settle()
            seen.append(queue.depth)
            clock.advance(9)
        running.cancel()
        return seen

    assert asyncio.run(story()) == [0, 0, 1]


def test_what_the_last_pass_says_about_coming_back_counts():
    async def story():
        clock = FakeClock()
        queue = Queue(clock)
        running = asyncio.create_task(queue.run())
        for key, seconds in ((A, 5), (B, 5), (A, None), (B, 15)):
            queue.come_back(key, seconds and clock.now() + timedelta(seconds=seconds))
        seen = []
        for _ in range(3):
            await settle()
            seen.append(queue.depth)
            clock.advance(9)
        running.cancel()
        return seen, await queue.get()

    assert asyncio.run(story()) == ([0, 0, 1], B)


def test_a_failed_key_comes_back_later_each_time_and_success_forgets():
    async def story():
        clock = FakeClock()
        queue = Queue(clock)
        waits = []
        for _ in range(3):
            queue.add(A)
            key = await queue.get()
            waits.append((queue.failed(key) - clock.now()).total_seconds())
            queue._at.clear()
        queue.add(A)
        queue.done(await queue.get())
        queue.add(A)
        waits.append((queue.failed(await queue.get()) - clock.now()).total_seconds())
        return waits

    assert asyncio.run(story()) == [0.005, 0.01, 0.02, 0.005]


CASES = {"the first failure": (1, 0.005), "the tenth": (10, 2.56), "the fortieth is the longest": (40, 1000.0)}


@pytest.mark.parametrize(("failures", "seconds"), CASES.values(), ids=CASES)
def test_backoff(failures, seconds):
    assert backoff(failures).total_seconds() == seconds
    assert backoff(failures, jitter=1.0) <= LONGEST_DELAY * 1.1


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)
