"""The words for a text that is no JSON are the reference implementation's."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.cluster.jsonwords import complaint

CASES = {
    "nothing": (b"", "unexpected end of JSON input"),
    "a word": (b"hello", "invalid character 'h' looking for beginning of value"),
    "an open object": (b"{", "unexpected end of JSON input"),
    "a key that is no text": (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
    "no colon": (b'{"a" 1}', "invalid character '1' after object key"),
    "no comma": (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
    "a list without comma": (b"[1 2]", "invalid character '2' after array element"),
    "more than one value": (b"{}{}", "invalid character '{' after top-level value"),
    "a broken literal": (b"trve", "invalid character 'v' in literal true (expecting 'u')"),
    "a line in a text": (b'"a\nb"', "invalid character '\\n' in string literal"),
    "an unknown escape": (b'"\\q"', "invalid character 'q' in string escape code"),
    "a broken \\u": (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
    "a lonely minus": (b"-x", "invalid character 'x' in numeric literal"),
    "a lonely point": (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
    "a lonely exponent": (b"1ex", "invalid character 'x' in exponent of numeric literal"),
    "a byte that is no text": (b"\x9e", "invalid character '\\u009e' looking for beginning of value"),
    "too deep": (b"[" * 20_000, "exceeded max depth"),
    "a list as it should be": (b'[1, -2.5e+3, "x\\u0041", {"a": [true, null]}] ', ""),
}


@pytest.mark.parametrize(("data", "words"), CASES.values(), ids=CASES)
def test_the_first_fault_is_named(data, words):
    assert complaint(data) == words


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_whatever_is_json_has_no_fault(value):
    assert complaint(json.dumps(value).encode()) == ""
    assert complaint(json.dumps(value, ensure_ascii=False, indent=1).encode()) == ""


@given(st.binary(max_size=20))
def test_a_fault_is_found_exactly_where_the_standard_library_finds_one(data):
    try:
        json.loads(data.decode(), parse_constant=lambda text: 1 / 0)
    except (ValueError, UnicodeDecodeError, ZeroDivisionError):
        if data.isascii():
            assert complaint(data) != ""
    else:
        assert complaint(data) == ""
