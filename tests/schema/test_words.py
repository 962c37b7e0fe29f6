"""Words about custom resources as a real API server says them: keyed lists, counts, floats, and what comes first."""

import pytest

from allaboard.api.errors import Cause
from allaboard.schema.findings import go_general, shown
from allaboard.schema.structure import Structure

ITEM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
KEYED = {
    "type": "array", "items": ITEM, "maxItems": 3, "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}  # fmt: skip
RULE = {"rule": "has(self.many)", "message": "must have many"}
SPEC = {
    "type": "object",
    "properties": {"many": KEYED, "one": {**KEYED, "maxItems": 1}},
    "x-kubernetes-validations": [RULE],
}
SHAPE = Structure({"type": "object", "properties": {"spec": SPEC}})
NOT_CHECKED = "some validation rules were not checked"


def said(spec, **options):
    return [f"{cause.field}: {cause.message}" for cause in SHAPE.validate({"spec": spec}, **options)]


def no_object(value, index=0):
    return f"spec.many[{index}]: Invalid value: {value}: must be an object for an array of list-type map"


LISTS = {
    "a number": ([5], no_object("5")),
    "a number past 64 bits": ([2**63], no_object("9.223372036854776e+18")),
    "a text after an object": ([{"name": "a"}, "x"], no_object('"x"', 1)),
    "a list": ([[]], no_object("[]")),
}


@pytest.mark.parametrize(("many", "words"), LISTS.values(), ids=LISTS)
def test_an_item_of_a_keyed_list_is_an_object(many, words):
    assert words in said({"many": many})


def test_only_the_first_such_item_is_told_and_a_null_not_at_all():
    assert no_object('"b"', 1) not in said({"many": ["a", "b"]})
    assert not [words for words in said({"many": [None, 5]}) if "list-type map" in words]


@pytest.mark.parametrize(("field", "most", "things"), [("one", 1, "item"), ("many", 3, "items")])
def test_one_item_is_no_items(field, most, things):
    names = [{"name": str(number)} for number in range(4)]
    assert f"spec.{field}: Too many: 4: must have at most {most} {things}" in said({field: names})


def test_a_rule_is_not_asked_about_an_object_that_is_known_to_be_wrong():
    assert "must have many" in said({})[0]
    (only,) = said({}, known=[Cause("FieldValueRequired", "metadata.name", "Required value")])
    assert NOT_CHECKED in only
    assert "must have many" in said({}, known=[Cause("FieldValueInvalid", "metadata.name", "Invalid value")])[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"), (100000.0, "100000"), (1e6, "1e+06"), (123456789.0, "1.23456789e+08"), (1e-5, "1e-05"),
        (2.0**63, "9.223372036854776e+18"), (0.0, "0"), (-2.5e7, "-2.5e+07"),
    ],
)  # fmt: skip
def test_floats_are_printed_as_go_prints_values(value, text):
    assert go_general(value) == shown(value) == text


def test_whole_numbers_of_64_bits_stay_plain():
    assert (shown(2**63 - 1), shown(10**7), shown(-(2**63))) == ("9223372036854775807", "10000000", str(-(2**63)))
