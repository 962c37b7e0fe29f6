"""What an expression can cost at most, told from the expression and the sizes its schema allows.

The units are upstream's (cel-go's checker, and the functions Kubernetes adds), so that a definition a real API server
refuses as too expensive is refused here, by the same factor. Only the worst case matters: costs are upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from allaboard.schema.cel.prices import LIST_COST, MAP_COST, ONE, STRING, Cost, Price, factor, price_of, size_of
from allaboard.schema.cel.sizes import UNKNOWN, Size, at, capped
from allaboard.schema.cel.syntax import Expr
from allaboard.schema.cel.types import DYN, Type
from allaboard.schema.nodes import Node

_SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})


class Estimator:
    """Walks a checked expression; `types` are those the compiler found."""

    def __init__(self, node: Node, types: Mapping[int, Type], *, root: bool) -> None:
        self.node, self.types, self.root = node, types, root
        self.local: dict[str, Cost] = {}

    def of(self, expr: Expr) -> Cost:
        step = _STEPS.get(expr.op)
        return step(self, expr) if step else self.operator(expr)

    def kind(self, expr: Expr) -> Type:
        return self.types.get(id(expr), DYN)

    def sized(self, found: Cost, *, local: Size | None = None) -> Cost:
        """The value with its size: what the expression tells, else the schema, else the type."""
        if found.size is not None:
            return found
        size = at(self.node, found.path[1:], root=self.root) if found.path else None
        if size is None:
            size = ONE if _is_scalar(found.type) else local
        return replace(found, size=size)

    def constant(self, expr: Expr) -> Cost:
        value = expr.value
        size = Size(len(value), len(value)) if isinstance(value, str | bytes) else ONE
        return Cost(0, self.kind(expr), size, literal=value)

    def name(self, expr: Expr) -> Cost:
        kind, known = self.kind(expr), self.local.get(expr.value)
        if known is None:
            return self.sized(Cost(1, kind, path=(expr.value,)))
        return self.sized(Cost(1, kind, None, known.entry, known.path), local=known.size)

    def select(self, expr: Expr) -> Cost:
        operand = self.of(expr.args[0])
        if expr.optional and expr.optional[0]:
            return self.sized(Cost(capped(operand.cost + 1), self.kind(expr)))
        more = 1 if operand.type.name in ("map", "object") else 0
        path = (*operand.path, expr.value)
        return self.sized(Cost(capped(operand.cost + more), self.kind(expr), path=path))

    def index(self, expr: Expr) -> Cost:
        operand, key = self.of(expr.args[0]), self.of(expr.args[1])
        cost = capped(operand.cost + key.cost + 1)
        if expr.optional and expr.optional[0]:
            return self.sized(Cost(cost, self.kind(expr)))
        step = "@items" if operand.type.name == "list" else "@values"
        return self.sized(Cost(cost, self.kind(expr), operand.entry, path=(*operand.path, step)))

    def list_literal(self, expr: Expr) -> Cost:
        items = [self.of(item) for item in expr.args]
        cost = capped(sum(item.cost for item in items) + LIST_COST)
        return Cost(cost, self.kind(expr), Size(len(items), len(items)), _joined(items))

    def map_literal(self, expr: Expr) -> Cost:
        parts = [self.of(part) for part in expr.args]
        cost = capped(sum(part.cost for part in parts) + MAP_COST)
        return Cost(cost, self.kind(expr), Size(len(parts) // 2, len(parts) // 2), _joined(parts[1::2]))

    def operator(self, expr: Expr) -> Cost:
        args = [self.of(arg) for arg in expr.args]
        spent = sum(arg.cost for arg in args)
        kind = self.kind(expr)
        if expr.op in ("&&", "||"):
            return Cost(capped(spent), kind, ONE)
        if expr.op == "cond":
            condition, yes, no = args
            cost = capped(condition.cost + max(yes.cost, no.cost))
            return Cost(cost, kind, size_of(yes).joined(size_of(no)), _either(yes, no))
        cost, size = _operation(expr.op, args)
        entry = _either(*args) if expr.op == "+" else None
        return self.sized(Cost(capped(cost + spent), kind, size, entry))

    def call(self, expr: Expr) -> Cost:
        if expr.value == "has":
            return Cost(self.of(expr.args[0].args[0]).cost, self.kind(expr), ONE)
        args = [self.of(arg) for arg in expr.args]
        if expr.value == "dyn":
            return replace(args[0], cost=capped(args[0].cost + 1), type=DYN, literal=None, path=())
        return self.called(expr, expr.value, None, args)

    def member(self, expr: Expr) -> Cost:
        target = expr.args[0]
        loop = _LOOPS.get((expr.value, len(expr.args) - 1))
        if id(target) not in self.types:  # the first part of a function's name
            return self.called(expr, f"{target.value}.{expr.value}", None, [self.of(arg) for arg in expr.args[1:]])
        if loop is not None and expr.args[1].op == "name":
            return loop(self, expr)
        args = [self.of(arg) for arg in expr.args[1:]]
        return self.called(expr, expr.value, self.of(target), args)

    def called(self, expr: Expr, name: str, target: Cost | None, args: list[Cost]) -> Cost:
        given = [replace(arg, items=self.items_of(arg)) for arg in ([target, *args] if target else args)]
        spent = sum(arg.cost for arg in given)
        cost, size = price_of(name, given, method=target is not None)
        return self.sized(Cost(capped(cost + spent), self.kind(expr), size))

    def bound(self, name: str, value: Cost, body: Expr) -> Cost:
        """A value under a name of its own: upstream makes it of a loop over an empty list."""
        result = self.within({name: value}, body)
        return replace(result, cost=capped(LIST_COST + value.cost + result.cost), path=())

    def within(self, variables: Mapping[str, Cost], body: Expr) -> Cost:
        outer = self.local
        self.local = {**outer, **variables}
        found = self.of(body)
        self.local = outer
        return found

    def items_of(self, found: Cost) -> Size:
        """The size of each item of a list, by the schema or not at all."""
        if not found.path:
            return UNKNOWN
        return at(self.node, (*found.path[1:], "@items"), root=self.root) or UNKNOWN


def _is_scalar(kind: Type) -> bool:
    if kind.name == "optional":
        return kind.item is not None and _is_scalar(kind.item)
    return kind.name in _SCALARS


def _either(one: Cost, other: Cost) -> Size | None:
    return one.entry.joined(other.entry) if one.entry and other.entry else None


def _joined(parts: Sequence[Cost]) -> Size:
    if not parts:
        return Size(0, 0)
    size = size_of(parts[0])
    for part in parts[1:]:
        size = size.joined(size_of(part))
    return size


# --- operators --------------------------------------------------------------------------------------------------------

_TEXTS = frozenset({"string", "bytes"})
_CHEAP = frozenset({"IP", "CIDR", "Quantity", "Semver"})


def _operation(op: str, args: Sequence[Cost]) -> Price:
    """The price of an operator, apart from its operands; where a type is not known, the dearest reading counts."""
    kinds = {arg.type.name for arg in args}
    if op in ("==", "!="):
        if op == "==" and len(kinds) == 1 and kinds <= _CHEAP:
            return 1, None
        return _compared(args), None
    if op in ("<", "<=", ">", ">="):
        texts = kinds <= _TEXTS | {"dyn"}
        return max(_compared(args) if texts else 0, 0 if kinds <= _TEXTS else 1), None
    if op == "in":
        among = args[1].type.name
        return (factor(size_of(args[1]).most, 1) if among in ("list", "dyn") else 1), None
    if op == "+":
        return _added(kinds, size_of(args[0]).plus(size_of(args[1])))
    return 1, None


def _compared(args: Sequence[Cost]) -> int:
    return factor(min(size_of(args[0]).most, size_of(args[1]).most), STRING)


def _added(kinds: set[str], size: Size) -> Price:
    if kinds <= _TEXTS:
        return factor(size.most, STRING), size
    if "list" in kinds:
        return 1, size
    return (max(1, factor(size.most, STRING)), size) if kinds == {"dyn"} or kinds & _TEXTS else (1, None)


# --- macros -----------------------------------------------------------------------------------------------------------


def _turns(estimator: Estimator, expr: Expr, variables: int) -> tuple[Cost, dict[str, Cost]]:
    """What a loop runs over, and its variables."""
    over = estimator.of(expr.args[0])
    names = [str(name.value) for name in expr.args[1 : 1 + variables]]
    is_list = over.type.name == "list"
    key = Cost(0, size=ONE if is_list and over.entry else None, path=(*over.path, "@indices" if is_list else "@keys"))
    value = Cost(0, size=over.entry, path=(*over.path, "@items" if is_list else "@values"))
    if variables == 2:
        return over, dict(zip(names, (key, value)))
    return over, {names[0]: value if is_list else key}


def _loop(estimator: Estimator, expr: Expr, over: Cost, each: int, around: int) -> Cost:
    cost = over.cost + around + capped(size_of(over).most * capped(each))
    return Cost(capped(cost), estimator.kind(expr))


def _decided(condition: int, variables: int) -> Callable[[Estimator, Expr], Cost]:
    """`all` and `exists`: each turn looks at what was found so far, and then at the condition."""

    def macro(estimator: Estimator, expr: Expr) -> Cost:
        over, known = _turns(estimator, expr, variables)
        body = estimator.within(known, expr.args[-1])
        found = _loop(estimator, expr, over, condition + 1 + body.cost, 1)
        return replace(found, size=ONE)

    return macro


def _single(variables: int) -> Callable[[Estimator, Expr], Cost]:
    def macro(estimator: Estimator, expr: Expr) -> Cost:
        over, known = _turns(estimator, expr, variables)
        body = estimator.within(known, expr.args[-1])
        return replace(_loop(estimator, expr, over, body.cost + 2, 2), size=ONE)

    return macro


def _gathered(variables: int, *, filters: bool, keeps: bool = False) -> Callable[[Estimator, Expr], Cost]:
    """`map`, `filter`, `transformList`: a list grows by one item each turn."""

    def macro(estimator: Estimator, expr: Expr) -> Cost:
        over, known = _turns(estimator, expr, variables)
        item = estimator.within(known, expr.args[1] if keeps else expr.args[-1])
        condition = estimator.within(known, expr.args[1 + variables]).cost if filters else 0
        found = _loop(estimator, expr, over, condition + item.cost + LIST_COST + 2, LIST_COST + 1)
        return replace(found, size=size_of(over), entry=Size(0, size_of(item).most))

    return macro


def _mapped(*, filters: bool, entries: bool) -> Callable[[Estimator, Expr], Cost]:
    """`transformMap` and `transformMapEntry`: a map grows each turn."""

    def macro(estimator: Estimator, expr: Expr) -> Cost:
        over, known = _turns(estimator, expr, 2)
        item = estimator.within(known, expr.args[-1])
        condition = estimator.within(known, expr.args[3]).cost if filters else 0
        found = _loop(estimator, expr, over, condition + item.cost + (2 if entries else 3), MAP_COST + 1)
        return replace(found, size=size_of(over))

    return macro


def _optional(*, flat: bool) -> Callable[[Estimator, Expr], Cost]:
    """`optMap` and `optFlatMap`: a choice by `hasValue()`, then a binding of `value()`."""

    def macro(estimator: Estimator, expr: Expr) -> Cost:
        target = estimator.of(expr.args[0])
        inner = target.type.item or DYN
        value = estimator.sized(Cost(capped(target.cost + 1), inner))
        body = estimator.bound(str(expr.args[1].value), value, expr.args[2])
        cost = target.cost + 1 + body.cost + (0 if flat else 1)
        kind = estimator.kind(expr)
        return Cost(capped(cost), kind, ONE if _is_scalar(kind) else UNKNOWN)

    return macro


def _sort_by(estimator: Estimator, expr: Expr) -> Cost:
    """A binding of the list, a list of its keys, and every key against every other."""
    over, known = _turns(estimator, expr, 1)
    key = estimator.within(known, expr.args[-1])
    count = size_of(over)
    pairs = count.times(count)
    each = 2 + STRING if key.type.name in ("string", "bytes", "dyn") else 2
    keys = 2 + LIST_COST + capped(count.most * capped(key.cost + LIST_COST + 2))
    cost = over.cost + 2 * LIST_COST + 2 + keys + factor(pairs.most, each)
    return Cost(capped(cost), estimator.kind(expr), pairs)


_LOOPS: dict[tuple[str, int], Callable[[Estimator, Expr], Cost]] = {
    ("all", 2): _decided(2, 1),
    ("all", 3): _decided(2, 2),
    ("exists", 2): _decided(3, 1),
    ("exists", 3): _decided(3, 2),
    ("exists_one", 2): _single(1),
    ("existsOne", 2): _single(1),
    ("exists_one", 3): _single(2),
    ("existsOne", 3): _single(2),
    ("filter", 2): _gathered(1, filters=True, keeps=True),
    ("sortBy", 2): _sort_by,
    ("map", 2): _gathered(1, filters=False),
    ("map", 3): _gathered(1, filters=True),
    ("transformList", 3): _gathered(2, filters=False),
    ("transformList", 4): _gathered(2, filters=True),
    ("transformMap", 3): _mapped(filters=False, entries=False),
    ("transformMap", 4): _mapped(filters=True, entries=False),
    ("transformMapEntry", 3): _mapped(filters=False, entries=True),
    ("transformMapEntry", 4): _mapped(filters=True, entries=True),
    ("optMap", 2): _optional(flat=False),
    ("optFlatMap", 2): _optional(flat=True),
}
_STEPS: dict[str, Callable[[Estimator, Expr], Cost]] = {
    "const": Estimator.constant,
    "name": Estimator.name,
    "select": Estimator.select,
    "index": Estimator.index,
    "list": Estimator.list_literal,
    "map": Estimator.map_literal,
    "call": Estimator.call,
    "member": Estimator.member,
}
