"""Whose turn it is: the kept heaps and the shortened replay against asking everybody every time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.order import JobOrder
from allaboard.scheduling.selection import to_place
from tests.scheduling.chance import clusters
from tests.scheduling.worlds import session_of


def naive_best(session, gangs, parent=-1):
    """The best gang below a queue: compare children through their best descendant, afresh."""
    queues = session.state.queues
    best = None
    for row in queues.children.get(parent, ()):
        if queues.is_leaf(row):
            mine = [gang for gang in gangs if gang.queue == row]
            top = min(mine, key=session.panel.gang_key, default=None)
        else:
            top = naive_best(session, gangs, row)
        if top is None:
            continue
        key = session.rule.key(row, session.request(top))
        if best is None or session.rule.before(row, best[0], (key, best[1])):
            best = (row, key, top)
    return best[2] if best else None


def naive_order(session, gangs):
    left = list(gangs)
    while left:
        gang = naive_best(session, left)
        left.remove(gang)
        yield gang


@given(clusters())
@settings(max_examples=120, deadline=None)
def test_popping_equals_asking_everybody(facts):
    session = session_of(facts)
    gangs = list(session.candidates())
    want = [gang.name for gang in naive_order(session, gangs)]
    order = session.waiting(gangs)
    popped = [gang.name for gang in iter(order.pop, None)]
    assert popped == want


@given(clusters(), st.data())
@settings(max_examples=120, deadline=None)
def test_popping_follows_what_queues_hold(facts, data):
    session = session_of(facts)
    gangs = list(session.candidates())
    order = session.waiting(gangs)
    left = list(gangs)
    while left:
        want = naive_best(session, left)
        assert order.pop() is want
        left.remove(want)
        if data.draw(st.booleans()):
            amounts = session.amounts(to_place(session.state, want))
            session.state.queues.count(want.queue, amounts, 1.0, preemptible=want.preemptible)
    assert order.pop() is None


@given(clusters(), st.data())
@settings(max_examples=150, deadline=None)
def test_the_replay_passes_over_those_who_only_wait(facts, data):
    session = session_of(facts)
    waiting = [gang for gang in session.state.gangs.values() if gang.queue >= 0 and gang.pending()]
    every = [gang for gang in session.state.gangs.values() if gang.queue >= 0 and to_place(session.state, gang)]
    matter = set(data.draw(st.lists(st.sampled_from(every), unique_by=lambda gang: gang.name))) if every else set()
    order = JobOrder(session.rule, session.request)
    order.fill((session.panel.gang_key(gang), gang) for gang in set(waiting) | matter)
    want = [gang.name for gang in iter(order.pop, None) if gang in matter]
    assert [gang.name for gang in session.replay_order(matter)] == want
