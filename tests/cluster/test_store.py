"""The store against a simple model: whatever is done to it, readers and watchers see the same story."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allaboard.api.documents import Key
from allaboard.api.errors import Gone
from allaboard.cluster.memory import RECENT, Ring, Store
from allaboard.cluster.sqlite import Sqlite
from allaboard.cluster.store import Item, NoJournal, decode, encode
from allaboard.cluster.watch import Watcher


def document(name: str, value: int, namespace: str = "default") -> dict:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": str(value)}}


def put(store: Store, name: str, value: int, namespace: str = "default"):
    before = store.table("configmaps").latest(Key(namespace, name))
    return store.put("configmaps", document(name, value, namespace), before)


def remove(store: Store, name: str, namespace: str = "default"):
    before = store.table("configmaps").latest(Key(namespace, name))
    return store.remove("configmaps", before) if before else None


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove", "settle"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from("xyz"),
        st.integers(0, 9),
    ),
    max_size=60,
)


def carry_out(store: Store, operations, model: dict) -> list:
    """Do everything; the model is a dict, and the answers are what has to be awaited."""
    answers = []
    for operation, namespace, name, value in operations:
        if operation == "put":
            answers.append(store.commit(put(store, name, value, namespace)))
            model[namespace, name] = str(value)
        elif operation == "remove" and (change := remove(store, name, namespace)):
            answers.append(store.commit(change))
            del model[namespace, name]
    return answers


def seen_by(watcher: Watcher) -> dict:
    """The state a watcher ends up with."""
    state = {}
    for seen in watcher.take():
        key = tuple(seen.item.key)
        if seen.type == "DELETED":
            assert key in state, "what was never there cannot go"
            del state[key]
        else:
            assert (key in state) == (seen.type == "MODIFIED")
            state[key] = decode(seen.item.data)["data"]["value"]
    return state


@given(OPERATIONS)
@settings(max_examples=200, deadline=None)
def test_readers_and_watchers_agree_with_a_dict(operations):
    store, model = Store(NoJournal()), {}
    table = store.table("configmaps")
    watcher = Watcher(store, table, table.ring.position(0), "", None)
    one = Watcher(store, table, table.ring.position(0), "", lambda item: item.key.name == "x")
    carry_out(store, operations, model)
    assert {tuple(item.key): decode(item.data)["data"]["value"] for item in table.items()} == model
    assert seen_by(watcher) == model
    assert seen_by(one) == {key: value for key, value in model.items() if key[1] == "x"}
    assert [item.key for item in table.items()] == sorted(item.key for item in table.items())


@given(OPERATIONS, st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_a_past_revision_is_told_from_the_ring(operations, cut):
    store, model = Store(NoJournal()), {}
    carry_out(store, operations[:cut], model)
    then, revision = dict(model), store.committed
    carry_out(store, operations[cut:], model)
    told = {tuple(item.key): decode(item.data)["data"]["value"] for item in store.table("configmaps").at(revision)}
    assert told == then


@given(OPERATIONS)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_restart_brings_back_the_same_objects_at_higher_revisions(tmp_path_factory, operations):
    path = tmp_path_factory.mktemp("store") / "plane.db"

    async def story() -> tuple[dict, int]:
        store, model = Store(Sqlite(path)), {}
        await asyncio.gather(*carry_out(store, operations, model), return_exceptions=False)
        store.journal.close()
        return model, store.revision

    model, revision = asyncio.run(story())

    async def again() -> None:
        store = Store(Sqlite(path))
        held = {tuple(i.key): decode(i.data)["data"]["value"] for i in store.table("configmaps").items()}
        assert held == model
        assert store.committed >= revision
        if revision:
            with pytest.raises(Gone):
                store.table("configmaps").ring.position(revision - 1)
        store.journal.close()

    asyncio.run(again())


def test_a_watcher_that_falls_off_the_ring_is_told_to_list_again():
    store = Store(NoJournal())
    table = store.table("configmaps")
    table.ring = Ring(0, limit=4)
    watcher = Watcher(store, table, 0, "", None)
    for value in range(20):
        store.commit(put(store, "x", value))
    with pytest.raises(Gone):
        watcher.take()


def test_a_past_that_weighs_too_much_is_forgotten_but_not_before_watchers_have_seen_it():
    store = Store(NoJournal())
    table = store.table("configmaps")
    table.ring = Ring(0, past=1000)
    slow, quick = (Watcher(store, table, 0, "", None) for _ in range(2))
    for value in range(50):
        store.commit(put(store, "x", value))
        quick.take()
    assert table.ring.start == 0 and table.ring.weight > 1000
    assert [decode(seen.item.data)["data"]["value"] for seen in slow.take()] == [str(value) for value in range(50)]
    store.commit(put(store, "x", 50))
    assert table.ring.weight <= 1000 and table.ring.weight == sum(change.weight for change in table.ring.changes)
    with pytest.raises(Gone):
        table.ring.position(1)
    assert len(quick.take()) == len(slow.take()) == 1


def test_a_writer_sees_what_is_not_committed_and_a_reader_does_not():
    store = Store(NoJournal())
    table = store.table("configmaps")
    change = put(store, "x", 1)
    assert table.latest(Key("default", "x")) is change.item
    assert table.get(Key("default", "x")) is None
    store.commit(change)
    assert table.get(Key("default", "x")) is change.item
    assert not table.head


def test_two_pending_changes_of_one_key_settle_in_order():
    store = Store(NoJournal())
    table = store.table("configmaps")
    changes = [put(store, "x", 1), remove(store, "x"), put(store, "x", 2), remove(store, "x")]
    for change in changes[:3]:
        store.commit(change)
    assert table.latest(Key("default", "x")) is None, "the pending removal is what a writer builds on"
    assert decode(table.get(Key("default", "x")).data)["data"]["value"] == "2"
    store.commit(changes[3])
    assert table.get(Key("default", "x")) is None


def test_owners_are_indexed():
    store = Store(NoJournal())
    child = document("child", 1)
    child["metadata"]["ownerReferences"] = [{"uid": "parent-uid", "name": "p", "kind": "X", "apiVersion": "v1"}]
    change = store.put("configmaps", child, None)
    store.commit(change)
    assert store.owned == {"parent-uid": {("configmaps", Key("default", "child"))}}
    store.commit(store.remove("configmaps", change.item))
    assert store.owned == {}


def test_what_is_current_stays_decoded_however_often_something_else_is_written():
    store = Store(NoJournal())
    store.commit(put(store, "seldom", 1))
    for value in range(2 * RECENT):
        store.commit(put(store, "often", value))
    often, seldom = store.table("configmaps").items()
    assert seldom.document is not None and often.document is not None
    for value in range(RECENT):
        store.commit(put(store, f"other-{value}", value))
    assert seldom.document is None
    assert store.document(seldom)["data"] == {"value": "1"}, "its bytes are kept"


FAMILIES = st.lists(
    st.tuples(
        st.sampled_from("xyz"), st.sampled_from(["uid-1", "uid-2"]), st.sets(st.sampled_from("pqr")), st.booleans()
    ),
    max_size=30,
)


@given(FAMILIES)
def test_who_owns_what_is_what_the_objects_say(operations):
    store = Store(NoJournal())
    table = store.table("configmaps")
    for name, uid, owners, goes in operations:
        if goes:
            if change := remove(store, name):
                store.commit(change)
            continue
        given_ = document(name, 0)
        given_["metadata"] |= {"uid": f"{name}-{uid}", "ownerReferences": [{"uid": owner} for owner in sorted(owners)]}
        store.commit(store.put("configmaps", given_, table.latest(Key("default", name))))
    assert store.living == {item.uid: ("configmaps", item.key) for item in table.items()}
    assert store.owned == {
        owner: {("configmaps", item.key) for item in table.items() if owner in item.owners}
        for item in table.items()
        for owner in item.owners
    }


METADATA = {
    "an ordinary one": {"name": "x"},
    "one that goes": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"uid": "o"}]},
    "one that says so of nothing": {"name": "x", "deletionTimestamp": None, "labels": {"a": "b"}},
}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
def test_an_item_knows_the_same_from_its_bytes_as_from_its_document(metadata):
    given_ = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {**metadata, "uid": "u"}}
    read, told = (Item(Key("", "x"), 1, encode(given_), each) for each in (None, given_))
    for field in ("uid", "labels", "owners", "is_leaving"):
        assert getattr(read, field) == getattr(told, field)
    assert told.is_leaving is bool(metadata.get("deletionTimestamp"))
