"""CEL compiled to closures: types checked while compiling, cost counted while running.

`compile_rule("self.lo <= self.hi", {"self": type_of(node)})` makes a program, run by `program.run(Scope({"self": …}))`.
An expression that cannot be evaluated raises `CelError`; one that does not compile, `CelCompileError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from allaboard.schema.cel.library import Overload
from allaboard.schema.cel.macros import MACROS
from allaboard.schema.cel.operators import OPERATORS, converter, equality
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.syntax import CelSyntaxError, Expr, parse
from allaboard.schema.cel.times import FUNCTIONS
from allaboard.schema.cel.types import BOOL, DYN, STRING, Type, field_of, type_of_value, unescaped
from allaboard.schema.cel.values import CelError, Optional, is_of

Run = Callable[[Scope], Any]
Built = tuple[Run, Type]
_TYPES = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"})
_RESULTS = {name: Type(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")}


class CelCompileError(Exception):
    """Everything a compiler says against an expression, with the places marked."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression: how to run it, what it answers, and which variables it reads."""

    run: Run
    type: Type
    reads: frozenset[str]


def compile_rule(text: str, variables: Mapping[str, Type]) -> Program:
    """The program of an expression over these variables; raises `CelCompileError`."""
    compiler = Compiler(dict(variables))
    try:
        run, kind = compiler.build(parse(text))
    except CelSyntaxError as problem:
        raise CelCompileError(_marked(text, problem.at, problem.words)) from None
    except RecursionError:
        raise CelCompileError(_marked(text, 0, "expression recursion limit exceeded: 250")) from None
    if compiler.faults:
        raise CelCompileError("\n".join(_marked(text, at, words) for at, words in sorted(set(compiler.faults))))
    return Program(run, kind, frozenset(compiler.reads))


def _marked(text: str, at: int, words: str) -> str:
    line = text.count("\n", 0, at)
    column = at - (text.rfind("\n", 0, at) + 1)
    shown = (text.split("\n") or [""])[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {words}\n | {shown}\n | {'.' * column}^"


class Compiler:
    """Builds closures from a tree; `faults` collects what is wrong with it."""

    def __init__(self, variables: dict[str, Type]) -> None:
        self.variables = variables
        self.faults: list[tuple[int, str]] = []
        self.reads: set[str] = set()

    def build(self, expr: Expr) -> Built:
        step = _BUILDERS.get(expr.op)
        return step(self, expr) if step else self.operator(expr)

    def fault(self, expr: Expr, words: str) -> Built:
        self.faults.append((expr.at, words))
        return (lambda scope: None), DYN

    def no_overload(self, expr: Expr, function: str, kinds: list[Type], *, method: bool = False) -> Built:
        shown = ", ".join(map(str, kinds[1:] if method else kinds))
        applied = f"{kinds[0]}.({shown})" if method else f"({shown})"
        return self.fault(expr, f"found no matching overload for '{function}' applied to '{applied}'")

    def constant(self, expr: Expr) -> Built:
        value = expr.value
        return (lambda scope: value), type_of_value(value)

    def name(self, expr: Expr) -> Built:
        name = expr.value
        if name in self.variables:
            self.reads.add(name)
            return (lambda scope: scope[name]), self.variables[name]
        if name in _TYPES:
            return (lambda scope: name), Type("type")
        return self.fault(expr, f"undeclared reference to '{name}' (in container '')")

    def select(self, expr: Expr) -> Built:
        operand, kind = self.build(expr.args[0])
        optional = bool(expr.optional and expr.optional[0]) or kind.name == "optional"
        name, inner = expr.value, (kind.item or DYN) if kind.name == "optional" else kind
        found: Type | None = DYN
        if inner.name == "object":
            name = unescaped(name)
            found = field_of(inner, name)
        elif inner.name == "map":
            found = inner.item or DYN
        elif inner.name != "dyn":
            return self.fault(expr, f"type '{inner}' does not support field selection")
        if found is None:
            return self.fault(expr, f"undefined field '{expr.value}'")
        if optional:
            return _optional_select(operand, name, converter(found)), Type("optional", found)
        return _select(operand, name, converter(found)), found

    def has(self, expr: Expr) -> Built:
        """`has(a.b)`: whether the field is there; only a selection can be asked for."""
        if len(expr.args) != 1 or expr.args[0].op != "select":
            return self.fault(expr, "invalid argument to has() macro")
        selection = expr.args[0]
        self.select(selection)
        operand, kind = self.build(selection.args[0])
        name = unescaped(selection.value) if kind.name == "object" else selection.value

        def run(scope: Scope) -> bool:
            value = operand(scope)
            if isinstance(value, Optional):
                value = value.value
            if value is not None and not isinstance(value, dict):
                raise CelError("no such overload")
            return value is not None and name in value

        return run, BOOL

    def index(self, expr: Expr) -> Built:
        (operand, kind), (key, _) = self.build(expr.args[0]), self.build(expr.args[1])
        optional = expr.optional[0] or kind.name == "optional"
        inner = (kind.item or DYN) if kind.name == "optional" else kind
        if inner.name not in ("list", "map", "dyn"):
            return self.no_overload(expr, "_[_]", [kind, self.build(expr.args[1])[1]])
        item = inner.item or DYN
        run = _index(operand, key, converter(item))
        return (_attempt(run), Type("optional", item)) if optional else (run, item)

    def list_literal(self, expr: Expr) -> Built:
        built = [self.build(item) for item in expr.args]
        kinds = {str(kind): kind for _, kind in built}
        runs = [run for run, _ in built]
        item = next(iter(kinds.values())) if len(kinds) == 1 else DYN
        if not any(expr.optional):
            return (lambda scope: [run(scope) for run in runs]), Type("list", item)
        flags = expr.optional

        def run_all(scope: Scope) -> list[Any]:
            found = [(flag, run(scope)) for flag, run in zip(flags, runs)]
            return [value.value if flag else value for flag, value in found if not flag or value.present]

        return run_all, Type("list", DYN)

    def map_literal(self, expr: Expr) -> Built:
        built = [self.build(part) for part in expr.args]
        runs = [run for run, _ in built]
        pairs = list(zip(runs[::2], runs[1::2], expr.optional))
        kinds = {str(kind): kind for _, kind in built[1::2]}

        def run_all(scope: Scope) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for key, value, optional in pairs:
                found = value(scope)
                if not optional or found.present:
                    out[key(scope)] = found.value if optional else found
            return out

        return run_all, Type("map", next(iter(kinds.values())) if len(kinds) == 1 else DYN)

    def call(self, expr: Expr) -> Built:
        if expr.value == "has":
            return self.has(expr)
        return self.function(expr, expr.value, list(expr.args), method=False)

    def member(self, expr: Expr) -> Built:
        target = expr.args[0]
        macro = MACROS.get((expr.value, len(expr.args) - 1))
        qualified = f"{target.value}.{expr.value}" if target.op == "name" and target.value not in self.variables else ""
        if qualified == "cel.bind" and len(expr.args) == 4:
            return self.bind(expr)
        if qualified in FUNCTIONS:
            return self.function(expr, qualified, list(expr.args[1:]), method=False)
        if macro is not None and expr.args[1].op == "name":
            return macro(self, expr)
        return self.function(expr, expr.value, list(expr.args), method=True)

    def bind(self, expr: Expr) -> Built:
        _, name, initial, body = expr.args
        start, kind = self.build(initial)
        run, result = self.within({name.value: kind}, body)
        key = name.value
        return (lambda scope: scope.holding(key, start(scope), run)), result

    def within(self, variables: Mapping[str, Type], body: Expr) -> Built:
        """Build a body that sees more variables."""
        outer = self.variables
        self.variables = {**outer, **variables}
        built = self.build(body)
        self.variables = outer
        return built

    def function(self, expr: Expr, name: str, args: list[Expr], *, method: bool) -> Built:
        known = [overload for overload in FUNCTIONS.get(name, ()) if overload.method is method]
        if not known:
            return self.fault(expr, f"undeclared reference to '{name}' (in container '')")
        built = [self.build(arg) for arg in args]
        kinds = [kind for _, kind in built]
        fitting = [
            overload
            for overload in known
            if len(overload.params) == len(kinds) and all(k.fits(wanted) for k, wanted in zip(kinds, overload.params))
        ]
        if not fitting:
            return self.no_overload(expr, name, kinds, method=method)
        return _dispatch(fitting, [run for run, _ in built]), _result(fitting, kinds)

    def operator(self, expr: Expr) -> Built:
        built = [self.build(arg) for arg in expr.args]
        runs, kinds = [run for run, _ in built], [kind for _, kind in built]
        if expr.op in ("==", "!="):
            return self.comparison(expr, runs, kinds)
        operator = OPERATORS[expr.op]
        result = operator.result(kinds)
        if result is None:
            return self.no_overload(expr, operator.name, kinds)
        return operator.make(*runs), result

    def comparison(self, expr: Expr, runs: list[Run], kinds: list[Type]) -> Built:
        same = equality(*kinds)
        if same is None:
            return self.no_overload(expr, f"_{expr.op}_", kinds)
        left, right = runs
        if expr.op == "==":
            return (lambda scope: same(left(scope), right(scope))), BOOL
        return (lambda scope: not same(left(scope), right(scope))), BOOL


def _select(operand: Run, name: str, convert: Callable[[Any], Any] | None) -> Run:
    def run(scope: Scope) -> Any:
        try:
            value = operand(scope)[name]
        except (KeyError, TypeError, IndexError):
            raise CelError(f"no such key: {name}") from None
        return convert(value) if convert and value is not None else value

    return run


def _optional_select(operand: Run, name: str, convert: Callable[[Any], Any] | None) -> Run:
    def run(scope: Scope) -> Optional:
        value = operand(scope)
        if isinstance(value, Optional):
            value = value.value if value.present else None
        if not isinstance(value, dict) or name not in value:
            return Optional()
        found = value[name]
        return Optional(convert(found) if convert and found is not None else found, present=True)

    return run


def _index(operand: Run, key: Run, convert: Callable[[Any], Any] | None) -> Run:
    def run(scope: Scope) -> Any:
        value, at = operand(scope), key(scope)
        if isinstance(value, Optional):
            value = value.value
        if isinstance(value, list):
            if isinstance(at, bool) or not isinstance(at, int | float) or at != int(at):
                raise CelError(f"unsupported index type '{type(at).__name__}' in list")
            if not 0 <= at < len(value):
                raise CelError(f"index out of bounds: {at}")
            found = value[int(at)]
        elif isinstance(value, dict):
            if at not in value:
                raise CelError(f"no such key: {at}")
            found = value[at]
        else:
            raise CelError("no such overload")
        return convert(found) if convert and found is not None else found

    return run


def _attempt(run: Run) -> Run:
    def attempt(scope: Scope) -> Optional:
        try:
            return Optional(run(scope), present=True)
        except CelError as problem:
            if str(problem).startswith(("no such key", "index out of bounds", "no such overload")):
                return Optional()
            raise

    return attempt


def _dispatch(overloads: list[Overload], args: list[Run]) -> Run:
    """A call: the overload is chosen by the values, where their types do not settle it."""
    if len({overload.run for overload in overloads}) == 1:
        only = overloads[0]

        def single(scope: Scope) -> Any:
            values = [arg(scope) for arg in args]
            if not all(map(is_of, values, only.params)) and not any(_accepts(o, values) for o in overloads):
                raise CelError("no such overload")
            return _called(only, values, scope)

        return single

    def several(scope: Scope) -> Any:
        values = [arg(scope) for arg in args]
        chosen = next((overload for overload in overloads if _accepts(overload, values)), None)
        if chosen is None:
            raise CelError("no such overload")
        return _called(chosen, values, scope)

    return several


def _accepts(overload: Overload, values: list[Any]) -> bool:
    return all(map(is_of, values, overload.params))


def _called(overload: Overload, values: list[Any], scope: Scope) -> Any:
    scope.spend(1 + (len(values[0]) // 10 if values and isinstance(values[0], str | list) else 0))
    try:
        return overload.run(*values)
    except (TypeError, AttributeError):
        raise CelError("no such overload") from None


def _result(overloads: list[Overload], kinds: list[Type]) -> Type:
    names = {overload.result for overload in overloads}
    if len(names) > 1:
        return DYN
    name = names.pop()
    if name == "same":
        return kinds[0]
    if name == "item":
        return kinds[0].item or DYN
    if name == "list":
        return Type("list", STRING if kinds and kinds[0].name == "string" else DYN)
    if name == "dyn" and kinds and kinds[0].name == "optional":
        return kinds[0].item or DYN
    if name == "optional":
        first = overloads[0].params[:1]
        return kinds[0] if first == ("optional",) else Type("optional", kinds[0] if first == ("dyn",) else DYN)
    return _RESULTS.get(name) or Type(name)


_BUILDERS: dict[str, Callable[[Compiler, Expr], Built]] = {
    "const": Compiler.constant,
    "name": Compiler.name,
    "select": Compiler.select,
    "index": Compiler.index,
    "list": Compiler.list_literal,
    "map": Compiler.map_literal,
    "call": Compiler.call,
    "member": Compiler.member,
}
