"""What rules may cost: the factors by which a real API server found these rules too expensive, place by place."""

import pytest

from allaboard.schema.faults import rule_faults
from allaboard.schema.nodes import Node


def text(**facts):
    return {"type": "string", **facts}


PROPS = {
    "s": text(),
    "sm": text(maxLength=50),
    "en": text(enum=["a", "bbb"]),
    "dt": text(format="date-time"),
    "du": text(format="duration"),
    "by": text(format="byte"),
    "bym": text(format="byte", maxLength=100),
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "items": text()},
    "lm": {"type": "array", "maxItems": 20, "items": text(maxLength=10)},
    "li": {"type": "array", "items": {"type": "integer"}},
    "lim": {"type": "array", "maxItems": 100, "items": {"type": "integer"}},
    "ll": {"type": "array", "maxItems": 30, "items": {"type": "array", "maxItems": 40, "items": text(maxLength=9)}},
    "llu": {"type": "array", "items": {"type": "array", "items": text()}},
    "lo": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": text(), "v": {"type": "integer"}, "t": text(maxLength=7)},
        },
    },
    "lom": {
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": text(maxLength=63),
                "v": {"type": "integer"},
                "tags": {"type": "array", "maxItems": 8, "items": text(maxLength=5)},
            },
        },
    },
    "m": {"type": "object", "additionalProperties": text()},
    "mm": {"type": "object", "maxProperties": 12, "additionalProperties": text(maxLength=33)},
    "mi": {"type": "object", "additionalProperties": {"type": "integer"}},
    "mo": {
        "type": "object",
        "maxProperties": 9,
        "additionalProperties": {"type": "object", "properties": {"x": text(maxLength=4), "y": {"type": "integer"}}},
    },
    "o": {
        "type": "object",
        "properties": {
            "x": text(),
            "y": {"type": "integer"},
            "p": {"type": "object", "properties": {"z": text(maxLength=20)}},
        },
    },
    "ios": {"x-kubernetes-int-or-string": True},
    "iosm": {"x-kubernetes-int-or-string": True, "maxLength": 5},
    "dash-ed": text(maxLength=3),
    "for": {"type": "array", "maxItems": 3, "items": text()},
}

# Where a rule stands: how often it runs depends on what is above it.
PLACES = {
    "spec": lambda node: node,
    "list": lambda node: {"type": "array", "items": node},
    "list5": lambda node: {"type": "array", "maxItems": 5, "items": node},
    "map7": lambda node: {"type": "object", "maxProperties": 7, "additionalProperties": node},
    "req": lambda node: {"type": "array", "items": {**node, "required": ["s", "l", "i", "dt", "m", "b", "ios"]}},
}
DEAR = {
    ("spec", 'self.s.split(",").all(x, x == "a")'): "1.321205x",
    ("spec", "self.l.map(x, x.size()).sum() > 3"): "1.6x",
    ("spec", "self.l.filter(x, x.size() > 2).size() == 0"): "1.7x",
    ("spec", "format.dns1123Label().validate(self.s).hasValue()"): "1.006634x",
    ("spec", "self.lm.all(x, x in self.l)"): "2.1x",
    ("list", "self.s == self.sm"): "2.5x",
    ("list", 'self.sm.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")'): "17.8x",
    ("list", "self.s.startsWith(self.sm)"): "2.5x",
    ("list", 'self.sm.replace("abc","b").matches("aaaaaaaaaaaaaaaaaaaaa")'): "17.6x",
    ("list", 'self.sm.replace(self.s,"b").matches("aaaaaaaaaaaaaaaaaaaaa")'): "30.4x",
    ("list", 'self.lm.all(x, x.matches("a{3}[bc]+"))'): "40.2x",
    ("list", 'self.lm.exists_one(x, x.contains("aaaaaaaaaaaaaaaa"))'): "23.5x",
    ("list", 'self.lm.map(x, x + "a").all(y, y.matches("abc"))'): "49.7x",
    ("list", "self.lim.isSorted()"): "10.7x",
    ("list", "self.lm.isSorted()"): "10.7x",
    ("list", 'self.lm.join("--").matches("abc")'): "17.8x",
    ("list", "self.lim.sum() == 3"): "10.8x",
    ("list", 'self.lm.indexOf("a") == 3'): "10.8x",
    ("list", 'self.lm.min() == "a"'): "10.8x",
    ("list", "self.ll[0][1] == self.s"): "1.048576x",
    ("list", 'self.mm.all(k, self.mm[k].matches("aaaaaa"))'): "44.4x",
    ("list", 'self.mo.all(k, self.mo[k].x.contains("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))'): "13.5x",
    ("list", "self.s in self.lm"): "2.5x",
    ("list", 'self.s in ["a","b","c"]'): "1.6x",
    ("list", "self.o.p.z == self.s"): "1.468006x",
    ("list", 'self.sm + "abc" == self.s'): "4.8x",
    ("list", "([1,2,3] + self.lim).sum() > 3"): "12.3x",
    ("list", '[self.s, self.sm].all(x, x.matches("a"))'): "2.6x",
    ("list", '{"a": 1, "b": 2}.all(k, k == "a")'): "4.1x",
    ("list", "self.?i.optMap(x, x + 1).orValue(3) > 2"): "2.2x",
    ("list", "isQuantity(self.sm)"): "2.3x",
    ("list", 'cidr("10.0.0.0/8").containsCIDR(self.sm)'): "3.1x",
    ("list", '!format.named("uri").value().validate(self.sm).hasValue()'): "67.7x",
    ("list", 'self.sm.findAll("abc").all(x, x == "a")'): "86.4x",
    ("list", 'sets.contains(self.lm, ["a"])'): "3.5x",
    ("list", "sets.equivalent(self.lm, self.lm)"): "84.4x",
    ("list", 'self.lm.slice(0,2).all(x, x == "a")'): "2.5x",
    ("list", 'self.l.slice(1,2).all(x, x == "a")'): "2.0x",
    ("list", 'self.ll.flatten().all(x, x == "a")'): "17.2x",
    ("list", "self.lm.distinct().size() == 3"): "85.5x",
    ("list", "self.lm.sort() == self.lm"): "89.9x",
    ("list", "lists.range(5).all(x, x > 2)"): "4.4x",
    ("list", 'self.lm.all(i, v, i > 2 && v == "a")'): "15.0x",
    ("list", 'self.mm.all(k, v, v == "a" && k == "b")'): "7.9x",
    ("list", 'self.lm.transformList(i, v, v + "a").size() > 3'): "39.3x",
    ("list", 'self.lm.transformList(i, v, i > 2, v + "a").all(x, x.matches("aaaaa"))'): "56.0x",
    ("list", 'self.mm.transformMap(k, v, v + "a").size() > 3'): "26.3x",
    ("list", 'self.mm.transformMap(k, v, k == "a", v + "a").size() > 3'): "27.6x",
    ("list", "self.mm.transformMapEntry(k, v, {v: k}).size() > 3"): "46.5x",
    ("list", "self.mm.existsOne(k, v, k == v)"): "5.5x",
    ("list", 'self.dash__dash__ed.matches("aaaaaaaaaaaaaaaa")'): "1.048576x",
    ("list", 'self.__for__.all(x, x == "a")'): "1.9x",
    ("list", '"%s %d".format([self.s, self.i]) == "a"'): "1.7x",
    ("list", "self.s < self.sm"): "2.5x",
    ("list", "isSemver(self.sm)"): "2.3x",
    ("list", 'semver("1.0.0").isLessThan(semver(self.sm))'): "2.5x",
    ("list", "self.lom.all(x, x.name in self.m)"): "54.0x",
    ("list", "self.mo.all(k, k in self.lm)"): "24.9x",
    ("list5", 'self.s.replace("","bbb").contains("aaaaaaaaaaaaaaaaaaaaaaa")'): "2.2x",
    ("list5", 'self.s.split(",").all(x, x == "a")'): "6.6x",
    ("list5", "self.l.all(x, x.size() > 0)"): "3.1x",
    ("list5", 'self.l.all(x, x == "a")'): "2.6x",
    ("list5", 'self.l.exists_one(x, x == "a")'): "2.1x",
    ("list5", "self.l.map(x, x.size()).sum() > 3"): "7.9x",
    ("list5", "self.l.filter(x, x.size() > 2).size() == 0"): "8.4x",
    ("list5", 'self.lo.all(x, x.name == "a" && x.v > 3)'): "1.088903x",
    ("list5", "self.m.all(k, self.m[k].size() > 3)"): "1.8x",
    ("list5", 'self.m.exists(k, k.matches("aaa"))'): "1.179647x",
    ("list5", "self.mi.all(k, self.mi[k] > 3)"): "1.8x",
    ("list5", '(self.lm + self.l).all(x, x == "a")'): "2.1x",
    ("list5", "format.dns1123Label().validate(self.s).hasValue()"): "5.0x",
    ("list5", 'self.b ? self.s == "a" : self.l.all(x, x == "b")'): "2.6x",
    ("list5", "dyn(self.l).all(x, x == 1)"): "2.1x",
    ("list5", 'self.lo.filter(x, x.v == 1)[0].name == "a"'): "1.8x",
    ("list5", 'self.lo.map(x, x.name)[0].matches("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")'): "3.0x",
    ("list5", 'self.lo.exists_one(x, x.t.matches("aaaaaaaaaaaaaaaaaaaaaa"))'): "2.7x",
    ("list5", "self.lm.all(x, x in self.l)"): "10.5x",
    ("map7", 'self.s.replace("","bbb").contains("aaaaaaaaaaaaaaaaaaaaaaa")'): "3.1x",
    ("map7", 'self.l.exists_one(x, x == "a")'): "2.9x",
    ("map7", "self.m.all(k, self.m[k].size() > 3)"): "2.5x",
    ("map7", "self.i in self.li"): "1.101007x",
    ("map7", 'self.b ? self.s == "a" : self.l.all(x, x == "b")'): "3.7x",
    ("map7", 'self.lo.exists_one(x, x.t.matches("aaaaaaaaaaaaaaaaaaaaaa"))'): "3.7x",
    ("req", 'self.lm.all(x, x.matches("a{3}[bc]+"))'): "1.6x",
    ("req", 'self.ll.all(x, x.all(y, y.matches("abcdefgh")))'): "61.9x",
    ("req", 'self.lom.map(x, x.name).all(t, t.matches("aaaaaaaaaaaaaaaaaaa"))'): "6.3x",
    ("req", "sets.equivalent(self.lm, self.lm)"): "3.4x",
    ("req", 'self.lm.transformList(i, v, v + "a").size() > 3'): "1.6x",
    ("req", "self.mm.transformMapEntry(k, v, {v: k}).size() > 3"): "1.9x",
}
# What fits where nothing above a rule repeats it.
CHEAP = (
    "self.s.matches('^[a-z]+$')",
    "self.l.all(x, x.size() > 0)",
    "self.lm.all(x, self.lm.exists(y, y == x))",
    "self.lom.all(x, self.lom.all(y, x.name == y.name || x.v == y.v))",
    "self.o == self.o && self.lm == self.lm",
    "self.lom.sortBy(x, x.v).size() > 0",
    "quantity(self.s) == quantity('1')",
    "has(self.s) && self.dt > timestamp('2020-01-01T00:00:00Z')",
)


def schema(place, *rules, **facts):
    node = {"type": "object", "properties": PROPS, "x-kubernetes-validations": [{"rule": r, **facts} for r in rules]}
    return Node({"type": "object", "properties": {"spec": PLACES[place](node)}})


def told(node):
    return [cause.message for cause in rule_faults(node, "s")]


@pytest.mark.parametrize(("place", "rule"), DEAR, ids=lambda word: word)
def test_a_rule_that_may_cost_too_much_is_refused_by_its_factor(place, rule):
    words = f"Forbidden: estimated rule cost exceeds budget by factor of {DEAR[place, rule]} (try simplifying the rule"
    assert told(schema(place, rule))[0].startswith(words)


@pytest.mark.parametrize("rule", CHEAP)
def test_a_rule_that_is_bounded_is_accepted(rule):
    assert told(schema("spec", rule)) == []


def test_beyond_measure_is_not_counted():
    assert "more than 100x" in told(schema("spec", "self.l.all(x, self.l.exists(y, y == x))"))[0]


def test_many_rules_together_may_cost_too_much():
    found = rule_faults(schema("spec", *["self.l.all(x, x == 'a')"] * 20), "s")
    where = [f"s.properties[spec].x-kubernetes-validations[{index}].rule" for index in range(4)]
    assert [cause.field for cause in found] == [*where, "s"]
    assert all("contributed to estimated rule cost total" in cause.message for cause in found[:4])
    total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of"
    assert found[4].message.startswith(f"Forbidden: {total} 1.048576x")


def test_a_message_has_a_budget_too():
    told_words = told(schema("spec", "self.i > 3", messageExpression="self.l.map(x, self.l.join(x)).join(',')"))
    assert told_words[0].startswith("Forbidden: estimated messageExpression cost exceeds budget")


UNSAID = {
    "a blank rule": ({"rule": " "}, "Required value: rule is not specified"),
    "a blank message": ({"message": " "}, 'Invalid value: " ": must be non-empty if specified'),
    "a message of two lines": ({"message": "a\nb"}, 'Invalid value: "a\\nb": must not contain line breaks'),
    "a rule of two lines": ({"rule": "self.i\n > 1"}, "Required value: message must be specified if rule contains"),
    "a blank expression": ({"messageExpression": " "}, "Required value: messageExpression must be non-empty if"),
    "another reason": ({"reason": "No"}, 'Unsupported value: "No": supported values: "FieldValueDuplicate", '),
    "a path to nowhere": ({"fieldPath": ".nope"}, 'Invalid value: ".nope": must be a valid path'),
    "a path into a list": ({"fieldPath": ".l[0]"}, 'Invalid value: ".l[0]": must be a valid path'),
    "a past nobody asks for": ({"optionalOldSelf": True}, "Invalid value: true: may not be set if oldSelf is not used"),
}


@pytest.mark.parametrize(("facts", "words"), UNSAID.values(), ids=UNSAID)
def test_a_rule_must_say_what_it_means(facts, words):
    node = schema("spec", facts.get("rule", "self.i > 1"), **{k: v for k, v in facts.items() if k != "rule"})
    assert told(node)[0].startswith(words)


@pytest.mark.parametrize("path", [".i", ".o.p.z", ".m['a']", ".m.a", "['dash-ed']", ".dash-ed", ".o['p'].z"])
def test_a_path_may_lead_into_objects_and_maps(path):
    assert told(schema("spec", "self.i > 3", fieldPath=path)) == []


UNSOUND = {
    "[1, 'a'].size() == 2": "expected type 'int' but found 'string'",
    "{'a': 1, 'b': 'c'}.size() == 2": "expected type 'int' but found 'string'",
    "self.i == null": "found no matching overload for '_==_' applied to '(int, null)'",
    "self.i in ['a']": "found no matching overload for '@in' applied to '(int, list(string))'",
    "(self.b ? 1 : 'a') == 1": "found no matching overload for '_?_:_' applied to '(bool, int, string)'",
    "self.i && self.b": "expected type 'bool' but found 'int'",
    "self.i.all(x, x > 1)": "expression of type 'int' cannot be range of a comprehension",
    "self.l.all(1, true)": "argument must be a simple name",
    "self.l.map(1, true)": "argument is not an identifier",
    "self.l.all(x, x)": "expected type 'bool' but found 'string'",
    "self.l.filter(x, 1).size() == 1": "found no matching overload for '_?_:_' applied to '(int, list(string), list(",
    "has(self)": "invalid argument to has() macro",
    "self.l['a'] == 'b'": "found no matching overload for '_[_]' applied to '(list(string), string)'",
    "self.m[1] == 'b'": "found no matching overload for '_[_]' applied to '(map(string, string), int)'",
    "self.s.matches('a(')": "invalid matches argument",
    "duration('1x') > duration('1s')": "invalid duration argument",
    "timestamp('x') == timestamp('y')": "invalid timestamp argument",
    "9223372036854775808 > 1": "invalid int literal",
    "math.greatest(self.i, 2) > 3": "undeclared reference to 'greatest'",
    "cel.bind(x, self.i, x > 1)": "undeclared reference to 'cel'",
    "self.o == self.o.p": "found no matching overload for '_==_'",
    "self.i = 1": "token recognition error at: '= '",
    "'abc": "token recognition error at: ''abc'",
}


@pytest.mark.parametrize("rule", UNSOUND)
def test_a_rule_must_make_sense(rule):
    (message,) = told(schema("spec", rule))
    assert UNSOUND[rule] in message


UNSEEN = {"x-kubernetes-preserve-unknown-fields": True}


def test_what_has_no_type_is_not_seen_by_rules():
    rules = [{"rule": "self.u == 1"}]
    node = Node({"type": "object", "properties": {"u": UNSEEN}, "x-kubernetes-validations": rules})
    assert "undefined field 'u'" in told(node)[0]
    inner = Node({"type": "object", "properties": {"u": {**UNSEEN, "x-kubernetes-validations": rules}}})
    assert told(inner)[0].endswith("unable to convert structural schema to CEL declarations")


def test_the_root_of_an_object_shows_what_it_is():
    rule = "self.kind == self.apiVersion && self.metadata.name.matches('a')"
    assert told(Node({"type": "object", "x-kubernetes-validations": [{"rule": rule}]})) == []
