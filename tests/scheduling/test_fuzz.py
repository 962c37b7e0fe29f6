"""Clusters that once broke a promise, by their seed; and every promise can be broken at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Bind, Decisions, Eviction
from allaboard.scheduling.facts import Queue, Share, World
from allaboard.scheduling.memory import Refused
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import task_of
from tests.scheduling import fuzz
from tests.scheduling.worlds import NOW, gang, node, world

SEEDS = {
    "whoever had made room was promised the place of the gang he made it for": 138,
    "two devices made in one second had one name": 258,
    "a sum of shares depended on the order of its parts": 152,
    "the solver took nodes that were kept for another gang": 1267,
    "counters of shared devices did not come back": 1677,
    "a moved gang was packed back onto the node it had left": 10932,
    "the same, with shared devices": 10606,
    "a task evicted twice made its queue look poorer": 212038,
    "a promise inside a topology was not kept": 300005,
    "a node that was given back its room stood on the ladder twice": 607890,
    "an elastic gang kept its minimum of what it was promised, and had more room made": 6825,
    "a gang was not asked again after the deeds of the cycle that refused it": 60,
    "a promise inside a topology was refused for a better place beside it": 24083,
    "a pod was bound to a shared device that was only promised to another": 345,
    "a promised gang was packed together on nodes it was promised a part of": 3465,
    "three gangs chased each other: one grew by breaking a gang of its queue": 16988,
    "consolidation gave what a reservation kept, and the promise was not kept": 28816,
    "growth that was promised was not kept while the minimum was only promised": 45283,
    "a gang that was moved took more of the nodes kept for another than it had left there": 84152,
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_seeds(seed):
    assert fuzz.look(seed) == []


def test_an_oversold_node_is_noticed():
    state = State.build(World((node("a", 1.0),), world("a:1").queues, (gang("x", 2, at="a a"),)))
    assert list(fuzz.oversold(state)) == ["oversold: a node gave more than it has"]


def test_half_a_gang_is_noticed():
    state = State.build(world("a:4", "x:2x1"))
    state.put_task("x", task_of(state, state.tasks.row_of["x-0"]))
    decisions = Decisions(binds=(Bind("x-0", "x", "a"),))
    assert list(fuzz.whole(state, {"x": 0}, decisions)) == ["whole or not at all: x is bound in part"]


def test_an_eviction_for_nothing_is_noticed():
    decisions = Decisions(evictions=(Eviction("x-0", "x", "reclaim", "y", ""),))
    told = ["no eviction without a placement: x-0 left for y, which got nothing"]
    assert list(fuzz.worth_it(decisions)) == told


def test_a_decision_that_depends_on_the_order_of_the_input_is_noticed():
    facts = world("a:4", "x:2x1")
    told = ["input order never matters: another order, another decision"]
    assert list(fuzz.orderless(facts, DEFAULT, Decisions(), fuzz.random.Random(0))) == told


def test_work_without_end_is_noticed():
    state = State.build(world("a:1", "x:1x1"))
    state.put_task("x", task_of(state, state.tasks.row_of["x-0"]))
    endless = Decisions(binds=(Bind("x-0", "x", "a"),))
    assert next(iter(fuzz.settles(state, DEFAULT, endless, rounds=0))) == "fixed point: still at work after 0 rounds"


def test_room_made_in_vain_again_and_again_is_noticed(monkeypatch):
    told = Decisions(evictions=(Eviction("x-0", "x", "preempt", "y", ""),))
    answers = iter([told, replace(told, evictions=(Eviction("x-0'0", "x", "preempt", "y", ""),)), told])
    monkeypatch.setattr(fuzz, "cycle", lambda *_: next(answers))
    facts = World((node("a", 1.0),), world("a:1").queues, (gang("x", at="a"), gang("y")))
    (words,) = fuzz.steady(facts, DEFAULT, fuzz.random.Random(0))
    assert words == "once is enough: ('x', 'y') made room three times in vain"


def test_a_gang_that_is_never_asked_is_noticed():
    state = State.build(world("a:4", "x:2x1"))
    state.memory.refused["x"] = Refused(state.memory.relief, Reason("Fragmented", ""))
    assert not cycle(state, DEFAULT, NOW).binds
    assert list(fuzz.awake(state, DEFAULT)) == ["nothing overlooked: x waits for what it could have"]


def test_a_queue_below_its_own_is_noticed():
    facts = world("a:1")
    queues = (Queue("q", gpu=Share(0.0, -1.0, 0.0)), Queue("r", gpu=Share(1.0), created=1.0))
    stuck = replace(facts, queues=queues, gangs=(gang("x", at="a", preemptible=False), gang("y", queue="r")))
    assert list(fuzz.just(stuck)) == ["its own first: a queue is below its quota while another is above"]
