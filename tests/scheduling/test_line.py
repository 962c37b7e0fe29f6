"""The line of those who wait: places, who came first, when there could be room, and who is not asked at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Queue, Share, Taint, World
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.state import State
from allaboard.scheduling.whatif import what_if
from tests.scheduling.worlds import NOW, decide, gang, node

RICH = (Queue("q", gpu=Share(100.0)), Queue("r", gpu=Share(100.0), created=1.0))
UNREADY = Taint("node.kubernetes.io/not-ready")
PATIENT = replace(DEFAULT, reserve_after=None)


ONE = (node("a", 2.0),)


def reason(name: str, *gangs, nodes=ONE, queues=RICH, policy=PATIENT):
    return decide(World(tuple(nodes), tuple(queues), gangs), policy).reasons[name]


CODES = {
    "who came later waits behind who came first":
        ((gang("x", 2, created=1.0), gang("y", created=2.0)), {}, "BehindOrder",
         '"x" (queue q, priority 50) came first and took what was free: now 0 gpu free, needs 1 gpu'),
    "a higher rank goes first":
        ((gang("x", 2, priority=75, created=2.0), gang("y", created=1.0)), {}, "BehindPriority",
         '"x" (queue q, priority 75) came first and took what was free: now 0 gpu free, needs 1 gpu'),
    "what was taken long ago is simply not there":
        ((gang("x", 2, at="a a"), gang("y")), {}, "InsufficientResource",
         "0 of 1 tasks fit (1 gpu each); needs 1 gpu, 0 free"),
    "a closed queue starts nothing":
        ((gang("y"),), {"queues": (Queue("q", gpu=Share(9.0), closed=True),)}, "QueueClosed",
         'queue "q" is closed: what runs goes on, nothing starts'),
    "a queue below a closed one is closed":
        ((gang("y"),), {"queues": (Queue("p", closed=True), Queue("q", "p", gpu=Share(9.0)))}, "QueueClosed",
         'queue "p", which is above "q", is closed: what runs goes on, nothing starts'),
    "a gang the server refused is not tried for a while":
        ((gang("y", held="the server refused its requests"),), {}, "Backoff", "the server refused its requests"),
    "nodes that start are waited for":
        ((gang("y"),), {"nodes": (node("a", 2.0, ready=False, taints=(UNREADY,)),)}, "NodesUnready",
         "0 of 1 tasks fit (1 gpu each); waiting for nodes: 1 of 1 are not ready yet"),
    "a node that is ready but not told so yet is starting":
        ((gang("y"),), {"nodes": (node("a", 2.0, taints=(UNREADY,)),)}, "NodesUnready",
         "0 of 1 tasks fit (1 gpu each); waiting for nodes: 1 of 1 are not ready yet"),
    "a gang that needs the node that starts waits for it":
        ((gang("y", 3),), {"nodes": (node("a", 2.0), node("b", 2.0, ready=False))}, "NodesUnready",
         "2 of 3 tasks fit (1 gpu each); waiting for nodes: 1 of 2 are not ready yet"),
    "other taints stay what they are":
        ((gang("y"),), {"nodes": (node("a", 2.0, taints=(Taint("mine"),)),)}, "Tainted",
         "0 of 1 tasks fit (1 gpu each); all 1 matching nodes have taints it does not tolerate"),
}  # fmt: skip


@pytest.mark.parametrize(("gangs", "world", "code", "words"), CODES.values(), ids=CODES)
def test_codes(gangs, world, code, words):
    told = reason("y", *gangs, **world)
    assert (told.code, told.message) == (code, words)


def test_nodes_kept_for_a_gang_that_waited_longer_are_named():
    gangs = (gang("x", 2, at="a a"), gang("big", 4, created=1.0), gang("y", created=2.0))
    told = reason("y", *gangs, nodes=(node("a", 4.0),), policy=replace(DEFAULT, reserve_after=0.0))
    assert told.code == "BehindOrder"
    assert told.message.startswith('a is kept for "big", which needs more at once and has waited longer')


def test_every_place_in_the_line_is_taken_once_also_by_gangs_that_were_not_asked_again():
    state = State.build(
        World((node("a"),), RICH, (gang("x", 1, 8.0, at="a"), gang("y", 2, created=1.0), gang("z", 3, created=2.0)))
    )
    policy = replace(PATIENT, actions=("allocate",))
    cycle(state, policy, NOW)
    state.put_gang(gang("first", 5, created=0.5))
    state.put_gang(gang("other", 4, queue="r", created=3.0))
    reasons = cycle(state, policy, NOW + 1).reasons
    assert {name: why.position for name, why in reasons.items()} == {"first": 1, "y": 2, "z": 3, "other": 1}
    assert sorted(why.overall for why in reasons.values()) == [1, 2, 3, 4]


def test_a_gang_that_can_never_run_stands_in_nobodys_way():
    reasons = decide(
        World((node("a", 1.0),), RICH, (gang("x", at="a"), gang("huge", 99), gang("y", created=9.0)))
    ).reasons
    assert (reasons["huge"].verdict, reasons["huge"].position, reasons["y"].position) == ("Impossible", 0, 1)


ENDS = {
    "the first end that leaves room": (("1", 100.0), ("2", 50.0), 1, 50.0),
    "as many ends as it needs": (("1", 100.0), ("2", 50.0), 2, 100.0),
    "one who does not say leaves it open": (("1", None), ("2", 50.0), 2, None),
}


@pytest.mark.parametrize(("one", "two", "wanted", "end"), ENDS.values(), ids=ENDS)
def test_when_there_could_be_room(one, two, wanted, end):
    runners = [gang(name, at="a", last_start=NOW, max_runtime=length) for name, length in (one, two)]
    want = None if end is None else NOW + end
    assert reason("y", *runners, gang("y", wanted)).estimate == want
    state = State.build(World((node("a", 2.0),), RICH, tuple(runners)))
    answer = what_if(state, replace(PATIENT, actions=("allocate",)), gang("y", wanted), NOW)
    assert answer.reason is not None and answer.reason.estimate == want


def test_amounts_are_in_units_people_use():
    small = replace(node("a"), capacity={"cpu": 2000.0, "memory": 4 * 2.0**30, "gpu": 0.0, "pods": 10.0})
    told = reason("y", gang("x", gpus=0.0, at="a"), gang("y", 2, 0.0), nodes=(small,))
    assert told.message == "1 of 2 tasks fit (1 cpu each); needs 2 cpu, 1 free"
    assert told.unblock == ("1 more cpu become free",)
    bounded = Queue("q", gpu=Share(9.0), memory=Share(-1.0, 1.5 * 2**30))
    told = reason("y", gang("y", 2, 0.0), nodes=(small,), queues=(bounded,))
    assert told.message == 'needs 1.86 Gi memory, but queue "q" may use 1.5 Gi more: it holds 0 of its limit 1.5 Gi'
