"""Patches: JSON patch, merge patch and strategic merge, with the leniences and the words of the API server."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api.errors import ApiError, BadRequest, TooLarge
from allaboard.merge.patch import Rejected, json_patch, merge_patch, strategic_merge, unknown_words
from allaboard.merge.refusals import Unmergeable
from allaboard.schema import structure

MAP = {"data": {"a": "1", "b": "2"}, "list": ["x", "y"], "m": {"a/b": 1, "c~d": 2}}

CHANGED = {
    "add": ([{"op": "add", "path": "/data/c", "value": "3"}], {"data": {"a": "1", "b": "2", "c": "3"}}),
    "add to the end": ([{"op": "add", "path": "/list/-", "value": "z"}], {"list": ["x", "y", "z"]}),
    "insert": ([{"op": "add", "path": "/list/0", "value": "z"}], {"list": ["z", "x", "y"]}),
    "insert at the end": ([{"op": "add", "path": "/list/2", "value": "z"}], {"list": ["x", "y", "z"]}),
    "remove": ([{"op": "remove", "path": "/data/a"}], {"data": {"b": "2"}}),
    "remove the last": ([{"op": "remove", "path": "/list/-1"}], {"list": ["x"]}),
    "replace": ([{"op": "replace", "path": "/data/a", "value": "9"}], {"data": {"a": "9", "b": "2"}}),
    "replace a missing key": (
        [{"op": "replace", "path": "/data/n", "value": "9"}],
        {"data": {"a": "1", "b": "2", "n": "9"}},
    ),
    "move": ([{"op": "move", "from": "/data/a", "path": "/data/z"}], {"data": {"b": "2", "z": "1"}}),
    "copy": ([{"op": "copy", "from": "/data/a", "path": "/data/z"}], {"data": {"a": "1", "b": "2", "z": "1"}}),
    "copy what is missing": (
        [{"op": "copy", "from": "/data/n", "path": "/data/z"}],
        {"data": {"a": "1", "b": "2", "z": None}},
    ),
    "test": ([{"op": "test", "path": "/data/a", "value": "1"}], {}),
    "test for nothing": ([{"op": "test", "path": "/data/n", "value": None}], {}),
    "an escaped slash": ([{"op": "replace", "path": "/m/a~1b", "value": 5}], {"m": {"a/b": 5, "c~d": 2}}),
    "an escaped tilde": ([{"op": "remove", "path": "/m/c~0d"}], {"m": {"a/b": 1}}),
    "no leading slash": ([{"op": "add", "path": "data/q", "value": 1}], {"q": 1}),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("operations", "changes"), CHANGED.values(), ids=CHANGED)
def test_a_json_patch_changes(operations, changes):
    before = copy.deepcopy(MAP)
    assert json_patch(MAP, operations) == {**MAP, **changes}
    assert before == MAP


REJECTED = {
    "a failed test": [{"op": "test", "path": "/data/a", "value": "8"}],
    "a missing key": [{"op": "remove", "path": "/data/zzz"}],
    "a missing parent": [{"op": "add", "path": "/none/x", "value": 1}],
    "an index out of range": [{"op": "remove", "path": "/list/9"}],
    "an insert out of range": [{"op": "add", "path": "/list/9", "value": 1}],
    "an index that is none": [{"op": "remove", "path": "/list/x"}],
    "an unknown operation": [{"op": "frob", "path": "/data/a"}],
    "no operation": [{"path": "/data/a"}],
    "no path": [{"op": "remove"}],
    "into a text": [{"op": "add", "path": "/data/a/b", "value": 1}],
    "a move of nothing": [{"op": "move", "from": "/data/n", "path": "/data/z"}],
    "not an object in the end": [{"op": "replace", "path": "", "value": []}],
}


@pytest.mark.parametrize("operations", REJECTED.values(), ids=REJECTED)
def test_a_json_patch_that_cannot_be_carried_out_is_rejected(operations):
    with pytest.raises(Rejected) as refusal:
        json_patch(MAP, operations)
    want = {"reason": "Invalid", "code": 422, "details": {}}
    assert {key: refusal.value.status()[key] for key in want} == want
    assert refusal.value.message == "the server rejected our request due to an error in our request"


def test_a_json_patch_is_a_list_of_at_most_ten_thousand():
    with pytest.raises(BadRequest, match=r"cannot unmarshal object into Go value of type \[\]handlers.jsonPatchOp"):
        json_patch(MAP, {})
    with pytest.raises(TooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        json_patch(MAP, [{"op": "test", "path": ""}] * 10_001)


MERGED = {
    "null removes": ({"data": {"a": None, "c": "3"}}, {"data": {"b": "2", "c": "3"}}),
    "null removes a map": ({"data": None}, {"data": ...}),
    "lists are replaced": ({"list": ["z"]}, {"list": ["z"]}),
    "nulls in what is new mean nothing": ({"new": {"a": None, "b": 1}}, {"new": {"b": 1}}),
    "a scalar gives way": ({"list": {"a": 1}}, {"list": {"a": 1}}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize(("patch", "changes"), MERGED.values(), ids=MERGED)
def test_a_merge_patch_changes(patch, changes):
    want = {name: part for name, part in {**MAP, **changes}.items() if part is not ...}
    assert merge_patch(MAP, patch) == want


NO_PATCH = {
    "a list": ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    "null": (None, "Invalid JSON Patch"),
}


@pytest.mark.parametrize(("patch", "words"), NO_PATCH.values(), ids=NO_PATCH)
def test_a_merge_patch_is_an_object(patch, words):
    with pytest.raises(BadRequest) as refusal:
        merge_patch(MAP, patch)
    assert refusal.value.message == words


json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from("abc"), json, max_size=3)


@given(objects, objects)
def test_a_merge_patch_twice_is_a_merge_patch_once(document, patch):
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(
    objects,
    st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]),
                "path": st.sampled_from(["", "/a", "/a/b", "/a/0", "/b/-", "c"]),
                "from": st.sampled_from(["/a", "/a/b", "/c/0"]),
            },
            optional={"value": json},
        ),
        max_size=4,
    ),
)
def test_any_json_patch_is_carried_out_or_rejected(document, operations):
    before = copy.deepcopy(document)
    try:
        json_patch(document, operations)
    except ApiError as refusal:
        assert refusal.code == 422
    assert document == before


# --- strategic merge --------------------------------------------------------------------------------------------------

POD = structure.compile({"$ref": "core.v1.Pod"}).root
SERVICE = structure.compile({"$ref": "core.v1.Service"}).root
LIVE = {
    "metadata": {"finalizers": ["1", "2"], "labels": {"l": "1"}, "ownerReferences": [{"uid": "u", "name": "o"}]},
    "spec": {
        "containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]},
            {"name": "b", "image": "y:1", "args": ["1"]},
        ],
        "tolerations": [{"key": "k"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
A, B = LIVE["spec"]["containers"]

STRATEGIC = {
    "items by name": (
        {"spec": {"containers": [{"name": "b", "image": "y:2"}]}},
        ["spec", "containers"],
        [A, {**B, "image": "y:2"}],
    ),
    "a new item comes first": (
        {"spec": {"containers": [{"name": "c"}]}},
        ["spec", "containers"],
        [{"name": "c"}, A, B],
    ),
    "an order": (
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        ["spec", "containers"],
        [B, A],
    ),
    "an order with a change": (
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}],
            }
        },
        ["spec", "containers"],
        [B, {"name": "c"}, A],
    ),
    "delete an item": ({"spec": {"containers": [{"name": "b", "$patch": "delete"}]}}, ["spec", "containers"], [A]),
    "replace a list": (
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}},
        ["spec", "containers"],
        [{"name": "z"}],
    ),
    "a list in an item": (
        {
            "spec": {
                "containers": [{"name": "a", "env": [{"name": "F", "$patch": "delete"}, {"name": "G", "value": "3"}]}]
            }
        },
        ["spec", "containers"],
        [{**A, "env": [{"name": "G", "value": "3"}, {"name": "E", "value": "1"}]}, B],
    ),
    "an atomic list is replaced": ({"spec": {"tolerations": [{"key": "n"}]}}, ["spec", "tolerations"], [{"key": "n"}]),
    "arguments are replaced": (
        {"spec": {"containers": [{"name": "b", "args": ["2"]}]}},
        ["spec", "containers"],
        [A, {**B, "args": ["2"]}],
    ),
    "a set of texts": ({"metadata": {"finalizers": ["3"]}}, ["metadata", "finalizers"], ["3", "1", "2"]),
    "forget a text": ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["1"]}}, ["metadata", "finalizers"], ["2"]),
    "order of texts": (
        {"metadata": {"$setElementOrder/finalizers": ["2", "3", "1"], "finalizers": ["3"]}},
        ["metadata", "finalizers"],
        ["2", "3", "1"],
    ),
    "replace a map": ({"metadata": {"labels": {"$patch": "replace", "n": "1"}}}, ["metadata", "labels"], {"n": "1"}),
    "delete a map": ({"metadata": {"labels": {"$patch": "delete"}}}, ["metadata", "labels"], {}),
    "null removes": ({"metadata": {"labels": {"l": None, "m": "2"}}}, ["metadata", "labels"], {"m": "2"}),
    "a directive for nothing is dropped": (
        {"metadata": {"annotations": {"$patch": "frob"}}},
        ["metadata", "annotations"],
        None,
    ),
    "owners by uid": (
        {"metadata": {"ownerReferences": [{"uid": "u", "$patch": "delete"}]}},
        ["metadata", "ownerReferences"],
        [],
    ),
    "keys that may stay": (
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
        ["spec", "volumes"],
        [{"name": "v", "hostPath": {"path": "/"}}],
    ),
}


@pytest.mark.parametrize(("patch", "path", "want"), STRATEGIC.values(), ids=STRATEGIC)
def test_a_strategic_merge_changes(patch, path, want):
    before = copy.deepcopy(LIVE)
    found = strategic_merge(LIVE, patch, POD)
    assert before == LIVE
    for step in path:
        found = found.get(step)
    assert found == want


def test_ports_of_a_service_are_merged_by_port():
    live = {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}
    patch = {"spec": {"ports": [{"port": 53}], "$setElementOrder/ports": [{"port": 53}, {"port": 80}]}}
    ports = strategic_merge(live, patch, SERVICE)["spec"]["ports"]
    assert [port["port"] for port in ports] == [53, 80, 443]


UNMERGEABLE = {
    "no merge key": (
        {"spec": {"containers": [{"image": "y"}]}},
        "map: map[image:y] does not contain declared merge key: name",
    ),
    "another order": (
        {"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a", "image": "z"}]}},
        "The order in patch list:\n[map[image:z name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
    ),
    "an unknown directive": (
        {"metadata": {"labels": {"$patch": "frob"}}},
        "unknown patch type: frob in map: map[$patch:frob]",
    ),
    "an unknown directive of an item": (
        {"spec": {"containers": [{"name": "a", "$patch": "frob"}]}},
        "unknown patch type: frob in map: map[$patch:frob name:a]",
    ),
    "an order that is no list": (
        {"spec": {"$setElementOrder/containers": "x"}},
        "expected a []interface {}, but received a string",
    ),
    "an order of what is no list": (
        {"metadata": {"$setElementOrder/labels": ["a"]}},
        "expected a []interface {}, but received a map[string]interface {}",
    ),
}


MISREAD = {
    "no object": ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    "a text": (["x"], "json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
    "a number for an operation": (
        [{"op": 5, "path": "/x"}],
        "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    ),
    "no list": ({}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
}


@pytest.mark.parametrize(("operations", "words"), MISREAD.values(), ids=MISREAD)
def test_a_json_patch_that_cannot_be_read_is_a_bad_request(operations, words):
    with pytest.raises(BadRequest) as refusal:
        json_patch(MAP, operations)
    assert refusal.value.message == f"error decoding patch: {words}"


def test_a_json_patch_of_nothing_changes_nothing():
    assert json_patch(MAP, None) == MAP


def test_operations_may_say_no_more_than_they_can():
    said = [{"op": "add", "path": "/a", "value": 1, "foo": 2}, {"op": "remove", "path": "/a"}]
    assert unknown_words(said) == ['unknown field "[0].foo"']


RETAINED = {
    "keys that were not to stay": {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}},
    "keys that are no list": {"metadata": {"labels": {"$retainKeys": "a"}}},
}


@pytest.mark.parametrize("patch", RETAINED.values(), ids=RETAINED)
def test_what_shall_stay_must_be_named_well(patch):
    with pytest.raises(BadRequest, match="invalid patch format of retainKeys"):
        strategic_merge(LIVE, patch, POD)


def test_texts_to_delete_that_are_no_list_delete_nothing():
    assert strategic_merge(LIVE, {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, POD) == LIVE


@pytest.mark.parametrize(("patch", "words"), UNMERGEABLE.values(), ids=UNMERGEABLE)
def test_a_strategic_merge_that_makes_no_sense_is_refused(patch, words):
    with pytest.raises(Unmergeable) as refusal:
        strategic_merge(LIVE, patch, POD)
    assert (refusal.value.message, refusal.value.code, refusal.value.reason) == (words, 500, "")


def test_a_strategic_merge_is_an_object():
    with pytest.raises(BadRequest, match="json: cannot unmarshal array into Go value of type"):
        strategic_merge(LIVE, [], POD)


def test_nesting_without_end_is_refused_by_a_sentence():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for patch in (merge_patch, lambda live, change: strategic_merge(live, change, POD)):
        with pytest.raises(BadRequest, match="nested too deeply"):
            patch({"a": {}}, {"a": deep})
    while deep:
        deep = deep.pop("a")


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.text(max_size=2), max_size=3))
def test_a_strategic_merge_without_directives_can_be_repeated(patch):
    once = strategic_merge(LIVE, {"spec": {"nodeSelector": patch}}, POD)
    assert strategic_merge(once, {"spec": {"nodeSelector": patch}}, POD) == once
