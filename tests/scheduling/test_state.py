"""The kept state: whatever events come, it equals one built from its facts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling import surroundings
from allaboard.scheduling.classes import MANY
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Claim, Node, Queue, Share, Status, Task, Topology
from allaboard.scheduling.policy import DEFAULT, KAI
from allaboard.scheduling.selfcheck import differences
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import world_of
from tests.scheduling.chance import clusters
from tests.scheduling.worlds import NOW, gang, node, team, wish, world

EVENTS = (
    lambda state, n: surroundings.put_node(state, node(f"n{n % 5}", float(n % 9))),
    lambda state, n: surroundings.put_node(
        state, replace(node(f"n{n % 5}", 4.0), ready=bool(n % 2), labels={"x": str(n)})
    ),
    lambda state, n: surroundings.drop_node(state, f"n{n % 5}"),
    lambda state, n: surroundings.put_queue(state, Queue(f"q{n % 4}", gpu=Share(float(n % 7)))),
    lambda state, n: surroundings.drop_queue(state, f"q{n % 4}"),
    lambda state, n: state.put_gang(gang(f"g{n % 6}", 1 + n % 3, queue=f"q{n % 3}")),
    lambda state, n: state.drop_gang(f"g{n % 6}"),
    lambda state, n: state.put_task(f"g{n % 6}", Task(f"g{n % 6}-0", wish(), Status.RUNNING, f"n{n % 5}")),
    lambda state, n: state.put_task(f"g{n % 6}", Task(f"g{n % 6}-{n % 4}", wish(), Status(n % 12), f"n{n % 5}")),
    lambda state, n: state.drop_task(f"g{n % 6}-0"),
    lambda state, n: surroundings.put_stranger(state, Task(f"s{n % 2}", wish(0.0), Status.RUNNING, f"n{n % 5}")),
    lambda state, n: surroundings.drop_stranger(state, f"s{n % 2}"),
    lambda state, n: surroundings.put_topology(state, Topology("t", ("x",))),
    lambda state, n: surroundings.put_claim(state, Claim(f"c{n % 2}", "gpus", n % 3)),
    lambda state, n: cycle(state, DEFAULT, NOW + n),
    lambda state, n: cycle(state, KAI, NOW + n),
)


@given(clusters(), st.lists(st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 100)), max_size=25))
@settings(max_examples=120, deadline=None)
def test_events_and_cycles_keep_the_state_sound(facts, events):
    state = State.build(facts)
    for kind, number in events:
        EVENTS[kind](state, number)
        assert differences(state) == []


def test_a_new_node_keeps_what_stands_on_the_others():
    facts = world("b:2 d:2")
    state = State.build(replace(facts, gangs=(gang("x", 2, at="b d"),)))
    surroundings.put_node(state, node("a", 8.0))
    surroundings.put_node(state, node("c", 8.0))
    assert state.nodes.names == ["a", "b", "c", "d"]
    assert state.nodes.idle[2].tolist() == [8.0, 1.0, 8.0, 1.0]
    assert differences(state) == []


def test_a_node_that_vanishes_leaves_its_tasks_nowhere():
    facts = world("a:2 b:2")
    state = State.build(replace(facts, gangs=(gang("x", 2, at="a b"),)))
    surroundings.drop_node(state, "a")
    assert [state.tasks.status[row] for row in state.gangs["x"].rows] == [Status.UNKNOWN, Status.RUNNING]
    assert cycle(state, DEFAULT, NOW).binds == ()


def test_a_new_resource_becomes_a_column():
    state = State.build(world("a:2", "x:1x1"))
    surroundings.put_node(state, Node("b", {"cpu": 1000.0, "memory": 1e9, "pods": 10.0, "example.com/thing": 3.0}))
    assert state.nodes.capacity[state.classes.resources["example.com/thing"]].tolist() == [0.0, 3.0]
    assert differences(state) == []


def test_a_confirmed_bind_changes_nothing():
    state = State.build(world("a:2", "x:1x1"))
    cycle(state, DEFAULT, NOW)
    version = state.memory.version
    task = world_of(state).gangs[0].tasks[0]
    assert task.status == Status.BINDING
    state.put_task("x", replace(task, status=Status.RUNNING))
    assert state.memory.version == version
    assert world_of(state).gangs[0].tasks[0].status == Status.RUNNING
    assert differences(state) == []


def test_a_cycle_without_change_is_the_last_one_without_its_deeds():
    state = State.build(world("a:2", "x:1x1 y:2x1"))
    first = cycle(state, DEFAULT, NOW)
    assert first.binds
    second = cycle(state, DEFAULT, NOW)
    third = cycle(state, DEFAULT, NOW)
    assert second.binds == third.binds == ()
    assert second.reasons.keys() == third.reasons.keys() == {"y"}


def test_a_refused_gang_is_not_asked_again_until_something_could_help():
    state = State.build(world("a:2", "x:2x1 y:1x1"))
    first = cycle(state, DEFAULT, NOW)
    assert not state.memory.hopeless(NOW), "what a cycle did may help those it had refused before"
    assert cycle(state, DEFAULT, NOW).reasons["y"] == first.reasons["y"], "who came first is not unsaid"
    assert state.memory.hopeless(NOW) == {"y"}
    state.put_gang(gang("z", 1, 0.0, created=9.0))
    assert state.memory.hopeless(NOW) == {"y"}
    state.drop_gang("x")
    assert not state.memory.hopeless(NOW)
    assert {bind.gang for bind in cycle(state, DEFAULT, NOW).binds} == {"y", "z"}


def test_demands_that_nobody_has_any_more_are_forgotten():
    state = State.build(world("a:8", "stays:1x1"))
    for number in range(3 * MANY):
        state.put_gang(team("passing", wish(cpu=1000.0 + number), [""]))
    cycle(state, DEFAULT, NOW)
    assert len(state.classes) == 2
    assert differences(state) == []
