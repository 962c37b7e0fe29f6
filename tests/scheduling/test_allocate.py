"""Allocation: gangs get free room whole or not at all, in fair order, packed."""

from __future__ import annotations

import pytest

from allaboard.scheduling.facts import PodSet, Queue, Share, SubGroup
from tests.scheduling.worlds import decide, gang, told, world

CASES = {
    #                                          nodes        gangs          want
    "a gang takes the room it needs":         ("a:2",       "x:2x1",       "x->a x->a"),
    "half a gang is no gang":                 ("a:1 b:1",   "x:3x1",       ""),
    "a blocked gang leaves no trace":         ("a:2",       "x:3x1 y:2x1", "y->a y->a"),
    "the fuller node is filled first":        ("a:4 b:4/2", "x:2x1",       "x->b x->b"),
    "equal nodes are taken by name":          ("b:1 a:1",   "x:1x1",       "x->a"),
    "a gang spreads when one node is short":  ("a:2 b:2",   "x:3x1",       "x->a x->a x->b"),
    "older gangs go first":                   ("a:2",       "x:2x1 y:2x1", "x->a x->a"),
    "a pod larger than any node waits":       ("a:2 b:2",   "x:1x3",       ""),
    "work without gpus needs none":           ("a:0",       "x:1x0",       "x->a"),
    "nothing to do":                          ("a:2",       "",            ""),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "gangs", "want"), CASES.values(), ids=CASES)
def test_allocate(nodes, gangs, want):
    assert told(decide(world(nodes, gangs))) == want


def test_an_elastic_gang_starts_with_its_minimum_and_grows():
    facts = world("a:3")
    facts = facts.__class__(facts.nodes, facts.queues, (gang("x", 5, least=2),))
    assert told(decide(facts)) == "x->a x->a x->a"


def test_higher_priority_goes_first():
    facts = world("a:1")
    gangs = (gang("low", created=1.0), gang("high", created=2.0, priority=75))
    assert told(decide(facts.__class__(facts.nodes, facts.queues, gangs))) == "high->a"


def test_a_queue_at_its_limit_waits_and_says_so():
    queues = (Queue("q", gpu=Share(1.0, 2.0)),)
    facts = world("a:8", "x:2x1 y:1x1", queues)
    decisions = decide(facts)
    assert told(decisions) == "x->a x->a"
    assert decisions.reasons["y"].code == "OverLimit"
    assert decisions.reasons["y"].message == ('needs 1 gpu, but queue "q" may use 0 more: it holds 2 of its limit 2')


def test_the_poorer_queue_is_served_first():
    queues = (Queue("poor", created=1.0, gpu=Share(2.0)), Queue("rich", created=0.0, gpu=Share(2.0)))
    gangs = (
        gang("run", 2, at="a a", queue="rich"),
        gang("old", 1, queue="rich", created=1.0),
        gang("new", 1, queue="poor", created=2.0),
    )
    facts = world("a:3")
    assert told(decide(facts.__class__(facts.nodes, queues, gangs))) == "new->a"


def test_pod_sets_of_a_gang_start_together():
    tree = SubGroup(pod_sets=(PodSet("leader", 1), PodSet("worker", 2)))
    made = gang("x", 3, tree=tree)
    names = ("leader", "worker", "worker")
    tasks = tuple(task.__class__(task.name, task.demand, pod_set=name) for task, name in zip(made.tasks, names))
    whole = made.__class__(made.name, made.queue, tasks, tree)
    facts = world("a:2 b:1")
    assert told(decide(facts.__class__(facts.nodes, facts.queues, (whole,)))).count("x->") == 3
    facts = world("a:2")
    assert told(decide(facts.__class__(facts.nodes, facts.queues, (whole,)))) == ""
