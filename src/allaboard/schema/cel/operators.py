"""The operators of CEL: which types they take, and what they do with values whose types only the run shows."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from allaboard.schema.cel.library import to_duration, to_timestamp
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.spent import compared, tenth
from allaboard.schema.cel.syntax import UInt
from allaboard.schema.cel.types import BOOL, DURATION, DYN, TIMESTAMP, Type, goes_with
from allaboard.schema.cel.values import CelError, equal
from allaboard.schema.nodes import LIST, MAP, Node, is_closed

Run = Callable[[Scope], Any]
_NUMBERS = frozenset({"int", "uint", "double"})
_ORDERED = _NUMBERS | {"string", "bool", "bytes", "timestamp", "duration"}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its name in complaints, its result type (None where it does not apply), and its closure."""

    name: str
    result: Callable[[Sequence[Type]], Type | None]
    make: Callable[..., Run]


def converter(kind: Type) -> Callable[[Any], Any] | None:
    """How a JSON value becomes a value of its type, where the two differ."""
    return _CONVERTERS.get(kind.name)


def _decoded(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except binascii.Error as problem:
        raise CelError(str(problem)) from None


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "timestamp": to_timestamp,
    "duration": to_duration,
    "bytes": _decoded,
    "double": float,
}


# --- equality ---------------------------------------------------------------------------------------------------------


def equality(left: Type, right: Type) -> Callable[[Any, Any], bool] | None:
    """How two values of these types compare; None where they never can."""
    if not goes_with(left, right):
        return None
    node = left.node or right.node
    return equal if node is None else lambda a, b: _alike(a, b, node)


def _alike(left: Any, right: Any, node: Node) -> bool:
    """Equality through a schema: sets have no order, keyed lists are compared key by key."""
    # Where everything has a declared type, plain equality cannot take true for 1.
    if left == right and (is_closed(node) or equal(left, right)):
        return True
    if node.shape == LIST and isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and _alike_lists(left, right, node)
    if node.shape == MAP and isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return all(
            equal(value, right[key]) or ((child := node.child(key)) is not None and _alike(value, right[key], child))
            for key, value in left.items()
        )
    return False


def _alike_lists(left: list[Any], right: list[Any], node: Node) -> bool:
    if node.list_type == "set":
        return all(any(equal(item, other) for other in right) for item in left)
    if node.list_type == "map":
        found = {_keys(item, node): item for item in right}
        return all(_keys(item, node) in found and _alike(item, found[_keys(item, node)], node.items) for item in left)
    return all(_alike(a, b, node.items) for a, b in zip(left, right))


def _keys(item: Any, node: Node) -> tuple[str, ...]:
    return tuple(repr(item.get(key)) for key in node.keys) if isinstance(item, dict) else (repr(item),)


# --- logic ------------------------------------------------------------------------------------------------------------


def _logic(kinds: Sequence[Type]) -> Type | None:
    return BOOL if all(kind.name in ("bool", "dyn") for kind in kinds) else None


def _junction(decisive: bool) -> Callable[[Run, Run], Run]:
    """`&&` and `||`: the decisive value on either side settles it, even where the other side fails."""

    def make(left: Run, right: Run) -> Run:
        def run(scope: Scope) -> bool:
            problem: CelError | None = None
            try:
                if _truth(left(scope)) is decisive:
                    return decisive
            except CelError as raised:
                problem = raised
            if _truth(right(scope)) is decisive:
                return decisive
            if problem:
                raise problem
            return not decisive

        return run

    return make


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload")
    return value


def _not(operand: Run) -> Run:
    return lambda scope: not _truth(operand(scope))


def _choice(kinds: Sequence[Type]) -> Type | None:
    condition, yes, no = kinds
    if condition.name not in ("bool", "dyn") or not goes_with(yes, no):
        return None
    if "null_type" in (yes.name, no.name):
        return no if yes.name == "null_type" else yes
    return yes if str(yes) == str(no) else DYN


def _conditional(condition: Run, yes: Run, no: Run) -> Run:
    return lambda scope: yes(scope) if _truth(condition(scope)) else no(scope)


# --- order ------------------------------------------------------------------------------------------------------------


def _ordering(kinds: Sequence[Type]) -> Type | None:
    left, right = (kind.name for kind in kinds)
    if "dyn" in (left, right) or {left, right} <= _NUMBERS or (left == right and left in _ORDERED):
        return BOOL
    return None


def _order(holds: Callable[[Any, Any], bool]) -> Callable[..., Run]:
    def make(left: Run, right: Run, *, weigh: bool = False) -> Run:
        def run(scope: Scope) -> bool:
            a, b = left(scope), right(scope)
            if isinstance(a, bool) is not isinstance(b, bool):
                raise CelError("no such overload")
            if weigh:
                scope.cost += compared(a, b)
            try:
                return holds(a, b)
            except TypeError:
                raise CelError("no such overload") from None

        return run

    return make


def _membership(kinds: Sequence[Type]) -> Type | None:
    item, container = kinds
    if container.name == "list":
        return BOOL if goes_with(item, container.item or DYN) else None
    if container.name == "map":  # of literals, keys are not known to be text
        return BOOL if container.node is None or item.name in ("string", "dyn") else None
    return BOOL if container.name == "dyn" else None


def _in(left: Run, right: Run) -> Run:
    def run(scope: Scope) -> bool:
        item, container = left(scope), right(scope)
        if isinstance(container, dict):
            return item in container
        if not isinstance(container, list):
            raise CelError("no such overload")
        return any(equal(item, other) for other in container)

    return run


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _arithmetic(*extra: str) -> Callable[[Sequence[Type]], Type | None]:
    def result(kinds: Sequence[Type]) -> Type | None:
        names = [kind.name for kind in kinds]
        if "dyn" in names:
            return DYN
        if len(set(names)) == 1:
            if names[0] == "list" and not goes_with(*kinds):
                return None
            return kinds[0] if names[0] in _NUMBERS | set(extra) else None
        if extra and set(names) == {"timestamp", "duration"}:
            return TIMESTAMP
        return None

    return result


def _difference(kinds: Sequence[Type]) -> Type | None:
    if [kind.name for kind in kinds] == ["timestamp", "timestamp"]:
        return DURATION
    return _arithmetic("duration")(kinds)


def _calculation(apply: Callable[[Any, Any], Any]) -> Callable[..., Run]:
    def make(left: Run, right: Run, *, weigh: bool = False) -> Run:
        def run(scope: Scope) -> Any:
            a, b = left(scope), right(scope)
            if not _goes_together(a, b):
                raise CelError("no such overload")
            if weigh:
                scope.cost += tenth(len(a) + len(b))
            try:
                return _bounded(apply(a, b), a)
            except TypeError:
                raise CelError("no such overload") from None

        return run

    return make


def _goes_together(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    times = (datetime, timedelta)
    return type(a) is type(b) or (isinstance(a, times) and isinstance(b, times))


def _bounded(value: Any, like: Any) -> Any:
    if isinstance(like, UInt):
        if not 0 <= value < 2**64:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        if b == 0:
            return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
        return a / b
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise CelError("modulus by zero")
    return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))


def _modulo(kinds: Sequence[Type]) -> Type | None:
    return None if any(kind.name == "double" for kind in kinds) else _arithmetic()(kinds)


def _negation(kinds: Sequence[Type]) -> Type | None:
    return kinds[0] if kinds[0].name in ("int", "double", "dyn", "duration") else None


def _negated(operand: Run) -> Run:
    def run(scope: Scope) -> Any:
        value = operand(scope)
        if isinstance(value, bool | UInt | str | list | dict) or value is None:
            raise CelError("no such overload")
        return _bounded(-value, value)

    return run


# Operators whose cost depends on how large texts are.
SIZED, TEXTS = frozenset({"<", "<=", ">", ">=", "+"}), frozenset({"string", "bytes"})
OPERATORS: dict[str, Operator] = {
    "&&": Operator("_&&_", _logic, _junction(False)),  # noqa: FBT003 - the value that decides
    "||": Operator("_||_", _logic, _junction(True)),  # noqa: FBT003
    "not": Operator("!_", _logic, _not),
    "cond": Operator("_?_:_", _choice, _conditional),
    "<": Operator("_<_", _ordering, _order(lambda a, b: bool(a < b))),
    "<=": Operator("_<=_", _ordering, _order(lambda a, b: bool(a <= b))),
    ">": Operator("_>_", _ordering, _order(lambda a, b: bool(a > b))),
    ">=": Operator("_>=_", _ordering, _order(lambda a, b: bool(a >= b))),
    "in": Operator("@in", _membership, _in),
    "+": Operator("_+_", _arithmetic("string", "bytes", "list", "duration"), _calculation(lambda a, b: a + b)),
    "-": Operator("_-_", _difference, _calculation(lambda a, b: a - b)),
    "*": Operator("_*_", _arithmetic(), _calculation(lambda a, b: a * b)),
    "/": Operator("_/_", _arithmetic(), _calculation(_divided)),
    "%": Operator("_%_", _modulo, _calculation(_remainder)),
    "neg": Operator("-_", _negation, _negated),
}
