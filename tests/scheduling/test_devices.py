"""Parts of GPUs, from the documents of nodes and pods to bound pods: slices that MIG cuts."""

import asyncio

from allaboard.api import kinds, labels
from allaboard.api.meta import key_of
from allaboard.testing.plane import add_nodes, plane, until

from .builders import at, node, pod, pod_group
from .test_loop import cycle, world

SLICE, HALF = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
CUT = {"nvidia.com/mig.strategy": "mixed"}


def wanting(name, gang, **slices):
    """A pod of a gang that asks for slices by their short name."""
    full = {"one": SLICE, "three": HALF}
    return pod(name, said={labels.POD_GROUP: gang}, **{full[word]: count for word, count in slices.items()})


def placed(plan):
    found = (document["spec"] for group in plan.together for document in group)
    return {spec["podName"]: (spec["selectedNode"], spec["receivedResourceType"]) for spec in found}


def test_a_gang_of_slices_is_placed_whole_where_gpus_are_cut_that_way():
    cut = node("cut", worn=CUT, **{"nvidia.com/gpu": "8", SLICE: "2", HALF: "1"})
    whole = node("whole", **{"nvidia.com/gpu": "8"})
    scheduler, _ = world(
        (kinds.NODE, cut),
        (kinds.NODE, whole),
        (kinds.POD_GROUP, pod_group("g", 3)),
        *((kinds.POD, wanting(f"g-{i}", "g", one="1")) for i in range(2)),
        (kinds.POD, wanting("g-2", "g", three="1")),
        (kinds.POD_GROUP, pod_group("late", 1)),
        (kinds.POD, wanting("late-0", "late", one="1")),
    )
    plan = cycle(scheduler)
    assert placed(plan) == {f"g-{i}": ("cut", "MigInstance") for i in range(3)}
    (words,) = (event.message for event in plan.events if event.regarding["kind"] == "PodGroup")
    assert "needs 1 nvidia.com/mig-1g.5gb, 0 free" in words or "came first" in words


def test_a_node_that_is_cut_takes_no_whole_gpus():
    cut = node("cut", worn=CUT, **{"nvidia.com/gpu": "8", SLICE: "2"})
    wants = pod("w-0", said={labels.POD_GROUP: "w"}, **{"nvidia.com/gpu": "1"})
    scheduler, _ = world((kinds.NODE, cut), (kinds.POD_GROUP, pod_group("w", 1)), (kinds.POD, wants))
    assert not placed(cycle(scheduler))


def test_slices_from_the_node_to_the_bound_pod():
    async def story():
        async with plane() as heart:
            await add_nodes(heart, 1, **{"cpu": "8", SLICE: "1"})
            (there,) = await heart.client.list(kinds.NODE)
            worn = {**there["metadata"], "labels": {**there["metadata"].get("labels", {}), **CUT}}
            await heart.client.update(kinds.NODE, {**there, "metadata": worn}, manager="test")
            await until(heart, kinds.SERVICE_ACCOUNT, at("default"), lambda account: True)
            for name in ("a", "b"):
                asked = {"name": "main", "image": "busybox", "resources": {"limits": {SLICE: "1"}}}
                document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
                await heart.client.create(kinds.POD, {**document, "spec": {"containers": [asked]}}, manager="test")
                if name == "a":
                    bound = await until(heart, kinds.POD, at("a"), lambda p: p["spec"].get("nodeName"))
                    assert bound["spec"]["nodeName"] == there["metadata"]["name"]
            said = await until(heart, kinds.POD, at("b"), lambda p: "conditions" in p.get("status", {}))
            (condition,) = (c for c in said["status"]["conditions"] if c["type"] == "PodScheduled")
            assert condition["message"] == f"0/1 nodes are available: 1 Insufficient {SLICE}."
            assert key_of(said) == at("b")

    asyncio.run(story())
