"""The macros of CEL: `all`, `exists`, `map`, `filter` and their kin, over lists and maps, with one variable or two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from allaboard.schema.cel.operators import converter
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.syntax import Expr
from allaboard.schema.cel.types import BOOL, DYN, INT, STRING, Type
from allaboard.schema.cel.values import CelError, Optional

Run = Callable[[Scope], Any]
Built = tuple[Run, Type]
Pairs = Iterable[tuple[Any, ...]]


class Builder(Protocol):
    """What a macro needs of the compiler."""

    def build(self, expr: Expr) -> Built: ...

    def within(self, variables: dict[str, Type], body: Expr) -> Built: ...

    def fault(self, expr: Expr, words: str) -> Built: ...


Macro = Callable[[Any, Expr], Built]


class _Loop:
    """One comprehension: what it runs over, its variables, and the bodies evaluated for each turn."""

    def __init__(self, compiler: Builder, expr: Expr, variables: int) -> None:
        self.over, kind = compiler.build(expr.args[0])
        self.names = [name.value for name in expr.args[1 : 1 + variables]]
        self.item = kind.item or DYN
        self.kind = kind
        types = self._types(kind, variables)
        if kind.name not in ("list", "map", "object", "dyn"):
            compiler.fault(
                expr, f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
        known = dict(zip(self.names, types))
        self.bodies = [compiler.within(known, body) for body in expr.args[1 + variables :]]
        self.convert = converter(self.item) if kind.name == "list" or variables == 2 else None

    def _types(self, kind: Type, variables: int) -> list[Type]:
        if variables == 1:
            return [self.item if kind.name == "list" else STRING if kind.name in ("map", "object") else DYN]
        return [INT if kind.name == "list" else STRING if kind.name in ("map", "object") else DYN, self.item]

    def turns(self, scope: Scope) -> Iterable[Any]:
        """Set the variables for each turn in order; what is yielded is the item (or key) itself."""
        container = self.over(scope)
        before = {name: scope[name] for name in self.names if name in scope}
        try:
            for values in self._values(container):
                scope.spend(2)
                scope.update(zip(self.names, values))
                yield values[-1]
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
        loop = _Loop(compiler, expr, variables)
        body = loop.bodies[0][0]

        def run(scope: Scope) -> bool:
            problem: CelError | None = None
            for _ in loop.turns(scope):
                try:
                    if _truth(body(scope)) is decisive:
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


def _exists_one(variables: int) -> Macro:
    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, variables)
        body = loop.bodies[0][0]
        return (lambda scope: sum(_truth(body(scope)) for _ in loop.turns(scope)) == 1), BOOL

    return macro


def _filter(compiler: Builder, expr: Expr) -> Built:
    loop = _Loop(compiler, expr, 1)
    body = loop.bodies[0][0]
    return (lambda scope: [item for item in loop.turns(scope) if _truth(body(scope))]), Type("list", loop.item)


def _map(variables: int, *, filters: bool) -> Macro:
    """`map` and `transformList`: a value for each turn (that a condition lets through)."""

    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, variables)
        value, kind = loop.bodies[-1]
        if not filters:
            return (lambda scope: [value(scope) for _ in loop.turns(scope)]), Type("list", kind)
        keep = loop.bodies[0][0]
        return (lambda scope: [value(scope) for _ in loop.turns(scope) if _truth(keep(scope))]), Type("list", kind)

    return macro


def _transform_map(*, filters: bool, entries: bool) -> Macro:
    """`transformMap` keeps the keys, `transformMapEntry` makes its own."""

    def macro(compiler: Builder, expr: Expr) -> Built:
        loop = _Loop(compiler, expr, 2)
        value, kind = loop.bodies[-1]
        keep = loop.bodies[0][0] if filters else None
        key = loop.names[0]

        def run(scope: Scope) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for _ in loop.turns(scope):
                if keep is None or _truth(keep(scope)):
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
        target, kind = compiler.build(expr.args[0])
        name = expr.args[1].value
        body, result = compiler.within({name: kind.item or DYN}, expr.args[2])

        def run(scope: Scope) -> Optional:
            value = target(scope)
            if not isinstance(value, Optional):
                raise CelError("no such overload")
            if not value.present:
                return Optional()
            found = scope.holding(name, value.value, body)
            return found if flat else Optional(found, present=True)

        return run, result if flat else Type("optional", result)

    return macro


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
