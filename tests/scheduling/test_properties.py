"""What must hold for any cluster, with our own policy. The quick suite takes a few hundred examples, `FUZZ=n` as
many as wanted."""

from __future__ import annotations

import os
import random
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.replay import in_order, told
from allaboard.scheduling.state import State
from tests.scheduling.chance import clusters, single_jobs
from tests.scheduling.worlds import NOW, carried_out

EXAMPLES = int(os.environ.get("FUZZ", "120"))
ROUNDS = 8
policies = st.sampled_from([DEFAULT, replace(DEFAULT, fewest_victims=True)])
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@given(clusters(), policies)
@many
def test_no_node_is_oversold(facts, policy):
    state = State.build(facts)
    for _ in range(3):
        carried_out(state, cycle(state, policy, NOW))
        assert (state.nodes.idle >= -1e-6).all()


@given(clusters())
@many
def test_a_gang_is_placed_whole_or_not_at_all(facts):
    state = State.build(facts)
    before = {name: gang.active() for name, gang in state.gangs.items()}
    decisions = cycle(state, DEFAULT, NOW)
    for name in {bind.gang for bind in decisions.binds}:
        gang = state.gangs[name]
        whole = all(leaf.active() >= leaf.minimum for leaf in gang.leaves)
        assert whole or before[name] > 0, f"{name} is bound in part"


@given(clusters(), policies)
@many
def test_nobody_is_evicted_for_nothing(facts, policy):
    state = State.build(facts)
    decisions = cycle(state, replace(policy, stale_grace=-1.0), NOW)
    placed = {promise.gang for promise in decisions.pipelined} | {bind.gang for bind in decisions.binds}
    assert {eviction.by for eviction in decisions.evictions} <= placed


@given(clusters(), st.randoms(use_true_random=False))
@many
def test_the_order_of_the_input_never_matters(facts, chance):
    decisions = cycle(State.build(facts), DEFAULT, NOW)
    shuffled = replace(
        facts,
        nodes=_shuffled(facts.nodes, chance),
        queues=_shuffled(facts.queues, chance),
        gangs=_shuffled(facts.gangs, chance),
    )
    again = cycle(State.build(shuffled), DEFAULT, NOW)
    assert _sorted(told(again)) == _sorted(told(decisions))
    assert in_order(shuffled) == in_order(facts)


def _shuffled(values: tuple, chance: random.Random) -> tuple:
    return tuple(chance.sample(values, len(values)))


def _sorted(text: bytes) -> list[int]:
    return sorted(text)


@given(clusters(), policies)
@many
def test_a_fixed_point_is_reached(facts, policy):
    state, policy = State.build(facts), replace(policy, stale_grace=-1.0)
    for _ in range(ROUNDS):
        decisions = cycle(state, policy, NOW)
        if not decisions.binds and not decisions.evictions:
            return
        carried_out(state, decisions)
    decisions = cycle(state, policy, NOW)
    assert not decisions.binds and not decisions.evictions


@given(single_jobs())
@many
def test_no_queue_stays_below_its_own_while_another_has_more_than_its_own(facts):
    state = State.build(facts)
    for _ in range(ROUNDS):
        carried_out(state, cycle(state, DEFAULT, NOW))
    queues = state.queues
    rows = range(len(queues))
    poor = [r for r in rows if queues.allocated[r][2] < min(queues.quota[r][2], queues.requested[r][2])]
    rich = [r for r in rows if queues.allocated[r][2] > queues.quota[r][2]]
    assert not (poor and rich)
