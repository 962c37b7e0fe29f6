"""Quantities against an exact model, against Kubernetes' own spelling, and against the recorded ones."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import quantity
from allaboard.api.quantity import BadQuantity, canonical, parse

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "trainer" / "functions.json"

SPELLED = {
    "0.5": "500m",
    "1000": "1k",
    "1024": "1024",
    "1000000": "1M",
    "8192Ki": "8Mi",
    "0.5Gi": "512Mi",
    "1.5Gi": "1536Mi",
    "100m": "100m",
    "1e3": "1e3",
    "11e2": "1100",
    "13E-2": "130e-3",
    "0": "0",
    "-0": "0",
    "0Gi": "0",
    "+1": "+1",
    "0.5n": "1n",
    "1e-1000": "1e-9",
    "100Ti": "100Ti",
    "0.1Ki": "102400m",
    "3.2k": "3200",
    "1.": "1.",
    "e3": "0",
}


@pytest.mark.parametrize(("text", "want"), SPELLED.items())
def test_a_quantity_is_spelled_as_kubernetes_spells_it(text, want):
    assert canonical(text) == want


NUMBERS = {1: "1", 0.5: "500m", 1000: "1k", 1e21: "1e+21"}


@pytest.mark.parametrize(("number", "want"), NUMBERS.items())
def test_a_json_number_is_a_quantity_too(number, want):
    assert canonical(number) == want


BAD = {
    "": quantity.PATTERN,
    "1.2.3": quantity.PATTERN,
    "0x10": quantity.PATTERN,
    "1e2Mi": quantity.PATTERN,
    "--1": quantity.BAD_SUFFIX,
    "1m5": quantity.BAD_SUFFIX,
    "1Kii": quantity.BAD_SUFFIX,
    "1e99999999": quantity.BAD_SUFFIX,
    "９": quantity.PATTERN,
}


@pytest.mark.parametrize(("text", "words"), BAD.items())
def test_what_is_no_quantity_is_refused_in_kubernetes_words(text, words):
    with pytest.raises(BadQuantity, match=r".*") as refusal:
        parse(text)
    assert str(refusal.value) == words


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_other_values_are_no_quantities(value):
    assert not quantity.is_quantity(value)


def test_more_digits_than_any_machine_has_are_refused():
    with pytest.raises(BadQuantity):
        parse("9" * 20_000)


ROUNDED = {"1500m": (2, 1500), "-1500m": (-2, -1500), "1n": (1, 1), "-1n": (-1, -1), "2": (2, 2000), "100u": (1, 1)}


@pytest.mark.parametrize(("text", "want"), ROUNDED.items())
def test_whole_units_are_rounded_away_from_zero(text, want):
    assert (parse(text).value(), parse(text).milli_value()) == want


SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1, "k": 1000, "M": 10**6}
SUFFIXES |= {"G": 10**9, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "e3": 1000, "E-3": Fraction(1, 1000)}
texts = st.builds(
    lambda sign, whole, places, suffix: (f"{sign}{whole}{places}{suffix}", suffix),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**9).map(str),
    st.sampled_from(["", ".5", ".25", ".001"]),
    st.sampled_from(sorted(SUFFIXES)),
)


def exact(text, suffix):
    value = Fraction(text.removesuffix(suffix)) * SUFFIXES[suffix] * 10**9
    whole = abs(value).__ceil__()
    return Fraction(-whole if value < 0 else whole, 10**9)


@given(texts)
def test_a_quantity_is_its_exact_value_in_billionths(pair):
    text, suffix = pair
    assert Fraction(parse(text).nanos, 10**9) == exact(text, suffix)


@given(texts)
def test_spelling_and_reading_again_loses_nothing(pair):
    found = parse(pair[0])
    assert parse(str(found + parse("0"))) == found


@given(texts, texts)
def test_sums_and_order_are_those_of_the_exact_values(one, other):
    left, right = parse(one[0]), parse(other[0])
    assert (left + right).nanos == left.nanos + right.nanos
    assert (left - right).nanos == left.nanos - right.nanos
    assert quantity.compare(left, right) == (left.nanos > right.nanos) - (left.nanos < right.nanos)


def test_vectors_add_and_compare_name_by_name():
    one, two = quantity.resources({"cpu": "500m", "memory": "1Gi"}), quantity.resources({"cpu": 1, "gpu": "2"})
    assert quantity.resource_list(quantity.total([one, two])) == {"cpu": "1500m", "memory": "1Gi", "gpu": "2"}
    assert quantity.resource_list(quantity.largest([one, two])) == {"cpu": "1", "memory": "1Gi", "gpu": "2"}
    assert quantity.resource_list(quantity.times(one, 3)) == {"cpu": "1500m", "memory": "3Gi"}


def recorded(name):
    if not RECORDED.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="no recorded data beside the repository"))]
    rows = json.loads(RECORDED.read_text())["cases"]
    return [pytest.param(row, id=row["id"]) for row in rows if row["fn"] == name and not row.get("quirk")]


@pytest.mark.parametrize("row", recorded("quantity"))
def test_recorded_quantities(row):
    try:
        found = parse(row["args"])
    except BadQuantity as problem:
        assert {"error": str(problem)} == row["result"]
        return
    shown = {"canonical": str(found), "value": found.value(), "milliValue": found.milli_value()}
    assert {**shown, "sign": found.sign, "format": found.format} == row["result"]


@pytest.mark.parametrize("row", recorded("quantity.compare"))
def test_recorded_comparisons(row):
    left, right = map(parse, row["args"])
    assert {"cmp": quantity.compare(left, right), "equal": left == right} == row["result"]
