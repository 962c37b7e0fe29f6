"""CEL: what expressions answer, what a compiler says against them, and a second opinion from another implementation."""

import celpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.schema.cel.compiler import CelCompileError, compile_rule
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.types import DYN, type_of
from allaboard.schema.cel.values import CelError, text_of
from allaboard.schema.nodes import Node


def answer(text, **variables):
    return compile_rule(text, dict.fromkeys(variables, DYN)).run(Scope(variables))


ANSWERS = {
    "1 + 2 * 3": 7,
    "10 / 3": 3,
    "-7 / 2": -3,
    "-7 % 3": -1,
    "2.0 / 0.0": float("inf"),
    "1u + 2u": 3,
    "7.5 - 2.5": 5.0,
    "'a' + \"b\"": "ab",
    "[1, 2] + [3]": [1, 2, 3],
    "true ? 'a' : 'b'": "a",
    "1 in [1, 2] && !(3 in [1, 2])": True,
    "'k' in {'k': 1}": True,
    "dyn(1) == 1.0": True,
    "dyn(true) == 1": False,
    "null == null": True,
    "type(1) == int": True,
    # macros
    "[1, 2, 3].all(x, x > 0)": True,
    "[1, 2, 3].exists(x, x / 0 > 1 || x == 2)": True,
    "[1, 2].exists_one(x, x > 1)": True,
    "[1, 2].map(x, x * 2)": [2, 4],
    "[1, 2, 3].map(x, x > 1, x * 2)": [4, 6],
    "[1, 2, 3].filter(x, x > 1)": [2, 3],
    "{'a': 1, 'b': 2}.exists(k, k == 'b')": True,
    "{'a': 1}.transformMap(k, v, v + 1)": {"a": 2},
    "[1, 2].transformList(i, v, i + v)": [1, 3],
    "[1, 2].all(i, v, v == i + 1)": True,
    "{'a': 'b'}.transformMapEntry(k, v, {v: k})": {"b": "a"},
    "has({'a': {'b': 1}}.a.b)": True,
    "has({'a': 1}.b)": False,
    "[3, 1, 2].sortBy(x, -x)": [3, 2, 1],
    "[1, 2].first().value() + [1, 2].last().value()": 3,
    "[optional.of(1), optional.none()].unwrapOpt()": [1],
    "[[1, 2], [3]].map(l, l.map(x, x + l.size()))": [[3, 4], [4]],
    # texts
    "'hello'.matches('^h.*o$')": True,
    "'a,b,c'.split(',')": ["a", "b", "c"],
    "['a', 'b'].join('-')": "a-b",
    "'%d items: %s'.format([3, ['x', 1]])": '3 items: ["x", 1]',
    "size('héllo')": 5,
    "'abc'.substring(1, 2)": "b",
    "'AbC'.lowerAscii()": "abc",
    "'abc'.indexOf('c')": 2,
    "'tacocat'.lastIndexOf('a')": 5,
    "'ab'.charAt(1)": "b",
    "' a '.trim()": "a",
    "'aXbX'.replace('X', '', 1)": "abX",
    "[1, 2].reverse()": [2, 1],
    "strings.quote('a\"b')": '"a\\"b"',
    "'abc 123 def 456'.findAll('[0-9]+')": ["123", "456"],
    "'abc 123'.find('[0-9]+')": "123",
    "r'\\d'": "\\d",
    "'\\u00e9'": "é",
    "'''a\nb'''": "a\nb",
    "string(1.0)": "1",
    "string(true)": "true",
    "int('42')": 42,
    "double('2.5')": 2.5,
    "b'ab' == bytes('ab')": True,
    # lists and sets
    "[1, 3, 2].isSorted()": False,
    "[1, 2, 3].sum()": 6,
    "[3, 1].min()": 1,
    "['b', 'a'].max()": "b",
    "[1, 1, 2].distinct()": [1, 2],
    "[1, 2, 1].lastIndexOf(1)": 2,
    "[dyn([1]), dyn([2, 3]), dyn(4)].flatten()": [1, 2, 3, 4],
    "[3, 1].sort()": [1, 3],
    "[1, 2, 3].slice(1, 3)": [2, 3],
    "sets.contains([1, 2], [1])": True,
    "sets.equivalent([1, 2], [2, 1, 1])": True,
    "sets.intersects([1], [2])": False,
    # optional values
    "optional.of(1).orValue(2)": 1,
    "{'a': 1}.?b.orValue(5)": 5,
    "{'a': {'b': 1}}.?a.?b.orValue(5)": 1,
    "[1, 2][?5].hasValue()": False,
    "optional.of(2).optMap(x, x + 1).value()": 3,
    "[1, ?optional.none()]": [1],
    "{?'a': optional.of(1)}": {"a": 1},
    "optional.none().or(optional.of(2)).value()": 2,
    # times
    "timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z')": True,
    "timestamp('2024-03-05T06:07:08Z').getFullYear()": 2024,
    "timestamp('2024-03-05T06:07:08Z').getHours('+02:00')": 8,
    "duration('90s') > duration('1m')": True,
    "duration('1h30m').getMinutes()": 90,
    # what Kubernetes adds
    "quantity('1.5Gi').isGreaterThan(quantity('1Gi'))": True,
    "quantity('50k').add(20).compareTo(quantity('50020'))": 0,
    "isQuantity('x')": False,
    "quantity('200M').asInteger()": 200_000_000,
    "quantity('1500m').isInteger()": False,
    "url('https://a.com:80/x?y=1').getHost()": "a.com:80",
    "url('https://a.com/x?y=1').getQuery()": {"y": ["1"]},
    "isURL('no url')": False,
    "ip('10.0.0.1').family()": 4,
    "ip('::1').isLoopback()": True,
    "isIP('1.2.3')": False,
    "ip.isCanonical('::1')": True,
    "cidr('10.0.0.0/8').containsIP('10.1.1.1')": True,
    "cidr('10.1.2.3/8').masked().ip() == ip('10.0.0.0')": True,
    "cidr('10.0.0.0/8').containsCIDR('10.2.0.0/16')": True,
    "cidr('10.0.0.0/8').prefixLength()": 8,
    "semver('1.2.3').isLessThan(semver('1.10.0'))": True,
    "semver('1.0.0-alpha').compareTo(semver('1.0.0'))": -1,
    "semver('v1.2', true).minor()": 2,
    "isSemver('1')": False,
    "format.dns1123Label().validate('A').hasValue()": True,
    "!format.named('uuid').value().validate('11111111-2222-3333-4444-555555555555').hasValue()": True,
}


@pytest.mark.parametrize(("text", "want"), ANSWERS.items(), ids=list(ANSWERS))
def test_an_expression_answers(text, want):
    found = answer(text)
    assert found == want and isinstance(found, bool) == isinstance(want, bool)


ERRORS = {
    "9223372036854775807 + 1": "integer overflow",
    "1 / 0": "division by zero",
    "1 % 0": "modulus by zero",
    "[1, 2][5]": "index out of bounds: 5",
    "{'a': 1}['b']": "no such key: b",
    "{'a': 1}.b": "no such key: b",
    "[].min()": "min called on empty list",
    "1u - 2u": "unsigned integer overflow",
    "dyn('a') + 1": "no such overload",
    "quantity('x')": "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "optional.none().value()": "optional.none() dereference",
    "int(dyn('x'))": "type conversion error from 'string' to 'int'",
    "double(dyn('x')) < 1.0": "type conversion error from 'string' to 'double'",
    "uint(dyn('x')) == 1u": "type conversion error from 'string' to 'uint'",
    "bool(dyn('x'))": "type conversion error from 'string' to 'bool'",
    "[1, 2].all(x, x / 0 > 0)": "division by zero",
    "lists.range(2000000).all(x, x >= 0)": "operation cancelled: actual cost limit exceeded",
}


@pytest.mark.parametrize(("text", "words"), ERRORS.items(), ids=list(ERRORS))
def test_an_expression_that_cannot_be_evaluated_says_why(text, words):
    with pytest.raises(CelError) as problem:
        answer(text)
    assert str(problem.value) == words


OBJECT = Node(
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "s": {"type": "string"},
            "namespace": {"type": "string"},
            "l": {"type": "array", "items": {"type": "number"}},
            "when": {"type": "string", "format": "date-time"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "free": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
)

FAULTS = {
    "self.b > 1": "ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^",
    "self.a +": "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting "
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.a +\n | ........^",
    "self.a == 'x'": "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n"
    " | self.a == 'x'\n | .......^",
    "self.s.frob()": "ERROR: <input>:1:12: undeclared reference to 'frob' (in container '')\n"
    " | self.s.frob()\n | ...........^",
    "other > 1": "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other > 1\n | ^",
    "self.s > 1": "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n"
    " | self.s > 1\n | .......^",
    "self.s.startsWith(1)": "ERROR: <input>:1:18: found no matching overload for 'startsWith' "
    "applied to 'string.(int)'\n"
    " | self.s.startsWith(1)\n | .................^",
}


@pytest.mark.parametrize(("text", "words"), FAULTS.items(), ids=list(FAULTS))
def test_an_expression_that_does_not_compile_is_shown_with_the_place(text, words):
    with pytest.raises(CelCompileError) as problem:
        compile_rule(text, {"self": type_of(OBJECT)})
    assert str(problem.value) == words


TYPED = {
    "self.l[0] / 2.0 == 0.5": True,
    "self.when < timestamp('2025-01-01T00:00:00Z')": True,
    "self.__namespace__ == 'n'": True,
    "self.set == ['b', 'a']": True,
    "self.free.all(k, self.free[k] > 0)": True,
    "self.a == 5 && has(self.s)": True,
    "self.l.all(x, x > 0.5)": True,
    "self == self": True,
}
VALUE = {
    "a": 5,
    "s": "x",
    "namespace": "n",
    "l": [1, 2],
    "when": "2024-01-01T00:00:00Z",
    "set": ["a", "b"],
    "free": {"k": 1},
}


@pytest.mark.parametrize("text", TYPED)
def test_values_have_the_types_of_their_schema(text):
    program = compile_rule(text, {"self": type_of(OBJECT)})
    assert (program.run(Scope({"self": VALUE})), program.type.name) == (True, "bool")


def test_nesting_without_end_does_not_compile():
    for text in ("(" * 5000 + "1" + ")" * 5000, "!" * 5000 + "true", "[" * 5000 + "]" * 5000):
        with pytest.raises(CelCompileError):
            compile_rule(text, {})


# --- a second opinion -----------------------------------------------------------------------------------------------

SHARED = [
    text
    for text in ANSWERS
    if not any(
        word in text
        for word in (
            "optional",
            "?",
            "quantity",
            "Quantity",
            "semver",
            "Semver",
            "format",
            "cidr",
            "ip(",
            "IP",
            "ip.",
            "url",
            "URL",
            "sets.",
            "transform",
            "sortBy",
            "first()",
            "strings.",
            "distinct",
            "flatten",
            "isSorted",
            "sum()",
            "min()",
            "max()",
            "IndexOf",
            "indexOf",
            "sort()",
            "slice",
            "find",
            "split",
            "join",
            "substring",
            "Ascii",
            "charAt",
            "trim",
            "replace",
            "reverse",
            "i, v",
            "1u",
            "dyn(",
            "string(1.0)",
            "type(1)",
            "0.0",
            "exists_one",
            "getHours",
            "getMinutes",
            "x / 0",
            "x > 1, x * 2",
            "string(true)",
            "a\nb",
        )
    )
]


@pytest.mark.parametrize("text", SHARED)
def test_another_implementation_agrees(text):
    environment = celpy.Environment()
    program = environment.program(environment.compile(text))
    assert str(program.evaluate({})) == str(answer(text)) or program.evaluate({}) == answer(text)


numbers = st.integers(-20, 20)
expressions = st.recursive(
    numbers.map(lambda n: f"({n})"),
    lambda inside: st.builds("({} {} {})".format, inside, st.sampled_from(["+", "-", "*", "/", "%"]), inside),
    max_leaves=6,
)


@given(expressions, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), expressions)
def test_arithmetic_agrees_with_another_implementation(left, operator, right):
    text = f"{left} {operator} {right}"
    environment = celpy.Environment()
    try:
        want = bool(environment.program(environment.compile(text)).evaluate({}))
    except celpy.CELEvalError:
        want = None
    try:
        found = answer(text)
    except CelError:
        found = None
    assert found == want


@given(st.text(max_size=40))
def test_any_text_compiles_or_says_why(text):
    try:
        compile_rule(text, {"self": DYN})
    except CelCompileError as problem:
        assert str(problem).startswith("ERROR: <input>:")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.text(), i),
        max_leaves=6,
    )
)
def test_every_value_has_a_text(value):
    assert isinstance(text_of(value), str)
