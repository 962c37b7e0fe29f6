"""Closed-form packing against the naive reading: score every node for every pod, take the best, repeat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.classes import GPU
from allaboard.scheduling.facts import (
    Gang,
    Neighbours,
    PodSet,
    Queue,
    Requirement,
    Share,
    Status,
    SubGroup,
    Task,
    World,
)  # fmt: skip
from allaboard.scheduling.ladder import Ladder, has_rungs
from allaboard.scheduling.placement import Board, fill
from allaboard.scheduling.policy import DEFAULT, KAI
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State
from tests.scheduling.worlds import decide, gang, node, told, wish

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
    klass = state.classes.of(wish(float(gpus)))
    want = naive(state, klass, count, promises=promises)
    for among in (None, np.arange(len(state.nodes))):
        found = fill(Board(state.nodes, klass, among, None, None), count, pipeline_only=promises)
        assert (None if found is None else list(zip(found.rows, found.idle))) == want


scores = st.one_of(st.none(), st.lists(st.sampled_from([0.0, 10.0]), min_size=6, max_size=6))


steps = st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=6)


@given(machines, st.integers(0, 3), steps, scores)
@settings(max_examples=250, deadline=None)
def test_a_ladder_gives_idle_room_in_the_same_order(rows, gpus, steps, worth):
    """Also after a step was taken back."""
    state = state_of(rows)
    klass = state.classes.of(wish(float(gpus)))
    score = None if worth is None else np.array(worth[: len(state.nodes)])
    assert has_rungs(klass, score)
    ladder = Ladder(state.nodes, klass, None, score)
    for count, stays in steps:
        found = fill(Board(state.nodes, klass, None, None, score), count, pipeline_only=False)
        want = found.rows if found is not None and all(found.idle) else None
        taken = ladder.take(count)
        assert taken == want
        for row in taken or ():
            state.nodes.occupy(row, klass, Status.ALLOCATED, ())
        for row in taken or () if not stays else ():
            state.nodes.vacate(row, klass, Status.ALLOCATED, ())


def test_who_finds_nodes_by_a_ladder():
    classes = state_of([(4, 0, 0, 6)]).classes
    gpus, cpus, nothing, memory = (
        classes.of(wish(*asked)) for asked in ((1.0,), (0.0, 9.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1e9))
    )
    flat, tiers = np.array([10.0, 0.0]), np.array([0.0, 100_000.0])
    assert [has_rungs(klass, None) for klass in (gpus, cpus, nothing, memory)] == [True, True, False, True]
    assert [has_rungs(klass, flat) for klass in (gpus, cpus, nothing, memory)] == [True, True, False, False]
    assert not has_rungs(gpus, tiers)


OVERSOLD = {"nothing is oversold": ("a", [True, True]), "a node is: only KAI minds": ("a a", [True, False])}


@pytest.mark.parametrize(("stands", "kept"), OVERSOLD.values(), ids=OVERSOLD)
def test_a_ladder_does_not_see_who_is_oversold(stands, kept):
    state = State.build(World((node("a", 1.0), node("b", 4.0)), gangs=(gang("on", len(stands.split()), at=stands),)))
    klass = state.classes.of(wish(0.0, 1000.0))
    assert [Session(state, policy, 0.0).panel.ladder(klass) is not None for policy in (DEFAULT, KAI)] == kept


def test_a_tier_outweighs_idle_room():
    state = state_of([(4, 0, 0, 6), (4, 0, 4, 6)])
    klass = state.classes.of(wish(2.0))
    board = Board(state.nodes, klass, None, None, np.array([0.0, 100_000.0]))
    found = fill(board, 3, pipeline_only=False)
    assert found is not None
    assert list(zip(found.rows, found.idle)) == [(1, False), (1, False), (0, True)]


@pytest.mark.parametrize("count", [1, 2])
def test_work_that_asks_for_nothing_needs_only_a_slot(count):
    state = state_of([(0, 0, 0, 1)])
    klass = state.classes.of(wish(0.0, 0.0, 0.0))
    found = fill(Board(state.nodes, klass, None, None, None), count, pipeline_only=False)
    assert found is not None and found.rows == [0] * count and all(found.idle)


NEAR = Neighbours("host", (Requirement("app", "In", ("db",)),), weight=10)
NEIGHBOURS = {
    "packed where nobody cares": ((), "a"),
    "rather near": ((NEAR,), "b"),
    "rather away": ((replace(NEAR, anti=True),), "a"),
    "the heavier wish wins": ((NEAR, replace(NEAR, anti=True, weight=90)), "a"),
}


@pytest.mark.parametrize(("wishes", "want"), NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_preferred_neighbours(wishes, want):
    """Node a is fuller, so packing takes it; the pod whose company is sought or shunned stands on b."""
    machines = tuple(node(name, labels={"host": name}) for name in "ab")
    company = Gang("db", "q", (Task("db-0", wish(), Status.RUNNING, "b", labels={"app": "db"}),), priority=100)
    filler = gang("filler", 4, at="a a a a", priority=100, preemptible=False)
    guest = Gang("x", "q", (Task("x-0", replace(wish(), preferred=wishes)),))
    facts = World(machines, (Queue("q", gpu=Share(99.0)),), (company, filler, guest))
    assert told(decide(facts)) == f"x->{want}"


def test_a_node_that_owes_gpus_takes_nobody_where_kai_is_followed_to_the_letter():
    facts = World(
        (node("a", 1.0), node("b", 4.0)), (Queue("q", gpu=Share(99.0)),), (gang("on", 2, at="a a"), gang("x", 1, 0.0))
    )
    full = replace(facts, gangs=(*facts.gangs, gang("filler", 9, 0.0, at="a " * 9)))
    assert [told(decide(full, replace(policy, actions=("allocate",)))) for policy in (DEFAULT, KAI)] == ["x->a", "x->b"]
