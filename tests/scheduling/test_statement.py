"""Statements: what is not committed leaves no trace, whatever was tried."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.boarding import Boarding
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ACTIVE
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.state import State
from allaboard.scheduling.statement import Committed, Statement
from tests.scheduling.chance import clusters
from tests.scheduling.worlds import gang, session_of, world


def trace(state: State) -> object:
    """Everything a cycle may change, as a value."""
    tasks = state.tasks
    return (
        state.nodes.idle.round(6).tolist(), state.nodes.releasing.round(6).tolist(),
        state.nodes.whole_gpus_used.tolist(),
        [[round(x, 6) for x in row] for row in state.queues.allocated],
        [[round(x, 6) for x in row] for row in state.queues.non_preemptible],
        list(tasks.status), list(tasks.node), list(tasks.groups), list(tasks.virtual),
        [list(tasks.ghosts.of(row)) for row in range(len(tasks.node))],
        {name: [list(leaf.count) for leaf in each.leaves] for name, each in state.gangs.items()},
    )  # fmt: skip


@given(clusters(sharing=False), st.lists(st.integers(0, 50), max_size=12), st.data())
@settings(max_examples=120, deadline=None)
def test_whatever_was_tried_is_taken_back(facts, picks, data):
    """But for shared devices, whose counters follow KAI's and are made anew at the end of a cycle."""
    session = session_of(facts)
    state = session.state
    before = trace(state)
    with session.statement() as statement:
        for pick in picks:
            _try_something(session, statement, pick)
            if data.draw(st.integers(0, 4)) == 0:
                statement.rollback(data.draw(st.integers(0, statement.checkpoint())))
    assert trace(state) == before


def _try_something(session, statement, pick):
    """Evict some gang, or place one again as the solver would."""
    gangs = sorted(session.state.gangs)
    if not gangs:
        return
    chosen = session.state.gangs[gangs[pick % len(gangs)]]
    if pick % 2:
        for row in chosen.rows:
            if IS_ACTIVE[session.state.tasks.status[row]]:
                statement.evict(row)
    else:
        wanted = to_place(session.state, chosen, simulated=True)
        Boarding(session, statement, chosen, wanted, promises_only=pick % 4 == 0).run()


def test_an_exception_undoes_too():
    session = session_of(world("a:2", "x:1x1"))
    before = trace(session.state)
    with pytest.raises(RuntimeError), session.statement() as statement:
        statement.allocate([0], [0])
        raise RuntimeError
    assert trace(session.state) == before


def test_a_committed_allocation_is_a_bind():
    session = session_of(world("a:2", "x:2x1"))
    with session.statement() as statement:
        statement.allocate([0, 1], [0, 0])
        statement.commit()
    assert session.log.binds == [(0, 0), (1, 0)]
    assert session.state.tasks.status[0] == Status.BINDING


def test_an_evicted_task_pipelined_onto_its_own_place_is_put_back():
    facts = world("a:2")
    facts = facts.__class__(facts.nodes, facts.queues, (gang("x", 1, at="a"),))
    state, log = State.build(facts), Committed()
    before = trace(state)
    statement = Statement(state, log)
    statement.evict(0)
    assert statement.pipeline([0], [0])
    assert trace(state) == before
    statement.commit()
    assert not log.evictions and not log.pipelines


def test_a_moved_task_holds_both_places_until_it_is_gone():
    facts = world("a:1 b:1")
    facts = facts.__class__(facts.nodes, facts.queues, (gang("x", 1, at="a"),))
    state, log = State.build(facts), Committed()
    statement = Statement(state, log)
    statement.evict(0)
    statement.pipeline([0], [1])
    statement.commit()
    assert (log.evictions, log.pipelines) == ([0], [(0, 1)])
    assert state.nodes.idle[2].tolist() == [0.0, 1.0]
    assert state.nodes.releasing[2].tolist() == [1.0, -1.0]
