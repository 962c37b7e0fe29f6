"""The in-process client: the same verbs as over the wire, and what only it can do."""

import asyncio
import json

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, NotFound
from allaboard.api.meta import key_of, name_of, owner_reference, uid_of
from allaboard.api.queries import Select
from allaboard.cluster.memory import Ring
from tests.cluster.plane import Plane, config_map, pod


def run(story):
    async def furnished():
        return await story(await Plane().furnish())

    return asyncio.run(furnished())


def test_together_is_all_or_none():
    async def story(plane):
        await plane.client.together([config_map("a"), config_map("b")], manager="t")
        before = plane.cluster.store.revision
        for group, error in (
            ([config_map("c"), config_map("a")], AlreadyExists),
            ([config_map("c"), config_map("c")], AlreadyExists),
            ([config_map("c"), config_map("Bad Name")], Invalid),
        ):
            with pytest.raises(error):
                await plane.client.together(group, manager="t")
        names = [document["metadata"]["name"] for document in await plane.client.list(kinds.CONFIG_MAP)]
        assert names == ["a", "b"]
        assert plane.cluster.store.revision == before, "what is refused costs no revision"

    run(story)


def test_many_creates_have_one_commit_and_an_answer_each():
    async def story(plane):
        await plane.client.create(kinds.CONFIG_MAP, config_map("a"), manager="t")
        wanted = [config_map(name) for name in ("b", "a", "Bad Name", "c", "c")]
        answers = await plane.client.many([(kinds.CONFIG_MAP, document) for document in wanted], manager="t")
        told = [answer["metadata"]["name"] if isinstance(answer, dict) else type(answer) for answer in answers]
        assert told == ["b", AlreadyExists, Invalid, "c", AlreadyExists]
        names = [document["metadata"]["name"] for document in await plane.client.list(kinds.CONFIG_MAP)]
        assert names == ["a", "b", "c"], "a refusal takes nobody along"

    run(story)


def test_a_status_written_with_the_spec_that_was_read_changes_nothing_else():
    async def story(plane):
        made = await plane.client.create(kinds.POD, pod("p"), manager="t")
        status = {**made["status"], "message": "here"}
        options = {"manager": "t", "subresource": "status"}
        told = await plane.client.update(kinds.POD, {**made, "status": status}, **options)
        again = {**told, "spec": {**told["spec"], "nodeName": "elsewhere"}, "status": {**status, "message": "there"}}
        last = await plane.client.update(kinds.POD, again, **options)
        assert told["spec"] == last["spec"] == made["spec"]
        assert [told["status"]["message"], last["status"]["message"]] == ["here", "there"]

    run(story)


HANDED_BACK = {
    "all that was read": {},
    "without the owners of fields": {"managedFields": "leave out"},
    "without a name": {"name": "leave out"},
    "without a namespace": {"namespace": "leave out"},
    "without the revision": {"resourceVersion": "leave out"},
    "without labels": {"labels": "leave out"},
    "labels that are null": {"labels": None},
    "annotations that are null": {"annotations": None},
    "another label": {"labels": {"a": "other"}},
    "a label that is none": {"labels": {"a": 1}},
    "a field nobody knows": {"zip": "x"},
    "another namespace": {"namespace": "kube-system"},
    "nobody owns anything": {"managedFields": []},
}


CAR = kinds.Kind("x.io", "v1", "Car", "cars")


async def garage(plane):
    """A cluster that knows cars."""
    status = {"type": "object", "properties": {"message": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object"}, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    spec = {"group": "x.io", "scope": "Namespaced", "names": {"plural": "cars", "kind": "Car"}}
    spec["versions"] = [{**version, "schema": {"openAPIV3Schema": schema}}]
    definition = {"apiVersion": kinds.CRD.api_version, "kind": kinds.CRD.kind, "metadata": {"name": "cars.x.io"}}
    await plane.client.create(kinds.CRD, {**definition, "spec": spec}, manager="t")


@pytest.mark.parametrize("kind", [kinds.POD, CAR], ids=str)
@pytest.mark.parametrize("change", HANDED_BACK.values(), ids=HANDED_BACK)
def test_what_a_status_write_hands_back_is_read_the_same_whoever_holds_it(kind, change):
    """In the very objects that are stored, or in others that say the same."""

    async def story(plane, hold):
        await garage(plane)
        labels = {"metadata": {**pod("p")["metadata"], "labels": {"a": "b"}}}
        document = {**pod("p"), "apiVersion": kind.api_version, "kind": kind.kind, **labels}
        made = await plane.client.create(kind, document, manager="t")
        metadata = {**made["metadata"], **change}
        metadata = {name: value for name, value in metadata.items() if value != "leave out"}
        status = {**(made.get("status") or {}), "message": "here"}
        sent = hold({**made, "metadata": metadata, "status": status})
        try:
            return await plane.client.update(kind, sent, manager="t", subresource="status")
        except ApiError as error:
            return error.code, error.message

    kept, copied = (run(lambda plane, hold=hold: story(plane, hold)) for hold in (dict, _through_text))
    assert kept == copied


def _through_text(document):
    return json.loads(json.dumps(document))


def test_owned_finds_what_an_owner_controls_and_nothing_else():
    async def story(plane):
        owner = await plane.client.create(kinds.CONFIG_MAP, config_map("owner"), manager="t")
        for name, controller in (("mine", True), ("seen", False)):
            child = config_map(name)
            child["metadata"]["ownerReferences"] = [owner_reference(owner, controller=controller)]
            await plane.client.create(kinds.CONFIG_MAP, child, manager="t")
        found = await plane.client.owned(kinds.CONFIG_MAP, owner)
        assert [document["metadata"]["name"] for document in found] == ["mine"]

    run(story)


def test_a_pod_is_bound_once_and_never_a_namesake():
    async def story(plane):
        made = await plane.client.create(kinds.POD, pod("p"), manager="t")
        with pytest.raises(Conflict, match="UID in precondition"):
            await plane.client.bind(Key("default", "p"), "another-uid", "n1")
        await plane.client.bind(Key("default", "p"), uid_of(made), "n1")
        bound = await plane.client.get(kinds.POD, Key("default", "p"))
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
        with pytest.raises(Conflict, match="already assigned"):
            await plane.client.bind(Key("default", "p"), uid_of(made), "n2")
        with pytest.raises(NotFound):
            await plane.client.bind(Key("default", "none"), "", "n1")

    run(story)


def test_the_pods_of_a_gang_are_bound_with_one_commit_and_each_is_answered():
    async def story(plane):
        uids = [uid_of(await plane.client.create(kinds.POD, pod(name), manager="t")) for name in ("a", "b")]
        wanted = [
            (Key("default", "a"), uids[0], "n1"),
            (Key("default", "b"), "x", "n1"),
            (Key("default", "c"), "", "n"),
        ]
        before = plane.cluster.store.revision
        answers = await plane.client.bind_many(wanted)
        assert [type(answer) for answer in answers] == [type(None), Conflict, NotFound]
        assert plane.cluster.store.committed == before + 1
        pods = await plane.client.list(kinds.POD)
        assert [one["spec"].get("nodeName") for one in pods] == ["n1", None]

    run(story)


def test_many_that_are_new_are_applied_with_one_commit_and_each_is_answered():
    async def story(plane):
        client = plane.client
        wanted = [(kinds.CONFIG_MAP, config_map("a")), (kinds.CONFIG_MAP, config_map("b") | {"data": {"a b": "x"}})]
        made, refused = await client.apply_new(wanted, manager="t")
        assert isinstance(refused, Invalid)
        (entry,) = made["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("t", "Apply")
        assert await client.apply(*wanted[0], manager="t") == made

    run(story)


def test_what_exists_or_is_named_twice_is_not_applied_as_new():
    async def story(plane):
        there, new = (kinds.CONFIG_MAP, config_map("there")), (kinds.CONFIG_MAP, config_map("new"))
        await plane.client.create(*there, manager="t")
        assert [await plane.client.apply_new(each, manager="t") for each in ([there, new], [new, new])] == [None, None]
        assert [name_of(one) for one in await plane.client.list(kinds.CONFIG_MAP)] == ["there"]

    run(story)


def test_many_are_deleted_with_one_commit_and_each_is_answered():
    async def story(plane):
        made = [await plane.client.create(kinds.CONFIG_MAP, config_map(name), manager="t") for name in ("a", "b")]
        wanted = [(key_of(made[0]), uid_of(made[0])), (key_of(made[1]), "another"), (Key("default", "c"), "")]
        answers = await plane.client.delete_many(kinds.CONFIG_MAP, wanted)
        assert [type(answer) for answer in answers] == [type(None), Conflict, NotFound]
        assert [name_of(one) for one in await plane.client.list(kinds.CONFIG_MAP)] == ["b"]

    run(story)


async def taken(stream, count):
    """The first changes of a watch."""
    changes = []
    async for batch in stream:
        changes += [(change.type, change.document["metadata"]["name"]) for change in batch]
        if len(changes) >= count:
            await stream.aclose()
            return changes
    return changes


def test_a_watch_from_a_listing_misses_nothing():
    async def story(plane):
        await plane.client.create(kinds.CONFIG_MAP, config_map("before"), manager="t")
        listing = await plane.client.listing(kinds.CONFIG_MAP)
        await plane.client.create(kinds.CONFIG_MAP, config_map("a", k="1"), manager="t")
        stream = plane.client.watch(kinds.CONFIG_MAP, listing.revision)
        reading = asyncio.ensure_future(taken(stream, 3))
        await asyncio.sleep(0)
        await plane.client.update(kinds.CONFIG_MAP, config_map("a", k="2"), manager="t")
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "a"))
        assert await reading == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    run(story)


def test_a_watch_through_a_selector_sees_objects_come_and_go():
    async def story(plane):
        listing = await plane.client.listing(kinds.CONFIG_MAP)
        labelled = config_map("a")
        labelled["metadata"]["labels"] = {"in": "yes"}
        await plane.client.create(kinds.CONFIG_MAP, config_map("other"), manager="t")
        await plane.client.create(kinds.CONFIG_MAP, labelled, manager="t")
        await plane.client.update(kinds.CONFIG_MAP, config_map("a"), manager="t")
        await plane.client.update(kinds.CONFIG_MAP, labelled, manager="t")
        stream = plane.client.watch(kinds.CONFIG_MAP, listing.revision, Select(labels="in=yes"))
        assert await taken(stream, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]

    run(story)


def test_a_watch_older_than_memory_is_told_so():
    async def story(plane):
        plane.cluster.store.table("configmaps").ring = Ring(0, limit=2)
        for index in range(9):
            await plane.client.create(kinds.CONFIG_MAP, config_map(f"n{index}"), manager="t")
        with pytest.raises(Gone):
            await taken(plane.client.watch(kinds.CONFIG_MAP, "1"), 1)

    run(story)


def test_a_kind_that_is_not_served_is_not_found():
    async def story(plane):
        with pytest.raises(NotFound, match="could not find the requested resource"):
            await plane.client.list(kinds.JOB_SET)

    run(story)


def test_a_field_selector_reads_fields():
    async def story(plane):
        for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1")):
            await plane.client.create(kinds.POD, pod(name, nodeName=node), manager="t")
        found = await plane.client.list(kinds.POD, Select(fields="spec.nodeName=n1"))
        assert [document["metadata"]["name"] for document in found] == ["a", "c"]
        others = await plane.client.list(kinds.POD, Select(fields="spec.nodeName!=n1"))
        assert [document["metadata"]["name"] for document in others] == ["b"]

    run(story)


def test_events_are_one_store_with_two_faces():
    async def story(plane):
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
        event |= {"involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
        await plane.client.create(kinds.EVENT, event, manager="t")
        (seen,) = await plane.client.list(kinds.EVENT_V1)
        assert (seen["apiVersion"], seen["note"], seen["regarding"]) == ("events.k8s.io/v1", "m", about)

    run(story)
