"""Topology: domains as columns against a walk over dictionaries, and gangs that stay together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling import surroundings
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Constraint, PodSet, Queue, Share, SubGroup, Topology, World
from allaboard.scheduling.plugins.topology import Domains
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.state import State
from tests.scheduling.worlds import NOW, decide, gang, node

TOPO = Topology("t", ("block", "rack"))
labels = st.fixed_dictionaries({}, optional={"block": st.sampled_from("ab"), "rack": st.sampled_from("xyz")})


@given(st.lists(st.tuples(labels, st.integers(0, 8)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_sums_per_domain_equal_a_walk_over_the_nodes(machines):
    nodes = tuple(node(f"n{i}", float(gpus), labels=tags) for i, (tags, gpus) in enumerate(machines))
    state = State.build(World(nodes, topologies=(TOPO,)))
    domains = Domains.of(TOPO, state.nodes)
    for level in range(3):
        want: dict[tuple[str, ...], float] = {}
        for tags, gpus in machines:
            if len(tags) == 2:
                path = tuple(tags[key] for key in TOPO.levels[:level])
                want[path] = want.get(path, 0.0) + gpus
        ids = sorted(want, key=".".join)
        if ids:
            assert domains.sums(level, state.nodes.free(2)).tolist() == [want[path] for path in ids]


def racks(*gpus: float) -> tuple:
    """Two nodes per rack, two racks per block."""
    return tuple(
        node(f"n{i}", size, labels={"block": f"b{i // 4}", "rack": f"r{i // 2}"}) for i, size in enumerate(gpus)
    )


def close(count: int, required: str = "", preferred: str = "", **more: object):
    tree = SubGroup(pod_sets=(PodSet(minimum=count),), constraint=Constraint("t", required, preferred))
    return gang("x", count, tree=tree, **more)


def places(nodes: tuple, *gangs: object) -> list[str]:
    facts = World(nodes, (Queue("q", gpu=Share(99.0)),), gangs, (TOPO,))
    return sorted({bind.node for bind in decide(facts).binds if bind.gang == "x"})


CASES = {
    #                                        nodes                      gang                             used
    "the tightest rack that fits is taken": (racks(4, 4, 2, 2),         close(4, "rack"),                ["n2", "n3"]),
    "a rack too small is passed over":      (racks(4, 4, 1, 1),         close(4, "rack"),                ["n0"]),
    "no rack fits, nobody starts":          (racks(2, 2, 2, 2),         close(6, "rack"),                []),
    "a block may hold what no rack can":    (racks(2, 2, 2, 2),  close(6, "block"),          ["n0", "n1", "n2"]),
    "a preferred rack is only a wish":      (racks(2, 2, 2, 2),  close(6, preferred="rack"), ["n0", "n2", "n3"]),
    "a preferred rack is kept where it can": (racks(2, 2, 2, 2),        close(4, preferred="rack"),      ["n0", "n1"]),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "made", "want"), CASES.values(), ids=CASES)
def test_where_gangs_go(nodes, made, want):
    assert places(nodes, made) == want


def test_new_pods_join_those_that_run():
    made = close(3, "rack", at="n0 n1")
    grown = replace(made, tree=replace(made.tree, pod_sets=(PodSet(minimum=1),)))
    assert places(racks(2, 2, 4, 4), grown) == ["n0"]


def test_a_node_without_all_labels_is_outside():
    outside = (node("n0", 8.0, labels={"block": "b0"}), *racks(2, 2)[1:])
    assert places(outside, close(2, "rack")) == ["n1"]


def test_a_topology_that_is_made_anew_with_other_levels_is_another_one():
    """The same name, the same nodes: what was known about its domains does not hold any more."""
    together = replace(gang("x", 2), tree=SubGroup(pod_sets=(PodSet(minimum=2),), constraint=Constraint("t", "shelf")))
    machines = tuple(node(f"n{i}", 1.0, labels={"block": "b", "rack": f"r{i}", "shelf": "s"}) for i in range(2))
    facts = World(machines, (Queue("q", gpu=Share(9.0)),), (together,), (TOPO,))
    state = State.build(facts)
    assert not cycle(state, DEFAULT, NOW).binds
    surroundings.drop_topology(state, "t")
    surroundings.put_topology(state, Topology("t", ("block", "shelf")))
    assert len(cycle(state, DEFAULT, NOW).binds) == 2
