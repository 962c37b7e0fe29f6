"""The bytes of an item are the document's, however they are held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api.documents import Key
from allaboard.cluster.packing import pack
from allaboard.cluster.store import Item, decode, encode

UID = "0f3c7f0e-8a55-4f0e-9f0a-0123456789ab"
LONG = {f"f:field-{number}": {} for number in range(40)}
OWNED = {"f:metadata": {"f:ownerReferences": {".": {}, f'k:{{"uid":"{UID}"}}': {}}}, "f:spec": LONG}


def entry(fields: object, **more: object) -> dict:
    return {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields, **more}


def document(*entries: dict, **more: object) -> dict:
    metadata = {"name": "x", "uid": UID} | ({"managedFields": list(entries)} if entries else {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"a": "b"}, **more}


CASES = {
    "no owners of fields": (document(), 1),
    "a small set stays where it is": (document(entry({"f:spec": {}})), 1),
    "a large set is a piece of its own": (document(entry({"f:spec": LONG})), 3),
    "the uid of an owner is kept apart": (document(entry(OWNED)), 5),
    "two large sets": (document(entry(OWNED), entry({"f:spec": LONG}, subresource="status")), 7),
    "an entry without a set": (document({"manager": "m"}), 1),
    "a set that is null": (document(entry(None)), 1),
    "texts that look like sets": (document(entry({"f:spec": LONG}), data='"fieldsV1":{"a":"\\u0000"}'), 3),
    "a flat document": ({"kind": "ConfigMap", "metadata": {"name": "x", "managedFields": [entry({"f:d": LONG})]}}, 1),
}


@pytest.mark.parametrize(("given_", "pieces"), CASES.values(), ids=CASES)
def test_what_is_held_is_the_document(given_, pieces):
    held = pack(given_)
    item = Item(Key("", "x"), 1, held, given_)
    assert decode(item.data) == given_
    assert item.data == encode(given_)
    assert (1 if isinstance(held, bytes) else len(held)) == pieces
    assert item.starts_with(item.data[:10])


SETS = {"one text": (), "pieces": (entry(OWNED),)}


@pytest.mark.parametrize("entries", SETS.values(), ids=SETS)
def test_a_later_revision_of_the_same_words_is_the_same_text(entries):
    given_ = [document(*entries, data='"resourceVersion":"7"') for _ in range(2)]
    for found, revision in zip(given_, ("7", "12"), strict=True):
        found["metadata"] = {"name": "x", "uid": UID, "resourceVersion": revision} | found["metadata"]
    before = Item(Key("", "x"), 7, pack(given_[0]), given_[0])
    assert before.moved_to(12, given_[1]).data == encode(given_[1])
    assert before.data == encode(given_[0])


def test_twins_hold_the_same_sets_and_their_own_words():
    other = UID.replace("0f", "ff")
    text = encode(OWNED).decode().replace(UID, other)
    left, right = (pack(document(entry(fields))) for fields in (OWNED, decode(text.encode())))
    assert [a is b for a, b in zip(left, right)] == [False, True, False, True, False]
    assert Item(Key("", "x"), 1, left, document()).size < len(b"".join(left)) / 2


@given(st.dictionaries(st.text(), st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner))))
def test_any_document_comes_back(data):
    given_ = document(entry({"f:spec": {**LONG, **data}}), data=data)
    assert Item(Key("", "x"), 1, pack(given_), given_).data == encode(given_)
