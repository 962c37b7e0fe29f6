"""CEL compiled to closures: types checked while compiling, cost counted while running.

`compile_rule("self.lo <= self.hi", {"self": type_of(node)})` makes a program, run by `program.run(Scope({"self": …}))`.
An expression that cannot be evaluated raises `CelError`; one that does not compile, `CelCompileError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from allaboard.schema.cel import spent
from allaboard.schema.cel.library import Overload, to_duration, to_timestamp
from allaboard.schema.cel.macros import MACROS, check_names
from allaboard.schema.cel.operators import OPERATORS, SIZED, TEXTS, converter, equality
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.syntax import CelSyntaxError, Expr, parse
from allaboard.schema.cel.times import FUNCTIONS
from allaboard.schema.cel.types import BOOL, DYN, STRING, Type, field_of, goes_with, type_of_value, unescaped
from allaboard.schema.cel.values import CelError, Optional, is_of
from allaboard.schema.patterns import compiled

Run = Callable[[Scope], Any]
Same = Callable[[Any, Any], bool]
Built = tuple[Run, Type]
_TYPES = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"})
_RESULTS = {name: Type(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")}


class CelCompileError(Exception):
    """Everything a compiler says against an expression, with the places marked."""


class CelHopeless(CelCompileError):
    """What a compiler finds when it works out what is constant: it never could be evaluated."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression: how to run it, what it answers, which variables it reads, and what it costs at least."""

    run: Run
    type: Type
    reads: frozenset[str]
    cost: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression that compiles, and what was learnt of it: its tree, and the type of each part (by its id)."""

    program: Program
    tree: Expr
    types: Mapping[int, Type]


def compile_rule(text: str, variables: Mapping[str, Type]) -> Program:
    """The program of an expression over these variables; raises `CelCompileError`."""
    return check_rule(text, variables).program


def check_rule(text: str, variables: Mapping[str, Type]) -> Checked:
    """An expression over these variables, compiled; raises `CelCompileError`."""
    compiler = Compiler(dict(variables))
    try:
        tree = parse(text)
        run, kind = compiler.build(tree)
    except CelSyntaxError as problem:
        raise CelCompileError("\n".join(_marked(text, at, words) for at, words in problem.all)) from None
    except RecursionError:
        raise CelCompileError(_marked(text, 0, "expression recursion limit exceeded: 250")) from None
    if faults := compiler.faults or compiler.unreadable:
        raise CelCompileError("\n".join(_marked(text, at, words) for at, words in sorted(set(faults))))
    if compiler.hopeless:
        raise CelHopeless(compiler.hopeless[0])
    return Checked(Program(run, kind, frozenset(compiler.reads), compiler.cost), tree, compiler.types)


def _marked(text: str, at: int, words: str) -> str:
    line = text.count("\n", 0, at)
    column = at - (text.rfind("\n", 0, at) + 1)
    shown = (text.split("\n") or [""])[line]
    # Upstream: a wide letter gets a wide mark.
    dots = "".join("." if letter.isascii() else "．" for letter in shown[:column])
    mark = "^" if shown[column : column + 1].isascii() else "＾"
    return f"ERROR: <input>:{line + 1}:{column + 1}: {words}\n | {shown}\n | {dots}{mark}"


class Compiler:
    """Builds closures from a tree; `faults` collects what is wrong with it."""

    def __init__(self, variables: dict[str, Type]) -> None:
        self.variables = variables
        self.faults: list[tuple[int, str]] = []
        self.unreadable: list[tuple[int, str]] = []  # literals that make no sense; they are judged last
        self.hopeless: list[str] = []  # what constants can never be turned into
        self.formatting = 0  # inside of what `format` is given, lists may hold anything
        self.reads: set[str] = set()
        self.types: dict[int, Type] = {}
        self.cost = 0  # of what is always evaluated in the block that is being built

    def build(self, expr: Expr) -> Built:
        step = _BUILDERS.get(expr.op)
        built = step(self, expr) if step else self.operator(expr)
        self.types[id(expr)] = built[1]
        return built

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
            self.cost += 1
            return (lambda scope: scope[name]), self.variables[name]
        if name in _TYPES:
            return (lambda scope: name), Type("type")
        return self.fault(expr, f"undeclared reference to '{name}' (in container '')")

    def select(self, expr: Expr) -> Built:
        operand, kind = self.build(expr.args[0])
        self.cost += 1 if _is_attribute(expr.args[0]) else 2
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
            raise CelSyntaxError((expr.args[0].at if expr.args else expr.at, "invalid argument to has() macro"))
        selection, before = expr.args[0], self.cost
        self.select(replace(selection, at=expr.at))
        self.cost = before
        operand, kind = self.build(selection.args[0])
        name = unescaped(selection.value) if kind.name == "object" else selection.value

        def run(scope: Scope) -> bool:
            value = operand(scope)
            if isinstance(value, Optional):
                value = value.value
            if value is not None and not isinstance(value, dict):
                raise CelError("no such overload")
            return value is not None and value.get(name) is not None

        return run, BOOL

    def index(self, expr: Expr) -> Built:
        (operand, kind), (key, by) = self.build(expr.args[0]), self.build(expr.args[1])
        self.cost += (1 if _is_attribute(expr.args[0]) else 2) - _is_attribute(expr.args[1])
        optional = expr.optional[0] or kind.name == "optional"
        inner = (kind.item or DYN) if kind.name == "optional" else kind
        wanted = {"list": "int", "map": "string" if inner.node else "dyn", "dyn": "dyn"}.get(inner.name)
        if wanted is None or not by.fits(wanted):
            return self.no_overload(expr, "_[?_]" if expr.optional[0] else "_[_]", [kind, by])
        item = inner.item or DYN
        run = _index(operand, key, converter(item))
        return (_attempt(run), Type("optional", item)) if optional else (run, item)

    def list_literal(self, expr: Expr) -> Built:
        built = [self.build(item) for item in expr.args]
        self.cost += 0 if _is_constant(expr) else spent.LIST
        runs = [run for run, _ in built]
        kinds = [kind.item or DYN if flag else kind for (_, kind), flag in zip(built, expr.optional)]
        item = self.alike(expr.args, kinds)
        if not any(expr.optional):
            return (lambda scope: [run(scope) for run in runs]), Type("list", item)
        flags = expr.optional

        def run_all(scope: Scope) -> list[Any]:
            found = [(flag, run(scope)) for flag, run in zip(flags, runs)]
            return [value.value if flag else value for flag, value in found if not flag or value.present]

        return run_all, Type("list", item)

    def map_literal(self, expr: Expr) -> Built:
        built = [self.build(part) for part in expr.args]
        self.cost += 0 if _is_constant(expr) else spent.MAP
        runs = [run for run, _ in built]
        pairs = list(zip(runs[::2], runs[1::2], expr.optional))
        self.alike(expr.args[::2], [kind for _, kind in built[::2]])
        kinds = [kind.item or DYN if flag else kind for (_, kind), flag in zip(built[1::2], expr.optional)]
        held = self.alike(expr.args[1::2], kinds)

        def run_all(scope: Scope) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for key, value, optional in pairs:
                found = value(scope)
                if not optional or found.present:
                    out[key(scope)] = found.value if optional else found
            return out

        return run_all, Type("map", held)

    def alike(self, parts: Sequence[Expr], kinds: Sequence[Type]) -> Type:
        """The one type of what a literal holds."""
        found: Type | None = None
        for part, kind in zip(parts, kinds):
            if found is not None and not goes_with(found, kind):
                if not self.formatting:
                    self.unreadable.append((part.at, f"expected type '{found}' but found '{kind}'"))
                return DYN
            found = kind if found is None or str(found) == str(kind) else DYN
        return found or DYN

    def call(self, expr: Expr) -> Built:
        if expr.value == "has":
            return self.has(expr)
        return self.function(expr, expr.value, list(expr.args), method=False)

    def member(self, expr: Expr) -> Built:
        target = expr.args[0]
        macro = MACROS.get((expr.value, len(expr.args) - 1))
        qualified = f"{target.value}.{expr.value}" if target.op == "name" and target.value not in self.variables else ""
        if qualified in FUNCTIONS:
            return self.function(expr, qualified, list(expr.args[1:]), method=False)
        if macro is not None:
            check_names(expr)
            return macro(self, expr)
        return self.function(expr, expr.value, list(expr.args), method=True)

    def within(self, variables: Mapping[str, Type], body: Expr) -> Built:
        """Build a body that sees more variables."""
        outer = self.variables
        self.variables = {**outer, **variables}
        built = self.build(body)
        self.variables = outer
        return built

    def block(self, variables: Mapping[str, Type], body: Expr) -> tuple[Run, Type, int]:
        """Build what may be evaluated never or often: its cost is not added, whoever runs it pays."""
        before, self.cost = self.cost, 0
        run, kind = self.within(variables, body)
        cost, self.cost = self.cost, before
        return run, kind, cost

    def function(self, expr: Expr, name: str, args: list[Expr], *, method: bool) -> Built:
        known = [overload for overload in FUNCTIONS.get(name, ()) if overload.method is method]
        self.formatting += name == "format"
        built = [self.build(arg) for arg in args]
        self.formatting -= name == "format"
        if not known:
            return self.fault(expr, f"undeclared reference to '{name}' (in container '')")
        kinds = [kind for _, kind in built]
        fitting = [
            overload
            for overload in known
            if len(overload.params) == len(kinds) and all(k.fits(wanted) for k, wanted in zip(kinds, overload.params))
        ]
        if not fitting or not _holds_well(name, kinds, method=method):
            return self.no_overload(expr, name, kinds, method=method)
        if name in _CONVERSIONS and not method and args[0].op == "const":
            try:
                fitting[0].run(args[0].value)
            except CelError as problem:
                self.hopeless.append(str(problem))
        self.read_literals(name, args[-1:], method=method)
        price = spent.of_call(name, method=method)
        is_folded = name in _FOLDED and not method and args[0].op == "const"
        self.cost += price is None and not is_folded and name not in _FREE
        run = _dispatch(fitting, [run for run, _ in built], price)
        return run, Type("type", kinds[0]) if name == "type" else _result(fitting, kinds)

    def read_literals(self, name: str, args: Sequence[Expr], *, method: bool) -> None:
        """A pattern, a time or a duration that is written out must be one."""
        read = _READERS.get(name)
        if read is None or method is not (name == "matches") or not args or args[0].op != "const":
            return
        try:
            read(args[0].value)
        except (CelError, re.error):
            self.unreadable.append((args[0].at, f"invalid {name} argument"))

    def operator(self, expr: Expr) -> Built:
        if expr.op in ("&&", "||", "cond"):
            first, *others = expr.args
            built = [self.build(first), *(self.paid(other, expr.op) for other in others)]
        else:
            built = [self.build(arg) for arg in expr.args]
        runs, kinds = [run for run, _ in built], [kind for _, kind in built]
        if expr.op in ("==", "!="):
            return self.comparison(expr, runs, kinds)
        self.cost += _step_cost(expr, kinds)
        if expr.op in ("&&", "||"):
            for arg, kind in zip(expr.args, kinds):
                self.must_be_bool(arg, kind)
        operator = OPERATORS[expr.op]
        result = BOOL if expr.op in ("&&", "||") else operator.result(kinds)
        if result is None:
            return self.no_overload(expr, operator.name, kinds)
        if expr.op == "in" and kinds[1].name == "list" and not _is_constant(expr.args[1]):
            runs[1] = _counted(runs[1])
        if expr.op in SIZED and {kind.name for kind in kinds} <= TEXTS:
            return operator.make(*runs, weigh=True), result
        return operator.make(*runs), result

    def paid(self, expr: Expr, op: str) -> Built:
        """Build an operand that is not always evaluated; it pays for itself."""
        run, kind, cost = self.block({}, expr)
        cost -= op == "cond" and _is_attribute(expr)
        return (lambda scope: run(scope) if scope.pay(cost) else None) if cost > 0 else run, kind

    def must_be_bool(self, expr: Expr, kind: Type) -> None:
        if not kind.fits("bool"):
            self.fault(expr, f"expected type 'bool' but found '{kind}'")

    def comparison(self, expr: Expr, runs: list[Run], kinds: list[Type]) -> Built:
        same = equality(*kinds)
        if same is None:
            return self.no_overload(expr, f"_{expr.op}_", kinds)
        left, right = runs
        is_small = any(kind.name in _SMALL for kind in kinds)
        self.cost += is_small
        alike = _small(same, left, right) if is_small else _measured(same, left, right)
        return (alike if expr.op == "==" else (lambda scope: not alike(scope))), BOOL


# Values of one size, whatever they are; and conversions that are worked out once where they are written out.
_SMALL = frozenset({"bool", "int", "uint", "double", "timestamp", "duration", "null_type"})
_FREE = frozenset({"or", "orValue"})
_FOLDED = frozenset({"int", "uint", "double", "bool", "string", "duration", "timestamp"})


def _small(same: Same, left: Run, right: Run) -> Run:
    return lambda scope: same(left(scope), right(scope))


def _measured(same: Same, left: Run, right: Run) -> Run:
    """A comparison that costs as much as the smaller value is large."""

    def run(scope: Scope) -> bool:
        one, other = left(scope), right(scope)
        scope.cost += spent.compared(one, other)
        return same(one, other)

    return run


def _counted(run: Run) -> Run:
    """A list that costs as much as it has items."""

    def counted(scope: Scope) -> Any:
        found = run(scope)
        scope.cost += spent.size_of(found)
        return found

    return counted


def _is_attribute(expr: Expr) -> bool:
    """Whether upstream reads it as one attribute, whose parts are counted together."""
    return expr.op in ("name", "select", "index")


def _is_constant(expr: Expr) -> bool:
    return expr.op == "const" or (expr.op in ("list", "map") and all(map(_is_constant, expr.args)))


def _step_cost(expr: Expr, kinds: Sequence[Type]) -> int:
    """What an operator costs where that does not depend on its values."""
    if expr.op in ("&&", "||", "cond"):
        return 0
    if expr.op == "in":
        return 0 if _is_constant(expr.args[1]) or kinds[1].name == "list" else 1
    return 0 if expr.op in SIZED and {kind.name for kind in kinds} <= TEXTS else 1


_CONVERSIONS = frozenset({"int", "uint", "double", "bool"})
_SUMS = frozenset({"dyn", "int", "uint", "double", "duration"})
_ORDERED = _SUMS | {"bool", "string", "bytes", "timestamp"}
_ITEMS = {"sum": _SUMS, "min": _ORDERED, "max": _ORDERED, "isSorted": _ORDERED, "flatten": frozenset({"dyn", "list"})}


def _holds_well(name: str, kinds: Sequence[Type], *, method: bool) -> bool:
    """Whether lists hold what a function works on, and look for what they can hold."""
    first = kinds[0] if kinds else DYN
    if name.startswith("sets."):
        return goes_with(*kinds)
    if not method or first.name != "list":
        return True
    item = first.item or DYN
    if name in ("indexOf", "lastIndexOf"):
        return goes_with(item, kinds[1])
    return name not in _ITEMS or item.name in _ITEMS[name]


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


def _dispatch(overloads: list[Overload], args: list[Run], price: spent.Spent | None) -> Run:
    """A call: the overload is chosen by the values, where their types do not settle it."""
    if len({overload.run for overload in overloads}) == 1:
        only = overloads[0]

        def single(scope: Scope) -> Any:
            values = [arg(scope) for arg in args]
            if not all(map(is_of, values, only.params)) and not any(_accepts(o, values) for o in overloads):
                raise CelError("no such overload")
            return _called(only, values, scope, price)

        return single

    def several(scope: Scope) -> Any:
        values = [arg(scope) for arg in args]
        chosen = next((overload for overload in overloads if _accepts(overload, values)), None)
        if chosen is None:
            raise CelError("no such overload")
        return _called(chosen, values, scope, price)

    return several


def _accepts(overload: Overload, values: list[Any]) -> bool:
    return all(map(is_of, values, overload.params))


def _called(overload: Overload, values: list[Any], scope: Scope, price: spent.Spent | None) -> Any:
    try:
        result = overload.run(*values)
    except (TypeError, AttributeError):
        raise CelError("no such overload") from None
    if price is not None:
        scope.spend(price(values, result))
    return result


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
    if name == "optional_item":
        return Type("optional", kinds[0].item or DYN)
    if name == "optional":
        first = overloads[0].params[:1]
        return kinds[0] if first == ("optional",) else Type("optional", kinds[0] if first == ("dyn",) else DYN)
    return _RESULTS.get(name) or Type(name)


_READERS: dict[str, Callable[[Any], object]] = {
    "matches": compiled,
    "duration": to_duration,
    "timestamp": to_timestamp,
}
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
