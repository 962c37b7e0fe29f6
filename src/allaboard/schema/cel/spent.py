"""What a step of a running expression costs, by the values it was given; the units are upstream's.

Names and selections cost the same whenever they are evaluated, so the compiler adds them up and charges them block by
block (`Compiler.block`); here is what depends on how large values are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

LIST, MAP = 10, 30  # of making one
FORMAT_PATTERN = 30  # characters of the pattern of a named format
_SIZED = (str, list, dict, bytes)
Spent = Callable[[Sequence[Any], Any], int]  # arguments and result


def size_of(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


def tenth(size: int) -> int:
    """A tenth of a unit for every character or item, rounded up."""
    return -(-size // 10)


def compared(left: Any, right: Any) -> int:
    """Two values are compared as far as the smaller one goes."""
    try:
        return -(-min(len(left), len(right)) // 10)
    except TypeError:
        return tenth(min(size_of(left), size_of(right)))


def _read(args: Sequence[Any], _: Any) -> int:
    return tenth(size_of(args[0]))


def _read_twice(args: Sequence[Any], _: Any) -> int:
    return tenth(2 * size_of(args[0]))


def _written(_: Sequence[Any], result: Any) -> int:
    return tenth(2 * size_of(result))


def _matched(args: Sequence[Any], _: Any) -> int:
    return tenth(size_of(args[0]) + 1) * -(-size_of(args[1]) // 4)


def _contains(args: Sequence[Any], _: Any) -> int:
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def _validated(args: Sequence[Any], _: Any) -> int:
    return tenth(size_of(args[1]) + 1) * -(-FORMAT_PATTERN // 4)


def _through(args: Sequence[Any], _: Any) -> int:
    return _walked(args[0])


def _walked(value: Any) -> int:
    """Every item once, texts character by character; upstream rounds down here."""
    if isinstance(value, str | bytes):
        return len(value) // 10
    if isinstance(value, dict):
        return sum(_walked(key) + _walked(each) for key, each in value.items())
    return sum(map(_walked, value)) if isinstance(value, list) else 1


def _pairs(times: int, more: int = 1) -> Spent:
    return lambda args, _: times * size_of(args[0]) * size_of(args[-1]) + more


def _made(args: Sequence[Any], result: Any) -> int:
    return size_of(result) + 1 + LIST


def _flattened(args: Sequence[Any], _: Any) -> int:
    return size_of(args[0]) + 1 + LIST


def _sorted(args: Sequence[Any], _: Any) -> int:
    return 2 * size_of(args[0]) ** 2 + 1 + LIST


def _held(more: int) -> Spent:
    """Whether a network holds an address or a network; one that comes as text is read first."""
    return lambda args, _: more + (tenth(len(args[1])) if isinstance(args[1], str) else 0)


_BY_NAME: dict[str, Spent] = {
    "contains": _contains,
    "containsIP": _held(1),
    "containsCIDR": _held(3),
    "find": _matched,
    "findAll": _matched,
    "join": _written,
    "validate": _validated,
    "sets.contains": _pairs(1),
    "sets.intersects": _pairs(1),
    "sets.equivalent": _pairs(2),
    "flatten": _flattened,
    "distinct": _sorted,
    "sort": _sorted,
    **dict.fromkeys(("slice", "reverse", "lists.range"), _made),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _read_twice),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _through),
    **dict.fromkeys(("startsWith", "endsWith", "format", "strings.quote", "url", "jsonpatch.escapeKey"), _read),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _read),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read),
}


def of_call(name: str, *, method: bool) -> Spent | None:
    """How to price a call; None where it is one step, whatever it is given."""
    if name == "matches":  # Upstream: only the method has a price of its own
        return _matched if method else None
    return _BY_NAME.get(name)
