"""One for one: the short way ends where the search ends, or says nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.actions import OFFERS
from allaboard.scheduling.facts import Gang, PodSet, Queue, Share, Status, SubGroup, Task, World
from allaboard.scheduling.policy import DEFAULT, KAI
from allaboard.scheduling.scenario import Solver
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import rule_of, victims_of
from allaboard.scheduling.state import State
from allaboard.scheduling.swap import swap
from tests.scheduling.worlds import NOW, node, wish


@st.composite
def full_clusters(draw: st.DrawFn) -> World:
    """Every GPU is held by a gang of one, and others wait."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    places = [f"n{i}" for i, size in enumerate(sizes) for _ in range(size)]
    waiting = [""] * draw(st.integers(1, 4))
    gangs = []
    for number, place in enumerate(places + waiting):
        status = Status.RUNNING if place else Status.PENDING
        task = Task(
            f"g{number:02}-0", wish(draw(st.sampled_from([1.0, 1.0, 2.0])) if not place else 1.0), status, place
        )
        priority = draw(st.sampled_from([50, 75, 100]))
        queue = f"q{draw(st.integers(0, 2))}"
        tree = SubGroup(pod_sets=(PodSet(),))
        gangs.append(Gang(task.name[:3], queue, (task,), tree, priority, priority < 100, float(number)))
    share = st.builds(
        Share, st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([-1.0, 3.0]), st.sampled_from([0.0, 1.0])
    )
    queues = (Queue("p"), *(Queue(f"q{i}", "p", created=float(i), gpu=draw(share)) for i in range(3)))
    return World(tuple(node(f"n{i}", float(size)) for i, size in enumerate(sizes)), queues, tuple(gangs))


def ends(state: State) -> list[tuple[int, int]]:
    return list(zip(state.tasks.status, state.tasks.node))


@given(full_clusters(), st.sampled_from(["reclaim", "preempt"]), st.sampled_from([DEFAULT, KAI]))
@settings(max_examples=150, deadline=None)
def test_the_short_way_ends_where_the_search_ends(facts, action, policy):
    short = Session(State.build(facts), replace(policy, reserve_after=None), NOW)
    long = Session(State.build(facts), replace(policy, reserve_after=None), NOW)
    short.action = long.action = action
    for name in list(short.state.gangs.waiting):
        one, two = short.state.gangs[name], long.state.gangs[name]
        offers = OFFERS[action](short, one), OFFERS[action](long, two)
        if offers[0] is None or offers[1] is None:
            continue
        before = ends(short.state)
        found = swap(short, one, victims_of(short, one, offers[0]), rule_of(short, one, offers[0]))
        searched = Solver(long, two, victims_of(long, two, offers[1]), rule_of(long, two, offers[1])).solve()
        if found is None:
            assert ends(short.state) == before
        else:
            assert searched is not None and ends(short.state) == ends(long.state)
        return
