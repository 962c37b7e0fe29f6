"""Structures against another implementation of JSON schema: the same documents are good, the same are bad."""

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from allaboard.schema import structure

SPEC = {
    "type": "object",
    "required": ["name"],
    "minProperties": 1,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 4, "pattern": "^[a-c]+$"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number", "minimum": 0},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "on": {"type": "boolean"},
        "few": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        "inner": {
            "type": "object",
            "required": ["x"],
            "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "object"}}},
        },
        "either": {
            "type": "object",
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {"a": {}, "b": {}},
        },
        "some": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "every": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 4}]},
        "never": {"type": "integer", "not": {"minimum": 3}},
    },
}
ours = structure.compile({"type": "object", "properties": {"spec": SPEC}})
theirs = jsonschema_rs.validator_for(SPEC)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([0.5, 2.0, -1.5])
    | st.sampled_from(["", "a", "abc", "abcde", "fast", "é"]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x", "y"]), inside, max_size=3)
    ),
    max_leaves=5,
)
specs = st.dictionaries(st.sampled_from([*SPEC["properties"], "other"]), values, max_size=6)


@given(specs)
def test_both_call_the_same_documents_good(spec):
    assert (ours.validate({"spec": spec}) == []) == theirs.is_valid(spec)
