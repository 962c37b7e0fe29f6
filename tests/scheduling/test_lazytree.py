"""KAI's order: queues are judged by what stands on top of them, and put in their place only when met on top."""

from __future__ import annotations

import functools
import operator
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.facts import Queue
from allaboard.scheduling.lazytree import LazyTree
from allaboard.scheduling.queues import Queues

# top: p0 with q0 and q1, p1 with q2 and q3
TREE = Queues([
    *(Queue(f"p{i}", created=float(i)) for i in range(2)),
    *(Queue(f"q{i}", f"p{i // 2}", created=2.0 + i) for i in range(4)),
])  # fmt: skip
LEAVES = [TREE.index[f"q{i}"] for i in range(4)]


class Lane:
    """Numbers wait in leaves; a queue is judged by the smallest number of the leaf it shows."""

    def __init__(self, *numbers: list[int]) -> None:
        self.waiting = dict(zip(LEAVES, map(sorted, numbers)))
        live = [leaf for leaf, line in self.waiting.items() if line]
        self.tree = LazyTree(TREE, live, lambda left, right: self.top(left) < self.top(right))

    def top(self, contender: tuple[int, int]) -> tuple[int, int]:
        return self.waiting[contender[1]][0], contender[0]

    def pop(self) -> int:
        leaf = self.tree.next_leaf()
        number = self.waiting[leaf].pop(0)
        self.tree.popped(leaf, empty=not self.waiting[leaf])
        return number

    def push(self, leaf: int, number: int) -> None:
        self.waiting[leaf] = sorted([*self.waiting.get(leaf, []), number])
        self.tree.pushed(leaf)

    def drain(self) -> list[int]:
        return [self.pop() for _ in range(sum(map(len, self.waiting.values())))]


ORDERS = {
    "each queue by its best": (([1, 2], [3], [4], [5]), [1, 2, 3, 4, 5]),
    "a queue is judged by who stands on top after a pop, not by its best":
        (([1, 9], [2], [3], [4]), [1, 3, 4, 2, 9]),
    "a queue that is empty leaves": (([], [1], [], [2]), [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize(("numbers", "want"), ORDERS.values(), ids=ORDERS)
def test_orders(numbers, want):
    assert Lane(*numbers).drain() == want


def test_who_comes_later_is_asked_when_its_queue_is_met():
    lane = Lane([5], [], [7], [])
    lane.push(LEAVES[1], 1)
    lane.push(LEAVES[2], 6)
    assert lane.drain() == [1, 5, 6, 7]


@given(st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=4, max_size=4))
@settings(max_examples=100, deadline=None)
def test_everybody_comes_up_once(numbers):
    assert sorted(Lane(*numbers).drain()) == sorted(functools.reduce(operator.iadd, numbers, []))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_below_one_parent_it_is_simply_the_order(numbers, chance):
    flat = Queues([Queue("p"), *(Queue(f"q{i}", "p", created=1.0 + i) for i in range(5))])
    waiting: dict[int, list[int]] = {}
    for number in numbers:
        waiting.setdefault(flat.index[f"q{random.Random(chance.random()).randrange(5)}"], []).append(number)
    waiting = {leaf: sorted(line) for leaf, line in waiting.items()}
    tree = LazyTree(flat, waiting, lambda left, right: (waiting[left[1]][0], left) < (waiting[right[1]][0], right))
    found = []
    while tree:
        leaf = tree.next_leaf()
        found.append(waiting[leaf].pop(0))
        tree.popped(leaf, empty=not waiting[leaf])
    assert found == sorted(numbers)
