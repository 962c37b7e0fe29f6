"""Promises are kept: whoever made room does not take the place back before it is given to whom it was made for."""

from __future__ import annotations

from dataclasses import replace

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Queue, Share, Status, World
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import task_of
from tests.scheduling.worlds import NOW, gang, node, told

QUEUES = (Queue("q", gpu=Share(16.0)), Queue("other", gpu=Share(16.0)))


def begun(*more):
    """Two nodes are held by a gang of two, one by another queue, and one is free."""
    machines = tuple(node(f"n{i}") for i in range(4))
    return State.build(World(machines, QUEUES, (gang("low", 2, 8.0, at="n0 n1"), *_other(), *more)))


def _other():
    return (gang("away", 1, 8.0, at="n2", queue="other"),)


def decided(state):
    return cycle(state, DEFAULT, NOW)


def replaced(state, *numbers):
    """The owner of evicted pods makes new ones while the old ones are still leaving."""
    for number in numbers:
        old = task_of(state, state.task_row[f"low-{number}"])
        state.put_task("low", replace(old, name=f"low-{number}-new", status=Status.PENDING, node=""))


def gone(state, *numbers):
    for number in numbers:
        state.drop_task(f"low-{number}")


def test_a_promised_gang_is_asked_in_every_cycle_and_its_place_is_nobody_elses():
    state = begun(gang("first", 2, 8.0, created=1.0), gang("high", 2, 8.0, priority=75, created=2.0))
    assert {eviction.gang for eviction in decided(state).evictions} == {"low"}
    for number in (0, 1):
        replaced(state, number)
        decisions = decided(state)
        assert {promise.gang for promise in decisions.pipelined} == {"high"}
        assert decisions.reasons["high"].code == "Reserved" and not decisions.evictions
    gone(state, 0)
    assert told(decided(state)) == "high->n0 high->n3"
    gone(state, 1)
    assert not decided(state).binds


def test_who_is_replaced_at_once_does_not_come_back_before_the_one_he_made_room_for():
    state = begun(gang("high", 2, 8.0, priority=75, created=2.0))
    decided(state)
    replaced(state, 0, 1)
    decided(state)
    gone(state, 0, 1)
    # Both fit: the one who was promised first of all, then the other on what is left of the four nodes.
    assert told(decided(state)).split()[0] == "high->n0"
    assert state.gangs["high"].pending() == 0


def test_of_two_promises_of_one_place_the_more_deserving_is_kept():
    early = replace(gang("a-early", 2, 8.0, created=1.0), promised=("n0", "n3"))
    high = replace(gang("z-high", 2, 8.0, priority=75, created=2.0), promised=("n0", "n3"))
    state = State.build(World(tuple(node(name) for name in ("n0", "n3")), QUEUES, (early, high)))
    state.promises = True
    assert told(decided(state)) == "z-high->n0 z-high->n3"
