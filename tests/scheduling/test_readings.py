"""Nodes, queues, topologies and PodGroups as the scheduler's values."""

import pytest

from allaboard.scheduling import readings
from allaboard.scheduling.facts import Constraint, PodSet, Share, SubGroup, Taint

from .builders import node, pod_group, queue

DURATIONS = {"1h": 3600, "1h30m": 5400, "90s": 90, "1.5s": 1.5, "250ms": 0.25, "600": 600, "": None, "soon": None}


@pytest.mark.parametrize(("text", "want"), DURATIONS.items(), ids=DURATIONS)
def test_a_least_time_to_run_that_cannot_be_read_is_none(text, want):
    document = queue("q")
    document["spec"] |= {"preemptMinRuntime": text}
    assert readings.queue(document).preempt_min_runtime == want


def test_a_node_with_its_own_name_as_a_label():
    document = node("n", worn={"zone": "z"}, taints=[{"key": "k", "effect": "NoSchedule"}], **{"nvidia.com/gpu": "4"})
    found = readings.node(document)
    assert found.labels == {"zone": "z", "metadata.name": "n"}
    assert found.taints == (Taint("k"),)
    assert found.capacity == {"cpu": 8000, "memory": 32 * 2**30, "pods": 110, "gpu": 4}
    assert found.ready
    assert not readings.node(node("n", ready=False)).ready


MEMORIES = {"81920": (81920, True), str(80 * 2**30): (81920, True), "": (100, False), "much": (100, False)}


@pytest.mark.parametrize(("text", "want"), MEMORIES.items(), ids=MEMORIES)
def test_gpu_memory_in_mebibytes(text, want):
    found = readings.node(node("n", worn={"nvidia.com/gpu.memory": text}))
    assert (found.gpu_memory, found.gpu_memory_known) == want


def test_a_queue_counts_memory_in_megabytes():
    found = readings.queue(queue("q", memory={"quota": 5, "limit": 10}, gpu={"quota": -1}))
    assert found.memory == Share(5e6, 10e6, 1)
    assert found.gpu == Share(-1, -1, 1)
    assert found.priority == 100


def test_a_limit_that_is_not_set_is_nothing_at_all():
    bare = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 1}}}}
    assert readings.queue(bare).gpu == Share(1, 0, 0)


def role(name, least=1, parent="", **more):
    return {"name": name, "minMember": least, **({"parent": parent} if parent else {}), **more}


NEAR = {"topology": "t", "requiredTopologyLevel": "rack"}
TREES = {
    "no roles": (pod_group("g", 3), SubGroup(pod_sets=(PodSet("default", 3),))),
    "no minimum is one": (pod_group("g", 0), SubGroup(pod_sets=(PodSet("default", 1),))),
    "roles are pod sets": (
        pod_group("g", 3, roles=[role("a", 2), role("b")]),
        SubGroup(pod_sets=(PodSet("a", 2), PodSet("b", 1))),
    ),
    "parents are groups": (
        pod_group("g", 3, roles=[role("p"), role("a", 2, "p"), role("b")]),
        SubGroup(groups=(SubGroup("p", pod_sets=(PodSet("a", 2),)),), pod_sets=(PodSet("b", 1),)),
    ),
    "constraints are kept": (
        pod_group("g", 1, roles=[role("a", topologyConstraint=NEAR)], topologyConstraint=NEAR),
        SubGroup(pod_sets=(PodSet("a", 1, Constraint("t", "rack")),), constraint=Constraint("t", "rack")),
    ),
    "some of the groups are enough": (
        pod_group("g", 0, roles=[role("a"), role("b")], minSubGroup=1),
        SubGroup(pod_sets=(PodSet("a", 1), PodSet("b", 1)), minimum=1),
    ),
}


@pytest.mark.parametrize(("group", "want"), TREES.values(), ids=TREES)
def test_trees(group, want):
    assert readings.tree(group) == want


def test_topology_levels_from_widest_to_narrowest():
    document = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}
    assert readings.topology(document).levels == ("zone", "rack")
