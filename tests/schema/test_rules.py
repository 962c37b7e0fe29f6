"""Rules of a schema: when they are asked, what they say, and what is said about the rules themselves."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import crds
from allaboard.schema import structure
from allaboard.schema.cel.syntax import parse
from allaboard.schema.faults import rule_faults
from allaboard.schema.nodes import Node
from allaboard.schema.rules import only_place

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "kube" / "scenarios"
INT, STR = {"type": "integer"}, {"type": "string"}


def schema(*rules, **properties):
    spec = {"type": "object", "properties": {"lo": INT, "hi": INT, "mode": STR, **properties}}
    return {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-validations": list(rules)}}}


def said(given, spec, old=None):
    before = {"spec": old} if old is not None else None
    causes = structure.compile(given).validate({"spec": spec}, before)
    return [f"{cause.reason[10:]} {cause.field}: {cause.message}" for cause in causes]


ORDER = {"rule": "!has(self.lo) || !has(self.hi) || self.lo <= self.hi"}
WORDS = {
    "its own words": ({**ORDER, "message": "lo above hi"}, ["Invalid spec: Invalid value: lo above hi"]),
    "the rule itself": (ORDER, [f"Invalid spec: Invalid value: failed rule: {ORDER['rule']}"]),
    "words of an expression": (
        {**ORDER, "messageExpression": "self.mode + ' is off'"},
        ["Invalid spec: Invalid value: m is off"],
    ),
    "its own words where the expression fails": (
        {**ORDER, "message": "off", "messageExpression": "string(1 / (self.lo - 2))"},
        ["Invalid spec: Invalid value: off"],
    ),
    "a reason": ({**ORDER, "message": "no", "reason": "FieldValueForbidden"}, ["Forbidden spec: Forbidden: no"]),
    "a place": ({**ORDER, "message": "no", "fieldPath": ".lo"}, ["Invalid spec.lo: Invalid value: no"]),
    "an error": (
        {"rule": "self.other.size() > 0", "message": "m"},
        [],
    ),
}


@pytest.mark.parametrize(("rule", "want"), WORDS.values(), ids=WORDS)
def test_a_broken_rule_speaks(rule, want):
    assert said(schema(rule), {"lo": 2, "hi": 1, "mode": "m"}) == want


def test_a_rule_that_cannot_be_evaluated_names_the_type():
    given = schema({"rule": "self.l[0] > 0", "message": "first"}, l={"type": "array", "items": INT})
    assert said(given, {"l": []}) == [
        'Invalid spec: Invalid value: "object": index out of bounds: 0 evaluating rule: first'
    ]


def test_a_scalar_that_breaks_a_rule_is_shown():
    given = schema(mode={**STR, "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "no x"}]})
    assert said(given, {"mode": "x"}) == ['Invalid spec.mode: Invalid value: "x": no x']


FIXED = {"rule": "self == oldSelf", "message": "fixed"}
HOSTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["host"],
    "items": {"type": "object", "properties": {"host": STR, "n": {**INT, "x-kubernetes-validations": [FIXED]}}},
}
PLAIN = {
    "type": "array",
    "items": {"type": "object", "properties": {"n": {**INT, "x-kubernetes-validations": [FIXED]}}},
}
FREE = {"type": "object", "additionalProperties": {**STR, "x-kubernetes-validations": [FIXED]}}

TRANSITIONS = {
    "nothing before": (schema(FIXED), {"lo": 1}, None, []),
    "a change": (schema(FIXED), {"lo": 1}, {"lo": 2}, ["Invalid spec: Invalid value: fixed"]),
    "no change": (schema(FIXED), {"lo": 1}, {"lo": 1}, []),
    "an item by its key": (
        schema(h=HOSTS),
        {"h": [{"host": "b", "n": 2}, {"host": "a", "n": 5}]},
        {"h": [{"host": "a", "n": 1}, {"host": "b", "n": 2}]},
        ["Invalid spec.h[1].n: Invalid value: 5: fixed"],
    ),
    "an item without a key": (schema(h=PLAIN), {"h": [{"n": 5}]}, {"h": [{"n": 1}]}, []),
    "a key of a map": (
        schema(m=FREE),
        {"m": {"k": "2"}},
        {"m": {"k": "1"}},
        ['Invalid spec.m[k]: Invalid value: "2": fixed'],
    ),
    "a set in another order": (
        schema(s={"type": "array", "x-kubernetes-list-type": "set", "items": STR, "x-kubernetes-validations": [FIXED]}),
        {"s": ["b", "a"]},
        {"s": ["a", "b"]},
        [],
    ),
    "an optional old self": (
        schema({"rule": "oldSelf.hasValue() || self.lo == 1", "message": "start at 1", "optionalOldSelf": True}),
        {"lo": 2},
        None,
        ["Invalid spec: Invalid value: start at 1"],
    ),
    "an optional old self that is there": (
        schema({"rule": "oldSelf.optMap(o, o.lo < self.lo).orValue(true)", "message": "grow", "optionalOldSelf": True}),
        {"lo": 1},
        {"lo": 2},
        ["Invalid spec: Invalid value: grow"],
    ),
    "what was wrong before": (schema({**ORDER, "message": "m"}), {"lo": 2, "hi": 1}, {"lo": 2, "hi": 1}, []),
}


@pytest.mark.parametrize(("given", "spec", "old", "want"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_rules_about_a_change(given, spec, old, want):
    assert said(given, spec, old) == want


def test_rules_are_not_asked_about_a_broken_structure():
    found = said(schema(FIXED), {"lo": "x"}, {"lo": 1})
    assert len(found) == 2 and "some validation rules were not checked" in found[1]


def test_the_root_sees_its_name_and_nothing_else_of_metadata():
    named = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "size(self.metadata.name) <= 3", "message": "long"}],
    }
    causes = structure.compile(named).validate({"metadata": {"name": "abcd"}})
    assert [(c.field, c.message) for c in causes] == [("<nil>", "Invalid value: long")]
    unseen = {"type": "object", "x-kubernetes-validations": [{"rule": "has(self.metadata.labels)"}]}
    assert "undefined field 'labels'" in rule_faults(Node(unseen), "s")[0].message


COSTLY = {"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))", "message": "m"}


PLACES = {
    "self": (),
    "self in ['a', 'b']": (),
    "self.metadata.name.matches('a')": ("metadata", "name"),
    "size(self.a) < 9 && self.a != ''": ("a",),
    "has(self.a) && self.a == 'x'": ("a",),
    "self.a == self.b": None,
    "self.a == self.a.b": None,
    "self.all(x, x.a == 'b')": (),
    "self.a__dash__b == ''": None,
    "1 == 1": None,
}


@pytest.mark.parametrize(("rule", "place"), PLACES.items(), ids=PLACES)
def test_the_only_place_that_a_rule_reads(rule, place):
    assert only_place(parse(rule)) == place


MODES = {
    "long": "size(self.mode) < 3",
    "odd": "self.mode in ['a', 'b']",
    "there": "!has(self.mode) || self.mode != 'a'",
    "slow": "self.mode == '' || self.mode.matches('^[a-z]+$') || self.mode.size() == 4",
    "stays": "self == oldSelf",
    "either": "optional.of(self.mode).orValue('') != 'b'",
}
modes = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["mode", "word"], st.sampled_from(["", "a", "b", "abc", "A1"]))
)


@given(st.lists(st.tuples(modes, st.none() | modes), max_size=6))
def test_what_a_rule_said_of_a_text_it_says_again(cases):
    rules = [{"rule": rule, "message": words} for words, rule in MODES.items()]
    word = {**STR, "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}, {"rule": MODES["stays"]}]}
    seasoned = structure.compile(schema(*rules, word=word))
    for spec, old in cases:
        before = None if old is None else {"spec": old}
        fresh = structure.compile(schema(*rules, word=word))
        assert seasoned.validate({"spec": spec}, before) == fresh.validate({"spec": spec}, before)


def test_a_rule_that_costs_too_much_is_stopped():
    given = schema(COSTLY, l={"type": "array", "items": INT})
    found = said(given, {"l": list(range(200))})
    assert len(found) == 1 and "call cost exceeds limit for rule: m" in found[0]


FAULTY = {
    "does not compile": ({"rule": "self.b > 1"}, "rule", "compilation failed: ERROR: <input>:1:5: undefined field 'b'"),
    "is no question": ({"rule": "self.lo"}, "rule", "cel expression must evaluate to a bool"),
    "a message that is no text": (
        {"rule": "true", "messageExpression": "1"},
        "messageExpression",
        "messageExpression must evaluate to a string",
    ),
    "is empty": ({"rule": " "}, "rule", "rule is not specified"),
}


@pytest.mark.parametrize(("rule", "field", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_rule_is_refused_with_its_schema(rule, field, words):
    (cause,) = rule_faults(Node(schema(rule)), "s")
    assert cause.field == f"s.properties[spec].x-kubernetes-validations[0].{field}"
    assert words in cause.message


def test_a_rule_about_changes_needs_items_that_can_be_told_apart():
    assert rule_faults(Node(schema(h=HOSTS)), "s") == []
    (cause,) = rule_faults(Node(schema(h=PLAIN)), "s")
    assert "oldSelf cannot be used on the uncorrelatable portion" in cause.message


def test_the_rules_we_ship_compile():
    for definition in crds.documents():
        for version in definition["spec"]["versions"]:
            assert rule_faults(Node(version["schema"]["openAPIV3Schema"]), definition["metadata"]["name"]) == []


def recorded():
    """Every recorded create of a custom resource: scenario, step, structure, body, recorded answer."""
    known = {}
    for definition in crds.documents():
        _learn(known, definition)
    for path in sorted(RECORDED.glob("*.json")) if RECORDED.exists() else ():
        scenario = json.loads(path.read_text())
        for step in scenario["steps"]:
            request, answer = step.get("request") or {}, step.get("expect") or {}
            body = request.get("body")
            if request.get("method") != "POST" or not isinstance(body, dict):
                continue
            if body.get("kind") == "CustomResourceDefinition" and answer["status"] == 201:
                _learn(known, body)
            found = known.get((body.get("apiVersion"), body.get("kind")))
            if found and answer["status"] in (201, 422) and "kind" in (answer.get("body") or {}):
                yield pytest.param(found, body, answer["body"], id=f"{scenario['scenario']}/{step['id']}")


def _learn(known, definition):
    spec = definition["spec"]
    for version in spec["versions"]:
        compiled = structure.compile(version["schema"]["openAPIV3Schema"])
        known[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = compiled


# Where ours is wider than upstream's, on purpose: other MPI families, and words for the number of processes.
WIDER = {"mpiImplementation", "numProcPerNode in body must be of type integer"}


@pytest.mark.parametrize(
    ("compiled", "body", "answer"), list(recorded()) or [pytest.param(0, 0, 0, marks=pytest.mark.skip)]
)
def test_recorded_custom_resources(compiled, body, answer):
    metadata = body.get("metadata") or {}
    if "generateName" in metadata:
        body = {**body, "metadata": {**metadata, "name": metadata["generateName"] + "abcde"}}
    admitted = compiled.admit(body)
    found = {(c.reason, c.field, c.message) for c in compiled.validate(admitted.document)}
    if answer["kind"] != "Status":
        want = {name: part for name, part in answer.items() if name not in ("metadata", "status")}
        got = {name: part for name, part in admitted.document.items() if name not in ("metadata", "status")}
        assert (not found and "${uid" in json.dumps(want)) or got == want
        return
    causes = (answer.get("details") or {}).get("causes", [])
    if any(word in cause["message"] or word in cause["field"] for cause in causes for word in WIDER):
        return
    want = {(c["reason"], c["field"], c["message"]) for c in causes if not c["field"].startswith("metadata.")}
    assert found == want
