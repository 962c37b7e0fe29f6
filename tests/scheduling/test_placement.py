"""Closed-form packing against the naive reading: score every node for every pod, take the best, repeat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.classes import GPU
from allaboard.scheduling.facts import Gang, PodSet, Status, SubGroup, Task, World
from allaboard.scheduling.ladder import Ladder
from allaboard.scheduling.placement import Board, fill
from allaboard.scheduling.state import State
from tests.scheduling.worlds import node, wish

# Per node: GPUs, GPUs taken, GPUs being released, CPUs.
machines = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=6
)


def state_of(rows):
    nodes, tasks = [], []
    for i, (gpus, taken, leaving, cpus) in enumerate(rows):
        nodes.append(
            node(f"n{i}", float(gpus)).__class__(
                f"n{i}", {"cpu": cpus * 1000.0, "memory": 1e12, "gpu": gpus, "pods": 9}
            )
        )
        parts = ((min(taken, gpus), Status.RUNNING), (min(leaving, max(gpus - taken, 0)), Status.RELEASING))
        tasks += [Task(f"t{i}{s}", wish(float(g), cpu=0.0), s, f"n{i}") for g, s in parts if g]
    gang = Gang("g", "q", tuple(tasks), SubGroup(pod_sets=(PodSet(minimum=1),)))
    return State.build(World(tuple(nodes), gangs=(gang,)))


def naive(state, klass, count, *, promises):
    """KAI's loop: rescore after every pod; idle room is worth 1000, fullness up to 9; ties by name."""
    idle, free = state.nodes.idle.copy(), state.nodes.idle + state.nodes.releasing
    placed = []
    for _ in range(count):
        room = free[GPU][state.nodes.capacity[GPU] != 0]
        low, high = (room.min(), max(room.max(), 0.0)) if room.size else (0.0, 0.0)
        best = None
        for row in range(len(state.nodes)):
            if any(klass.wants[r] > free[r, row] for r in klass.columns):
                continue
            on_idle = all(klass.wants[r] <= idle[r, row] for r in klass.columns)
            score = 1000.0 * on_idle
            if state.nodes.capacity[GPU, row] and high:
                score += 9.0 if low == high else 9 * (1 - (free[GPU, row] - low) / (high - low))
            if best is None or score > best[0]:
                best = (score, row, on_idle and not promises)
        if best is None:
            return None
        _, row, on_idle = best
        placed.append((row, on_idle))
        free[:, row] -= klass.wants
        if on_idle:
            idle[:, row] -= klass.wants
    return placed


@given(machines, st.integers(1, 3), st.integers(1, 7), st.booleans())
@settings(max_examples=200, deadline=None)
def test_filling_equals_placing_one_by_one(rows, gpus, count, promises):
    state = state_of(rows)
    klass = state.class_of(wish(float(gpus)))
    want = naive(state, klass, count, promises=promises)
    for among in (None, np.arange(len(state.nodes))):
        found = fill(Board(state.nodes, klass, among, None, None), count, pipeline_only=promises)
        assert (None if found is None else list(zip(found.rows, found.idle))) == want


@given(machines, st.integers(1, 3), st.lists(st.integers(1, 3), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_ladder_gives_idle_room_in_the_same_order(rows, gpus, counts):
    state = state_of(rows)
    klass = state.class_of(wish(float(gpus)))
    ladder = Ladder(state.nodes, klass, None)
    for count in counts:
        found = fill(Board(state.nodes, klass, None, None, None), count, pipeline_only=False)
        want = found.rows if found is not None and all(found.idle) else None
        taken = ladder.take(count)
        assert taken == want
        for row in taken or ():
            state.nodes.occupy(row, klass, Status.ALLOCATED, ())


def test_a_tier_outweighs_idle_room():
    state = state_of([(4, 0, 0, 6), (4, 0, 4, 6)])
    klass = state.class_of(wish(2.0))
    board = Board(state.nodes, klass, None, None, np.array([0.0, 100_000.0]))
    found = fill(board, 3, pipeline_only=False)
    assert found is not None
    assert list(zip(found.rows, found.idle)) == [(1, False), (1, False), (0, True)]


@pytest.mark.parametrize("count", [1, 2])
def test_work_that_asks_for_nothing_needs_only_a_slot(count):
    state = state_of([(0, 0, 0, 1)])
    klass = state.class_of(wish(0.0, 0.0, 0.0))
    found = fill(Board(state.nodes, klass, None, None, None), count, pipeline_only=False)
    assert found is not None and found.rows == [0] * count and all(found.idle)
