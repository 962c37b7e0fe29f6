"""The solver's short cuts: they may spare trials, never change what is decided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.actions import ACTIONS
from allaboard.scheduling.policy import KAI
from allaboard.scheduling.probe import Need, enough, greedy
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State
from tests.scheduling.chance import clusters
from tests.scheduling.worlds import NOW


@given(
    st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(-2, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=8),
)  # fmt: skip
def test_equal_needs_are_counted_as_the_greedy_match_would(size, count, rooms, grown):
    room = np.array(rooms, dtype=float)
    need = Need([float(size)] * count, room)
    for node, gpus in grown:
        if node < len(rooms):
            need.grow(node, float(gpus))
        best = np.sort(need.room)[::-1][:count].tolist()
        assert need.met() == greedy([float(size)] * count, best)


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 12))
def test_enough_is_the_shortest_beginning_that_covers(amounts, missing):
    want = next((n for n in range(1, len(amounts) + 1) if sum(amounts[:n]) >= missing), len(amounts) + 1)
    assert enough([float(amount) for amount in amounts], float(missing)) == want


def decided(facts, policy):
    session = Session(State.build(facts), policy, NOW)
    for action in policy.actions:
        session.action = action
        ACTIONS[action](session)
    return session.log.binds, session.log.pipelines, session.log.evictions


@given(clusters())
@settings(max_examples=150, deadline=None)
def test_hopeless_trials_would_have_failed(facts):
    """With every short cut off, the same tasks are bound, promised and evicted."""
    assert decided(facts, KAI) == decided(facts, replace(KAI, thorough=True))
