"""A watch over HTTP: lines in order, bookmarks, tables, and an end."""

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

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def stream_of(plane, accept="", **query):
    rules = plane.cluster.registry.of(kinds.CONFIG_MAP)
    wanted = read_list(rules, {name: [value] for name, value in query.items()} | {"watch": ["true"]})
    shaper = Shaper(plane.cluster.store, rules, negotiate(accept), plane.cluster.world.now, "")
    return Stream(plane.cluster.store, Place(rules, Key("default", "")), wanted, shaper)


async def lines(stream, count):
    """The first events of a stream."""
    found = []
    async for chunk in stream.lines():
        found += [json.loads(line) for line in chunk.splitlines()]
        if len(found) >= count:
            break
    return found


def told(events):
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def story_of(test):
    async def story():
        plane = await Plane().furnish()
        for name in ("a", "b"):
            await plane.client.create(kinds.CONFIG_MAP, config_map(name), manager="t")
        await test(plane)

    asyncio.run(story())


OPENINGS = {
    "without a revision, what is there comes first": ({}, [("ADDED", "a"), ("ADDED", "b")]),
    "so it does from zero": ({"resourceVersion": "0"}, [("ADDED", "a"), ("ADDED", "b")]),
    "through a selector": ({"fieldSelector": "metadata.name=b"}, [("ADDED", "b")]),
    "a WatchList ends with a bookmark": (
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")],
    ),
    "so does a watch from no revision, where bookmarks are wanted": (
        {"allowWatchBookmarks": "true"}, [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("query", "want"), OPENINGS.values(), ids=OPENINGS)
def test_how_a_watch_begins(query, want):
    async def test(plane):
        events = await lines(stream_of(plane, **query), len(want))
        assert told(events) == want
        if want[-1][0] == "BOOKMARK":
            marker = events[-1]["object"]["metadata"]
            assert marker["annotations"] == {"k8s.io/initial-events-end": "true"}

    story_of(test)


def test_a_watch_goes_on_after_a_revision():
    async def test(plane):
        revision = str(plane.cluster.store.committed)
        reading = asyncio.ensure_future(lines(stream_of(plane, resourceVersion=revision), 1))
        await asyncio.sleep(0)
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "a"))
        assert told(await reading) == [("DELETED", "a")]

    story_of(test)


def test_a_watch_from_forgotten_history_says_expired():
    async def test(plane):
        plane.cluster.store.table("configmaps").ring.floor = 10_000
        (event,) = await lines(stream_of(plane, resourceVersion="1"), 1)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")

    story_of(test)


def test_a_table_says_its_columns_once():
    async def test(plane):
        first, second = await lines(stream_of(plane, TABLE), 2)
        assert first["object"]["columnDefinitions"] and not second["object"].get("columnDefinitions")
        assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]

    story_of(test)


def test_a_watch_ends_when_its_time_is_up():
    async def test(plane):
        stream = stream_of(plane, timeoutSeconds="1")
        async with asyncio.timeout(PATIENCE):
            assert told(
                [json.loads(line) for chunk in [c async for c in stream.lines()] for line in chunk.splitlines()]
            )

    story_of(test)


def test_a_watch_whose_time_is_up_before_it_began_ends_with_a_bookmark():
    """A busy server may take longer over the first lines than the client gave it."""

    async def test(plane):
        loop = asyncio.get_running_loop()
        stream = stream_of(plane, timeoutSeconds="1", allowWatchBookmarks="true")
        chunks = [await anext(lines := stream.lines())]
        passed, loop.time = loop.time, lambda: passed() + 5
        chunks += [chunk async for chunk in lines]
        loop.time = passed
        types = [json.loads(line)["type"] for chunk in chunks for line in chunk.splitlines()]
        assert types[-2:] == ["BOOKMARK", "BOOKMARK"]

    story_of(test)
