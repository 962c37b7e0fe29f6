"""What a running rule costs, in upstream's units: measured with cel-go and the libraries of Kubernetes 1.36."""

import pytest

from allaboard.schema import structure
from allaboard.schema.cel.compiler import compile_rule
from allaboard.schema.cel.scope import CALL_LIMIT, Scope
from allaboard.schema.cel.types import DYN

SELF = {
    "a": 1, "b": True, "s": "hello world of costs", "big": "x" * 95, "l": [1, 2, 3, 4, 5], "e": [],
    "ls": ["aaa", "b" * 24, "c"], "m": {"x": 1, "y": 2}, "o": {"p": {"q": "deep"}},
}  # fmt: skip
COSTS = {
    "self.a == 1": 3,
    "self.o.p.q == 'deep'": 5,
    "self.l[0] == 1": 4,
    "self.l[self.a] == 2": 5,
    "has(self.o.p)": 2,
    "self.b || self.a == 2": 2,
    "!self.b || self.a == 1": 6,
    "self.b ? self.a : 5": 3,
    "self.a in [1, 2, 3]": 2,
    "self.big == self.big": 14,
    "self.m == self.m": 5,
    "self.e.all(x, x > 0)": 3,
    "self.l.all(x, x > 0)": 28,
    "self.l.all(x, x > 2)": 10,
    "self.l.exists(x, x == 3)": 24,
    "self.l.exists_one(x, x == 3)": 16,
    "self.l.map(x, x + 1).size() == 5": 75,
    "self.l.filter(x, x > 2).size() == 3": 54,
    "self.l.map(x, x > 2, x * 2).size() == 3": 57,
    "self.m.all(k, self.m[k] > 0)": 17,
    "self.l.all(i, x, i < x)": 33,
    "self.l.all(x, self.l.exists(y, x == y))": 150,
    "self.s.startsWith('hello')": 4,
    "self.s.contains('world')": 4,
    "self.s.matches('^[a-z ]+$')": 11,
    "self.s.split(' ').size() == 4": 8,
    "self.ls.join(',') == 'x'": 9,
    "self.l.sum() == 15": 8,
    "self.ls.max() == 'c'": 5,
    "{'a': self.a}.size() == 1": 34,
    "{'a': 1}.size() == 1": 2,
    "int('5') == 5": 1,
    "string(self.a) == '1'": 4,
    "sets.contains(self.l, [1, 2])": 13,
    "self.l.distinct().size() == 5": 65,
    "self.l.slice(0, 2).size() == 2": 17,
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))": 3,
    "cidr('10.0.0.0/8').containsIP('10.1.2.3')": 3,
    "self.?a.orValue(2) == 1": 3,
    "self.?o.?p.?q.optMap(v, v + 'x').orValue('') == 'deepx'": 14,
}


@pytest.mark.parametrize(("rule", "cost"), COSTS.items(), ids=COSTS)
def test_a_rule_costs_what_it_costs_on_a_cluster(rule, cost):
    program, scope = compile_rule(rule, {"self": DYN}), Scope({"self": SELF})
    scope.cost = program.cost
    program.run(scope)
    assert scope.cost == cost


NAMES = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
LIMITS = {
    #                          rule                                                  list     refused from
    "each among all": ("self.l.all(x, self.l.exists(y, x == y))", NUMBERS, 533),
    "texts in order": ("self.l.all(x, self.l.all(y, x <= y || x > y))", NAMES, 309),
    "each but once": ("self.l.all(x, self.l.exists_one(y, x == y) || true)", NAMES, 447),
    "what is greater": ("self.l.map(x, self.l.filter(y, y > x).size()).size() >= 0", NUMBERS, 324),
}


@pytest.mark.parametrize(("rule", "items", "first"), LIMITS.values(), ids=LIMITS)
def test_a_document_is_refused_from_the_size_from_which_a_cluster_refuses_it(rule, items, first):
    spec = {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": [{"rule": rule}]}
    kind = structure.compile({"type": "object", "properties": {"spec": spec}})

    def refusals(count):
        values = [f"name{each:06d}-{'x' * 15}" for each in range(count)] if items is NAMES else list(range(count))
        return [cause.message for cause in kind.validate({"spec": {"l": values}}, None)]

    assert refusals(first - 1) == []
    assert "call cost exceeds limit" in refusals(first)[0]


def test_the_limit_of_one_rule_is_a_million():
    assert CALL_LIMIT == 1_000_000
