"""Owners gone, children gone: background, foreground, orphan."""

import asyncio

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.meta import owner_reference
from tests.cluster.plane import Plane, config_map


async def family(plane, *children, blocking=True):
    """A parent and its children."""
    parent = await plane.client.create(kinds.CONFIG_MAP, config_map("parent"), manager="t")
    for name in children:
        child = config_map(name)
        reference = owner_reference(parent, controller=False) | {"blockOwnerDeletion": blocking}
        child["metadata"]["ownerReferences"] = [reference]
        await plane.client.create(kinds.CONFIG_MAP, child, manager="t")
    await plane.keeper.settle()
    return parent


async def names(plane):
    return [document["metadata"]["name"] for document in await plane.client.list(kinds.CONFIG_MAP)]


WAYS = {
    "in the background children follow": ("Background", []),
    "in the foreground children go first": ("Foreground", []),
    "orphans stay": ("Orphan", ["kid"]),
    "by default children follow": ("", []),
}


@pytest.mark.parametrize(("propagation", "left"), WAYS.values(), ids=WAYS)
def test_deleting_an_owner(propagation, left):
    async def story():
        plane = await Plane().furnish()
        await family(plane, "kid")
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"), propagation=propagation)
        await plane.keeper.settle()
        assert await names(plane) == left
        for document in await plane.client.list(kinds.CONFIG_MAP):
            assert "ownerReferences" not in document["metadata"]

    asyncio.run(story())


def test_a_foreground_owner_waits_for_a_child_that_is_held():
    async def story():
        plane = await Plane().furnish()
        await family(plane, "kid")
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        merge = "application/merge-patch+json"
        await plane.client.patch(kinds.CONFIG_MAP, Key("default", "kid"), hold, type=merge, manager="t")
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"), propagation="Foreground")
        await plane.keeper.settle()
        assert await names(plane) == ["kid", "parent"]
        release = {"metadata": {"finalizers": None}}
        await plane.client.patch(kinds.CONFIG_MAP, Key("default", "kid"), release, type=merge, manager="t")
        await plane.keeper.settle()
        assert await names(plane) == []

    asyncio.run(story())


def test_a_child_that_does_not_block_is_not_waited_for():
    async def story():
        plane = await Plane().furnish()
        await family(plane, "kid", blocking=False)
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"), propagation="Foreground")
        await plane.keeper.settle()
        assert await names(plane) == []

    asyncio.run(story())


def test_a_child_that_goes_concerns_only_an_owner_that_waits_for_it():
    async def story():
        plane = await Plane().furnish()
        await family(plane, "one", "two")
        parent = ("configmaps", Key("default", "parent"))
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "one"))
        assert parent not in plane.keeper.collector.due
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        merge = "application/merge-patch+json"
        await plane.client.patch(kinds.CONFIG_MAP, Key("default", "parent"), hold, type=merge, manager="t")
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"))
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "two"))
        assert parent in plane.keeper.collector.due

    asyncio.run(story())


def test_one_living_owner_is_enough_and_the_other_is_forgotten():
    async def story():
        plane = await Plane().furnish()
        parent = await family(plane)
        other = await plane.client.create(kinds.CONFIG_MAP, config_map("other"), manager="t")
        child = config_map("kid")
        child["metadata"]["ownerReferences"] = [owner_reference(o, controller=False) for o in (parent, other)]
        await plane.client.create(kinds.CONFIG_MAP, child, manager="t")
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"))
        await plane.keeper.settle()
        kid = await plane.client.get(kinds.CONFIG_MAP, Key("default", "kid"))
        assert [owner["name"] for owner in kid["metadata"]["ownerReferences"]] == ["other"]

    asyncio.run(story())


def test_a_child_born_after_its_owner_is_gone_goes_too():
    async def story():
        plane = await Plane().furnish()
        parent = await family(plane)
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "parent"))
        child = config_map("late")
        child["metadata"]["ownerReferences"] = [owner_reference(parent, controller=False)]
        await plane.client.create(kinds.CONFIG_MAP, child, manager="t")
        await plane.keeper.settle()
        assert await names(plane) == []

    asyncio.run(story())


def test_an_owner_of_a_kind_nobody_knows_is_never_presumed_dead():
    async def story():
        plane = await Plane().furnish()
        child = config_map("kid")
        stranger = {"apiVersion": "nowhere.example/v1", "kind": "Stranger", "name": "s", "uid": "u"}
        child["metadata"]["ownerReferences"] = [stranger]
        await plane.client.create(kinds.CONFIG_MAP, child, manager="t")
        await plane.keeper.settle()
        assert await names(plane) == ["kid"]

    asyncio.run(story())


def test_events_are_forgotten_after_an_hour():
    async def story():
        plane = await Plane().furnish()
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
        event |= {"involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
        await plane.client.create(kinds.EVENT, event, manager="t")
        plane.later(minutes=59)
        await plane.keeper.settle()
        assert len(await plane.client.list(kinds.EVENT)) == 1
        plane.later(minutes=2)
        await plane.keeper.settle()
        assert await plane.client.list(kinds.EVENT) == []

    asyncio.run(story())
