"""Ownership after a schema changed: what became one piece is owned as one, and nothing else moves."""

import pytest

from allaboard.merge.apply import Actor, track
from allaboard.merge.managers import Owner
from allaboard.merge.reconcile import reconciled
from allaboard.schema.nodes import Node, node_of
from allaboard.schema.structure import Structure

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"name": TEXT, "v": TEXT}}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def schema(**parts):
    spec = {"type": "object", "properties": parts}
    return Node({"type": "object", "properties": {"spec": spec}})


def fields(**parts):
    return {"f:spec": {f"f:{name}": place for name, place in parts.items()}}


MAP = {"type": "object", "additionalProperties": TEXT}
CASES = {
    "a map": ({**MAP, "x-kubernetes-map-type": "atomic"}, {"f:a": {}, "f:b": {}}, {}),
    "a struct": ({**ITEM, "x-kubernetes-map-type": "atomic"}, {".": {}, "f:name": {}}, {}),
    "a keyed list": ({"type": "array", "items": ITEM}, {'k:{"name":"a"}': {".": {}, "f:v": {}}}, {}),
    "a set": ({"type": "array", "items": TEXT}, {'v:"x"': {}, 'v:"y"': {}}, {}),
    "what stayed granular": (MAP, {"f:a": {}}, {"f:a": {}}),
    "what became granular": (MAP, {}, {}),
    "a map inside of a keyed list": (
        {"type": "array", **KEYED, "items": {**ITEM, "properties": {"m": {**MAP, "x-kubernetes-map-type": "atomic"}}}},
        {'k:{"name":"a"}': {".": {}, "f:m": {"f:x": {}}}},
        {'k:{"name":"a"}': {".": {}, "f:m": {}}},
    ),
    "a field nobody declares any more": (None, {"f:a": {}}, {"f:a": {}}),
}


@pytest.mark.parametrize(("part", "owned", "want"), CASES.values(), ids=CASES)
def test_an_owner_follows_the_schema(part, owned, want):
    owner = Owner("m", "Apply", "g/v1", fields(m=owned))
    node = schema(m=part) if part is not None else schema()
    (found,) = reconciled({"m": owner}, node).values()
    assert found.fields == fields(m=want)


def test_what_does_not_change_is_not_made_again():
    owners = {"m": Owner("m", "Apply", "g/v1", fields(m={"f:a": {}}))}
    assert reconciled(owners, schema(m=MAP)) is owners
    assert reconciled(owners, node_of({"$ref": "core.v1.Pod"})) is owners


ATOMIC = {"type": "object", "properties": {"m": {**MAP, "x-kubernetes-map-type": "atomic"}}}
LATER = {
    "what stands under a schema that was another once": (False, False, {}),
    "what stands under the only schema there ever was": (True, False, {"f:a": {}}),
    "what a client says of it": (True, True, {}),
}


@pytest.mark.parametrize(("lasting", "said", "want"), LATER.values(), ids=LATER)
def test_sets_are_divided_anew_only_where_somebody_may_have_divided_them_otherwise(lasting, said, want):
    structure = Structure({"type": "object", "properties": {"spec": ATOMIC}}, lasting)
    entries = [Owner("m", "Apply", "g/v1", fields(m={"f:a": {}})).entry()]
    old = {"metadata": {"name": "x", "managedFields": entries}, "spec": {"m": {"a": "1"}}}
    new = {**old, "metadata": {"name": "x", "labels": {"l": "1"}} | ({"managedFields": entries} if said else {})}
    found = track(old, new, structure, Actor("other", "g/v1", "now"))
    assert found["metadata"]["managedFields"][0]["fieldsV1"] == fields(m=want)
