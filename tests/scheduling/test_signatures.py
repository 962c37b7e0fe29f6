"""Gangs that look like one that failed are passed over, unless they are easier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allaboard.scheduling.facts import Queue, Requirement, Share, World
from allaboard.scheduling.policy import KAI
from allaboard.scheduling.signatures import Failures, is_easier, is_smaller, signature
from allaboard.scheduling.state import State
from tests.scheduling.worlds import decide, gang, node


def pods(*gpus: float) -> list[dict[str, float]]:
    return [{"cpu": 1.0, "devices": count, "portion": float(count > 0)} for count in gpus]


PAIRS = {
    # mine, the one that failed, easier, smaller
    "the same again": (pods(1), pods(1), False, True),
    "less per pod": (pods(1), pods(2), True, True),
    "more per pod": (pods(2), pods(1), False, False),
    "fewer pods": (pods(1), pods(1, 1), True, True),
    "more pods": (pods(1, 1), pods(1), False, False),
    "the first that differs decides": (pods(1, 1), pods(1, 2), True, True),
    "nothing pending": ([], pods(1), False, False),
}


@pytest.mark.parametrize(("mine", "failed", "easier", "smaller"), PAIRS.values(), ids=PAIRS)
def test_pairs(mine, failed, easier, smaller):
    assert (is_easier(mine, failed), is_smaller(mine, failed)) == (easier, smaller)


def rows(*gangs):
    state = State.build(World((node("a"),), (Queue("q"), Queue("r", created=1.0)), gangs))
    return state, [state.gangs[each.name] for each in gangs]


def placed(each, **demand):
    return replace(each, tasks=tuple(replace(task, demand=replace(task.demand, **demand)) for task in each.tasks))


def test_what_pods_ask_for_is_no_part_of_the_picture_but_where_they_may_go_is():
    bound = placed(gang("b"), selector=(Requirement("zone", "In", ("x",)),))
    state, (one, two, tied, urgent) = rows(gang("a", gpus=4.0), gang("c"), bound, gang("d", priority=75))
    assert signature(state, one) == signature(state, two)
    assert len({signature(state, each) for each in (one, tied, urgent)}) == 3


def test_failures_are_remembered_by_queue_unless_they_are_shared():
    state, (large, small, other) = rows(gang("a", gpus=4.0), gang("b"), gang("c", gpus=4.0, queue="r"))
    for shared in (False, True):
        failures = Failures(state, shared=shared)
        failures.remember(large)
        assert failures.rule_out(large) and not failures.rule_out(small)
        assert failures.rule_out(other) is shared


def test_a_twin_of_a_failure_is_passed_over_and_an_easier_one_is_served():
    """The running gang is worth one GPU: the first claimant needs two and fails, its twin is not even tried."""
    queues = (Queue("q", gpu=Share(0.0, weight=0.0)), Queue("r", gpu=Share(8.0, weight=0.0), created=1.0))
    gangs = (gang("run", 1, 1.0, at="a"), *(gang(f"w{i}", 1, 2.0, queue="r", created=float(i)) for i in range(2)))
    easy = gang("easy", 1, 1.0, queue="r", created=9.0)
    facts = World((node("a", 1.0), node("b", 0.0)), queues, (*gangs, easy))
    for signatures in (True, False):
        decisions = decide(facts, replace(KAI, actions=("reclaim",), signatures=signatures))
        assert [promise.gang for promise in decisions.pipelined] == ["easy"]
