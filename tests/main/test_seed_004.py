"""Seed 004 from its first arrow: a PyTorchJob becomes pods, a PodGroup, BindRequests, and runs whole or not at all."""

import asyncio

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.labels import QUEUE
from allaboard.api.meta import is_true, owners_of
from allaboard.testing.plane import EVERYONE, add_nodes, plane, until
from tests.patience import eventually

JOB = Key("default", "distributed-training")


def replica(count, container="pytorch"):
    resources = {"requests": {"cpu": "4"}}
    spec = {"containers": [{"name": container, "image": "i", "command": ["t"], "resources": resources}]}
    return {"replicas": count, "template": {"spec": spec}}


def made(kind, name=JOB.name, **spec):
    metadata = {"name": name, "namespace": JOB.namespace, "labels": {QUEUE: "default-queue"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def pytorch(workers=3):
    return made(kinds.PYTORCH_JOB, pytorchReplicaSpecs={"Master": replica(1), "Worker": replica(workers)})


def story(test):
    """A plane with every controller of the diagram, and no node yet."""

    def run():
        async def inside():
            async with plane((*EVERYONE, "pytorchjob", "mpijob")) as heart:
                await until(heart, kinds.SERVICE_ACCOUNT, Key("default", "default"), lambda found: True)
                await test(heart)

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


async def submit(heart, document):
    kind = next(
        kind for kind in kinds.KNOWN if (kind.kind, kind.api_version) == (document["kind"], document["apiVersion"])
    )
    return await heart.client.create(kind, document, manager="user")


async def gang(heart):
    return await eventually(lambda: heart.client.list(kinds.POD_GROUP))


async def bound(heart):
    return sorted(bool(pod["spec"].get("nodeName")) for pod in await heart.client.list(kinds.POD))


@story
async def test_seed_004_arrows_1_to_7_a_pytorchjob_becomes_pods_and_one_podgroup(heart):
    job = await submit(heart, pytorch())
    (group,) = await gang(heart)
    await eventually(lambda: _count(heart, 4))
    pods = await heart.client.list(kinds.POD)
    assert sorted(pod["metadata"]["name"].removeprefix(f"{JOB.name}-") for pod in pods) == [
        "master-0", "worker-0", "worker-1", "worker-2",
    ]  # fmt: skip
    # §4.3: the PodGroup as the seed draws it; ruling 20 on the class.
    assert (group["apiVersion"], owners_of(group)[0]["uid"]) == ("scheduling.run.ai/v2alpha2", job["metadata"]["uid"])
    spec = group["spec"]
    assert (spec["minMember"], spec["queue"], spec["priorityClassName"]) == (4, "default-queue", "train")


@story
async def test_seed_004_arrows_8_to_14_a_gang_that_fits_is_bound_through_bindrequests(heart):
    requests = set()

    async def note():
        listing = await heart.client.listing(kinds.BIND_REQUEST)
        async for changes in heart.client.watch(kinds.BIND_REQUEST, listing.revision):
            requests.update(change.document["spec"]["podName"] for change in changes)

    noting = asyncio.create_task(note())
    await add_nodes(heart, 2)
    await submit(heart, pytorch())
    await eventually(lambda: _all_bound(heart, 4))
    await eventually(lambda: _is(len(requests) == 4))
    noting.cancel()
    (group,) = await gang(heart)
    key = Key("default", group["metadata"]["name"])
    told = await until(heart, kinds.POD_GROUP, key, lambda found: (found.get("status") or {}).get("allocated") == 4)
    assert [told["status"][word] for word in ("pending", "running", "succeeded", "failed")] == [0, 0, 0, 0]


@story
async def test_seed_004_arrows_15_and_16_a_gang_that_does_not_fit_waits_for_another_cycle(heart):
    await add_nodes(heart, 1)  # room for two of four
    await submit(heart, pytorch())
    (group,) = await gang(heart)
    key = Key("default", group["metadata"]["name"])
    told = await until(
        heart, kinds.POD_GROUP, key, lambda found: (found.get("status") or {}).get("schedulingConditions")
    )
    assert (await bound(heart), told["status"]["phase"]) == ([False] * 4, "Pending")
    second = await heart.client.get(kinds.NODE, Key("", "node-000"))
    copy = {**second, "metadata": {"name": "node-later"}}
    await heart.client.create(kinds.NODE, copy, manager="test")
    found = await heart.client.get(kinds.NODE, Key("", "node-later"))
    found = await heart.client.update(kinds.NODE, {**found, "spec": {}}, manager="test")
    await heart.client.update(kinds.NODE, {**found, "status": copy["status"]}, manager="test", subresource="status")
    await eventually(lambda: _all_bound(heart, 4))


async def _all_bound(heart, count):
    return await bound(heart) == [True] * count


async def _count(heart, count):
    return len(await heart.client.list(kinds.POD)) == count


async def _is(fact):
    return fact


POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
# §4.1: the plugin of a workload decides how many pods make a gang.
CHART = {
    "PyTorchJob: master and workers": (pytorch(2), 3),
    "MPIJob: launcher and workers": (
        made(kinds.MPI_JOB, mpiReplicaSpecs={"Launcher": replica(1, "mpi"), "Worker": replica(2, "mpi")}), 3),
    "Job: one": (made(kinds.JOB, template=POD, parallelism=3, completions=3), 1),
    "anything else: the usual": (made(kinds.POD, **POD["spec"]), 1),
}  # fmt: skip


@pytest.mark.parametrize(("document", "members"), CHART.values(), ids=CHART)
def test_seed_004_the_chart_of_plugins(document, members):
    @story
    async def submitted(heart):
        await submit(heart, document)
        groups = await gang(heart)
        assert {group["spec"].get("minMember", 1) for group in groups} == {members}

    submitted()


@story
async def test_seed_004_a_pytorchjob_runs_once_its_gang_does(heart):
    await add_nodes(heart, 2)
    await submit(heart, pytorch(1))
    await eventually(lambda: _all_bound(heart, 2))
    for pod in await heart.client.list(kinds.POD):
        status = {**pod["status"], "phase": "Running"}
        await heart.client.update(kinds.POD, {**pod, "status": status}, manager="kubelet", subresource="status")
    await until(heart, kinds.PYTORCH_JOB, JOB, lambda found: is_true(found, "Running"))
