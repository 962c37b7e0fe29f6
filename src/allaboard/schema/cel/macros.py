"""The macros of CEL: `all`, `exists`, `map`, `filter` and their kin, over lists and maps, with one variable or two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from allaboard.schema.cel.operators import converter
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.spent import LIST, size_of
from allaboard.schema.cel.syntax import CelSyntaxError, Expr
from allaboard.schema.cel.types import BOOL, DYN, INT, STRING, Type
from allaboard.schema.cel.values import CelError, Optional

Run = Callable[[Scope], Any]
Built = tuple[Run, Type]
Pairs = Iterable[tuple[Any, ...]]


class Builder(Protocol):
    """What a macro needs of the compiler."""

    def build(self, expr: Expr) -> Built: ...

    cost: int

    def block(self, variables: dict[str, Type], body: Expr) -> tuple[Run, Type, int]: ...

    def fault(self, expr: Expr, words: str) -> Built: ...

    def must_be_bool(self, expr: Expr, kind: Type) -> None: ...


Macro = Callable[[Any, Expr], Built]
GROWN = LIST + 2  # what it costs that a list grows by an item: a new list, the old one's name, and their sum


class _Loop:
    """One comprehension: what it runs over, its variables, the bodies of each turn, and what a turn costs."""

    def __init__(self, compiler: Builder, expr: Expr, variables: int, *, turn: int = 0, end: int = 1) -> None:
        self.over, kind = compiler.build(expr.args[0])
        self.names = [name.value for name in expr.args[1 : 1 + variables]]
        self.item = kind.item or DYN
        self.kind = kind
        types = self._types(kind, variables)
        if kind.name not in ("list", "map", "dyn"):
            words = "cannot be range of a comprehension (must be list, map, or dynamic)"
            compiler.fault(expr.args[0], f"expression of type '{kind}' {words}")
        known = dict(zip(self.names, types))
        blocks = [compiler.block(known, body) for body in expr.args[1 + variables :]]
        self.bodies = [(run, kind) for run, kind, _ in blocks]
        self.costs = [cost for _, _, cost in blocks]
        self.turn = turn + self.costs[0]  # the first body is always evaluated
        compiler.cost += end
        self.convert = converter(self.item) if kind.name == "list" or variables == 2 else None

    def _types(self, kind: Type, variables: int) -> list[Type]:
        if variables == 1:
            return [self.item if kind.name == "list" else STRING if kind.name == "map" else DYN]
        return [INT if kind.name == "list" else STRING if kind.name == "map" else DYN, self.item]

    def turns(self, scope: Scope) -> Iterable[tuple[int, Any]]:
        """Set the variables for each turn in order; yields how many come after it, and the item (or key) itself."""
        container = self.over(scope)
        before = {name: scope[name] for name in self.names if name in scope}
        try:
            left = size_of(container)
            for values in self._values(container):
                left -= 1
                scope.spend(self.turn)
                scope.update(zip(self.names, values))
                yield left, values[-1]
        finally:
            for name in self.names:
                scope.pop(name, None)
            scope.update(before)

    def _values(self, container: Any) -> Pairs:
        convert = self.convert
        if isinstance(container, list):
            items = map(convert, container) if convert else container
            return enumerate(items) if len(self.names) == 2 else ((item,) for item in items)
        if isinstance(container, dict):
            return container.items() if len(self.names) == 2 else ((key,) for key in container)
        raise CelError("no such overload")


def _quantifier(decisive: bool, variables: int) -> Macro:
    """`all` and `exists`: one decisive turn settles it, even where others fail."""

    def macro(compiler: Builder, expr: Expr) -> Built:
        again = 3 if decisive else 2  # of looking whether it is settled, before each turn
        loop = _Loop(compiler, expr, variables, turn=again + 1)
        body, kind = loop.bodies[0]
        compiler.must_be_bool(expr.args[-1], kind)

        def run(scope: Scope) -> bool:
            problem: CelError | None = None
            for left, _ in loop.turns(scope):
                try:
                    if _truth(body(scope)) is decisive:
                        scope.cost += again if left else 0
                        return decisive
                except CelError as raised:
                    problem = raised
            if problem:
                raise problem
            return not decisive

        return run, BOOL

    return macro


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload")
    return value


def _check_choice(compiler: Builder, expr: Expr, condition: Type, kept: Type) -> None:
    """Upstream makes a choice of each turn: between what was gathered so far and that with one more."""
    if not condition.fits("bool"):
        compiler.fault(expr, f"found no matching overload for '_?_:_' applied to '({condition}, {kept}, {kept})'")


def _exists_one(variables: int) -> Macro:
    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, variables, end=2)
        body, kind = loop.bodies[0]
        _check_choice(compiler, expr, kind, INT)
        return (lambda scope: sum(_truth(body(scope)) and scope.pay(2) for _ in loop.turns(scope)) == 1), BOOL

    return macro


def _filter(compiler: Builder, expr: Expr) -> Built:
    loop = _Loop(compiler, expr, 1)
    body, kind = loop.bodies[0]
    _check_choice(compiler, expr, kind, Type("list", loop.item))
    kept = Type("list", loop.item)
    return (lambda scope: [item for _, item in loop.turns(scope) if _truth(body(scope)) and scope.pay(GROWN + 1)]), kept


def _map(variables: int, *, filters: bool) -> Macro:
    """`map` and `transformList`: a value for each turn (that a condition lets through)."""

    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, variables, turn=0 if filters else GROWN)
        value, kind = loop.bodies[-1]
        if not filters:
            return (lambda scope: [value(scope) for _ in loop.turns(scope)]), Type("list", kind)
        keep, condition = loop.bodies[0]
        _check_choice(compiler, expr, condition, Type("list", kind))
        cost = GROWN + loop.costs[-1]

        def run(scope: Scope) -> list[Any]:
            return [value(scope) for _ in loop.turns(scope) if _truth(keep(scope)) and scope.pay(cost)]

        return run, Type("list", kind)

    return macro


def _transform_map(*, filters: bool, entries: bool) -> Macro:
    """`transformMap` keeps the keys, `transformMapEntry` makes its own."""

    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, 2, turn=2 if entries else 3)
        value, kind = loop.bodies[-1]
        keep = loop.bodies[0][0] if filters else None
        key = loop.names[0]

        def run(scope: Scope) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for _ in loop.turns(scope):
                if keep is None or (_truth(keep(scope)) and scope.pay(loop.costs[-1])):
                    found = value(scope)
                    added = found if entries else {scope[key]: found}
                    if entries and not out.keys().isdisjoint(added):
                        raise CelError(f"insert failed: key {next(iter(added))} already exists")
                    out |= added
            return out

        return run, Type("map", DYN if entries else kind)

    return macro


def _optional_map(*, flat: bool) -> Macro:
    def macro(compiler: Builder, expr: Expr) -> Built:
        before = compiler.cost
        target, kind = compiler.build(expr.args[0])
        name = expr.args[1].value
        body, result, cost = compiler.block({name: kind.item or DYN}, expr.args[2])
        cost += compiler.cost - before + (1 if flat else 2)  # Upstream evaluates the target twice
        compiler.cost += 1

        def run(scope: Scope) -> Optional:
            value = target(scope)
            if not isinstance(value, Optional):
                raise CelError("no such overload")
            if not value.present:
                return Optional()
            scope.pay(cost)
            found = scope.holding(name, value.value, body)
            return found if flat else Optional(found, present=True)

        return run, result if flat else Type("optional", result)

    return macro


def _sort_by(compiler: Builder, expr: Expr) -> Built:
    loop = _Loop(compiler, expr, 1, turn=GROWN, end=4)
    key, kind = loop.bodies[0]
    if kind.name in ("list", "map", "object", "optional", "null_type"):
        given = f"list({loop.item}).(list({kind}))"
        compiler.fault(expr, f"found no matching overload for '@sortByAssociatedKeys' applied to '{given}'")

    def run(scope: Scope) -> list[Any]:
        found = [(key(scope), item) for _, item in loop.turns(scope)]
        return [item for _, item in sorted(found, key=lambda pair: pair[0])]

    return run, Type("list", loop.item)


def check_names(expr: Expr) -> None:
    """The variables of a macro must be plain names."""
    count = 2 if (expr.value, len(expr.args) - 1) in _TWO_VARIABLES else 1
    for argument in expr.args[1 : 1 + count]:
        if argument.op != "name":
            raise CelSyntaxError((argument.at, _NAMELESS.get(expr.value, "argument must be a simple name")))


_TWO_VARIABLES = frozenset({("all", 3), ("exists", 3), ("existsOne", 3), ("exists_one", 3)}) | {
    (name, count) for name in ("transformList", "transformMap", "transformMapEntry") for count in (3, 4)
}
_NAMELESS = {
    "map": "argument is not an identifier",
    "filter": "argument is not an identifier",
    "optMap": "optMap() variable name must be a simple identifier",
    "optFlatMap": "optFlatMap() variable name must be a simple identifier",
}
# (name, number of arguments) -> what it expands to
MACROS: dict[tuple[str, int], Macro] = {
    ("all", 2): _quantifier(False, 1),  # noqa: FBT003 - the value that decides
    ("all", 3): _quantifier(False, 2),  # noqa: FBT003
    ("exists", 2): _quantifier(True, 1),  # noqa: FBT003
    ("exists", 3): _quantifier(True, 2),  # noqa: FBT003
    ("exists_one", 2): _exists_one(1),
    ("existsOne", 2): _exists_one(1),
    ("existsOne", 3): _exists_one(2),
    ("exists_one", 3): _exists_one(2),
    ("filter", 2): _filter,
    ("sortBy", 2): _sort_by,
    ("map", 2): _map(1, filters=False),
    ("map", 3): _map(1, filters=True),
    ("transformList", 3): _map(2, filters=False),
    ("transformList", 4): _map(2, filters=True),
    ("transformMap", 3): _transform_map(filters=False, entries=False),
    ("transformMap", 4): _transform_map(filters=True, entries=False),
    ("transformMapEntry", 3): _transform_map(filters=False, entries=True),
    ("transformMapEntry", 4): _transform_map(filters=True, entries=True),
    ("optMap", 2): _optional_map(flat=False),
    ("optFlatMap", 2): _optional_map(flat=True),
}
