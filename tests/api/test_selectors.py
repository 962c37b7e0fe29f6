"""Label and field selectors: what they select, what they say of what they cannot read, and a naive second opinion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import selectors
from allaboard.api.selectors import BadSelector, from_document, from_map, parse_fields, parse_labels

POD = {"app": "web", "tier": "3", "x": ""}

SELECTED = {
    "": True,
    "app=web": True,
    "app==web": True,
    "app!=web": False,
    "app in (web, db)": True,
    "app notin (db)": True,
    "none!=1": True,
    "none=1": False,
    "none notin (a)": True,
    "app": True,
    "none": False,
    "!none": True,
    "!app": False,
    "tier>2": True,
    "tier<2": False,
    "app>2": False,
    "x=": True,
    "x in ()": True,
    "app=web,tier in (3)": True,
    "app=web,tier in (4)": False,
    "x in (,a)": True,
    " app = web ": True,
    "in in (in)": False,
}


@pytest.mark.parametrize(("text", "want"), SELECTED.items())
def test_a_label_selector_selects(text, want):
    assert parse_labels(text).matches(POD) is want


LONG = "x" * 64
REFUSED = {
    "app in (a": "unable to parse requirement: found '', expected: ',' or ')'",
    "=a": "found '=', expected: !, identifier, or 'end of string'",
    "app=a b": "found 'b', expected: ',' or 'end of string'",
    "app==a==b": "found '==', expected: ',' or 'end of string'",
    "app in a": "unable to parse requirement: found 'a' expected: '('",
    "!": "unable to parse requirement: found '', expected: identifier",
    ",": "found ',', expected: !, identifier, or 'end of string'",
    "a=b,": "found '', expected: identifier after ','",
    "app>x": 'unable to parse requirement: values[0]: Invalid value: "x": '
    "for 'Gt', 'Lt' operators, the value must be an integer",
    "bad key!=x": "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt",
    "a="
    + "x"
    * 64: f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items())
def test_a_label_selector_nobody_can_read_is_refused(text, words):
    with pytest.raises(BadSelector) as refusal:
        parse_labels(text)
    assert (refusal.value.message, refusal.value.code) == (words, 400)


keys, values = st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "3"])
requirements = st.one_of(
    st.tuples(keys, st.sampled_from(["=", "==", "!="]), values),
    st.tuples(keys, st.sampled_from(["in", "notin"]), st.lists(values, min_size=1, max_size=3).map(tuple)),
    st.tuples(keys, st.sampled_from(["exists", "!"]), st.just("")),
)


def written(key, operator, value):
    if operator in ("in", "notin"):
        return f"{key} {operator} ({','.join(value)})"
    return {"exists": key, "!": f"!{key}"}.get(operator, f"{key}{operator}{value}")


def naive(key, operator, value, labels):
    return {
        "=": labels.get(key) == value,
        "==": labels.get(key) == value,
        "!=": labels.get(key) != value,
        "in": labels.get(key) in list(value),
        "notin": labels.get(key) not in list(value),
        "exists": key in labels,
        "!": key not in labels,
    }[operator]


@given(st.lists(requirements, max_size=4), st.dictionaries(keys, values))
def test_text_selectors_agree_with_a_naive_reading(wanted, labels):
    selector = parse_labels(",".join(written(*one) for one in wanted))
    assert selector.matches(labels) == all(naive(*one, labels) for one in wanted)


@given(st.lists(requirements, max_size=4), st.dictionaries(keys, values))
def test_a_selector_printed_and_read_again_selects_the_same(wanted, labels):
    selector = parse_labels(",".join(written(*one) for one in wanted))
    assert parse_labels(str(selector)).matches(labels) == selector.matches(labels)


def test_document_selectors_select():
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["3"]}]}
    assert from_document(selector).matches(POD)
    assert from_document({}).matches(POD)
    assert not from_document(None).matches(POD)
    assert from_map({"app": "web"}).matches(POD) and not from_map({"app": "db"}).matches(POD)
    with pytest.raises(BadSelector, match="not a valid label selector operator"):
        from_document({"matchExpressions": [{"key": "a", "operator": "Near"}]})


FIELDS = {
    "metadata.name=a": True,
    "metadata.name==a": True,
    "metadata.name!=a": False,
    "spec.n=5": True,
    "spec.on=true": True,
    "spec.none=": True,
    "spec.none!=x": True,
    "metadata.name=a,spec.n!=5": False,
    "": True,
    r"spec.odd=a\,b\=c": True,
}
DOCUMENT = {"metadata": {"name": "a"}, "spec": {"n": 5, "on": True, "odd": "a,b=c"}}


@pytest.mark.parametrize(("text", "want"), FIELDS.items())
def test_a_field_selector_selects(text, want):
    assert parse_fields(text).matches_document(DOCUMENT) is want
    assert selectors.fields(text)(DOCUMENT) is want


BAD_FIELDS = {
    "metadata.name in (a)": "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
    "metadata.name": "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    "metadata.name=a=b": "invalid field selector: unescaped character in value: 61",
    r"a=\x": r"invalid field selector: invalid escape sequence: \x",
}


@pytest.mark.parametrize(("text", "words"), BAD_FIELDS.items())
def test_a_field_selector_nobody_can_read_is_refused(text, words):
    with pytest.raises(BadSelector) as refusal:
        parse_fields(text)
    assert refusal.value.message == words


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    for read in (parse_labels, parse_fields):
        try:
            read(text)
        except BadSelector as refusal:
            assert refusal.message
