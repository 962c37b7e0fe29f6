"""Kinds that nothing here runs: none is there, and none can be made."""

import asyncio

import pytest

from allaboard.cluster.kinds.absent import KINDS
from tests.cluster.plane import Plane, plain

PATCHES = {
    "a patch": {"content_type": "application/merge-patch+json"},
    "an apply": {"content_type": "application/apply-patch+yaml"},
}


def where(kind, name=""):
    prefix = f"/apis/{kind.group}" if kind.group else "/api"
    return f"{prefix}/{kind.version}/namespaces/default/{kind.plural}" + (f"/{name}" if name else "")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_there_is_none(kind):
    async def story():
        plane = await Plane().furnish()
        listed = await plane.ask("GET", where(kind))
        assert (listed.code, listed.body["kind"], listed.body["items"]) == (200, f"{kind.kind}List", [])
        assert (await plane.ask("GET", where(kind, "x"))).code == 404
        assert (await plane.ask("DELETE", where(kind, "x"))).code == 404

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_whoever_wants_one_is_told_by_name(kind):
    async def story():
        plane = await Plane().furnish()
        made = await plane.ask("POST", where(kind), plain(kind.api_version, kind.kind, "x"))
        assert (made.code, made.body["reason"]) == (403, "Forbidden")
        assert "is forbidden: nothing here runs " in made.message and "train with a TrainJob" in made.message
        for headers in PATCHES.values():
            assert (await plane.ask("PATCH", f"{where(kind, 'x')}?fieldManager=m", {}, **headers)).code == 403

    asyncio.run(story())


def test_descriptions_of_what_can_be_written_leave_them_out():
    async def story():
        plane = await Plane().furnish()
        document = (await plane.ask("GET", "/openapi/v3/api/v1")).body
        assert not any("replicationcontrollers" in path for path in document["paths"])

    asyncio.run(story())
