"""Many watchers: nobody misses a change, sees one twice, or sees two in the wrong order."""

import asyncio
import json

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.cluster.answers import Shaper, negotiate
from allaboard.cluster.ask import Place
from allaboard.cluster.options import read_list
from allaboard.cluster.streams import Stream
from tests.cluster.plane import Plane, config_map
from tests.patience import PATIENCE

WATCHERS, CHANGES = 200, 100
QUERIES = {
    "everything": {},
    "by a label": {"labelSelector": ["even=yes"]},
    "one object": {"fieldSelector": ["metadata.name=n3"]},
}


async def watched(plane, query, start, end):
    """What one watcher is told until the last change: type, name and revision of each."""
    rules = plane.cluster.registry.of(kinds.CONFIG_MAP)
    wanted = read_list(rules, query | {"watch": ["true"], "resourceVersion": [start]})
    shaper = Shaper(plane.cluster.store, rules, negotiate(""), plane.cluster.world.now, "")
    stream, seen = Stream(plane.cluster.store, Place(rules, Key("default", "")), wanted, shaper).lines(), []
    try:
        async for chunk in stream:
            for line in chunk.splitlines():
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                seen.append((event["type"], metadata["name"], int(metadata["resourceVersion"])))
            if end.is_set() or (seen and seen[-1][1] == "last"):
                return seen
    finally:
        await stream.aclose()
    return seen


async def changed(plane, index):
    """Objects come, change and go; every second one has the label."""
    name = f"n{index % 10}"
    found = await plane.client.get(kinds.CONFIG_MAP, Key("default", name))
    if found is None:
        body = config_map(name, turn=str(index))
        body["metadata"]["labels"] = {"even": "yes" if index % 2 == 0 else "no"}
        await plane.client.create(kinds.CONFIG_MAP, body, manager="t")
    elif index % 7 == 6:
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", name))
    else:
        await plane.client.update(kinds.CONFIG_MAP, {**found, "data": {"turn": str(index)}}, manager="t")


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_no_watcher_misses_doubles_or_reorders_a_change(query):
    async def story():
        plane, end = await Plane().furnish(), asyncio.Event()
        start = str(plane.cluster.store.committed)
        told = plane.cluster.store.table(kinds.CONFIG_MAP.resource)
        watching = [asyncio.create_task(watched(plane, query, start, end)) for _ in range(WATCHERS)]
        for index in range(CHANGES):
            await changed(plane, index)
            if index % 3 == 0:  # some changes reach watchers one by one, others in a bunch
                await asyncio.sleep(0)
        happened = [(each.type, each.item.key.name, each.item.revision) for each in told.ring.since(0)]
        last = config_map("last" if "fieldSelector" not in query else "n3")
        last["metadata"]["labels"] = {"even": "yes"}
        end.set()
        if "fieldSelector" in query and await plane.client.get(kinds.CONFIG_MAP, Key("default", "n3")):
            await plane.client.delete(kinds.CONFIG_MAP, Key("default", "n3"))
        else:
            await plane.client.create(kinds.CONFIG_MAP, last, manager="t")
        return happened, await asyncio.gather(*watching)

    happened, told = asyncio.run(asyncio.wait_for(story(), PATIENCE))
    first = told[0][:-1]
    assert all(seen[:-1] == first for seen in told), "every watcher is told the same"
    revisions = [revision for _, _, revision in first]
    assert revisions == sorted(set(revisions)), "each change once, in order"
    assert len(happened) == CHANGES
    if not query:
        assert first == happened
    if "fieldSelector" in query:
        assert first == [change for change in happened if change[1] == "n3"]
