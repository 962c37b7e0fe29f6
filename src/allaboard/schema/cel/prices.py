"""The prices of functions: what a call costs at most and how large its result can be, by the sizes it is given.

Upstream: cel-go's checker for the functions of the language, Kubernetes' library for those it adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allaboard.schema.cel.sizes import UNBOUNDED, UNKNOWN, Size, capped
from allaboard.schema.cel.types import DYN, Type

LIST_COST, MAP_COST = 10, 30  # of making one
STRING, REGEX = 0.1, 0.25  # of one character read, and of one character of a pattern
FORMAT_PATTERN = 128  # characters upstream assumes for the pattern of a named format
ADDRESS = 16  # bytes of the longest address
ONE = Size(1, 1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of an expression: its cost, and what is known of the size of its value, of what it holds, and where it stands."""

    cost: int
    type: Type = DYN
    size: Size | None = None
    entry: Size | None = None  # of each item or value
    path: tuple[str, ...] = ()
    literal: object = None
    items: Size = UNKNOWN  # of each item of a list, as its schema has it


def size_of(found: Cost) -> Size:
    return UNKNOWN if found.size is None else found.size


def factor(size: int, per_unit: float) -> int:
    """A size times a price, rounded up."""
    if size > 0 and per_unit > 0 and float(size) > UNBOUNDED / per_unit:
        return UNBOUNDED
    return capped(math.ceil(float(size) * per_unit))


Price = tuple[int, Size | None]
Pricing = Callable[[Sequence[Cost]], Price]  # of the target, if there is one, and the arguments


def _read(times: float = 1, *, result: bool = False) -> Pricing:
    """As often as the first text is read through."""

    def price(args: Sequence[Cost]) -> Price:
        size = size_of(args[0])
        return factor(size.most, times * STRING), size if result else None

    return price


def _nominal(args: Sequence[Cost]) -> Price:
    return 1, None


def _second(args: Sequence[Cost]) -> Price:
    """`startsWith`: only as much is read as the other text is long."""
    return factor(size_of(args[1]).most, STRING), None


def _contains(args: Sequence[Cost]) -> Price:
    text, part = (factor(size_of(arg).most, STRING) for arg in args)
    return capped(text * part), None


def _pattern(args: Sequence[Cost]) -> int:
    text = factor(capped(size_of(args[0]).most + 1), STRING)
    return capped(text * factor(size_of(args[1]).most, REGEX))


def _matches(args: Sequence[Cost]) -> Price:
    return _pattern(args), None


def _find(args: Sequence[Cost]) -> Price:
    return _pattern(args), Size(0, size_of(args[0]).most)


def _through(args: Sequence[Cost]) -> Price:
    """`sum`, `min`, `isSorted`: every item once, texts character by character."""
    target, size = args[0], size_of(args[0]).most
    if target.type.name != "list":
        return factor(size, STRING), None
    item = target.type.item.name if target.type.item else "dyn"
    each = 1 + (factor(target.items.most, STRING) if item in ("string", "bytes") else 0)
    return capped(size * each), None


def _replace(args: Sequence[Cost]) -> Price:
    size, old, new = (size_of(arg) for arg in args[:3])
    if old.least == 0:  # every character may get the replacement beside it
        longest = capped(capped(size.most + 1) * new.most + size.most)
    elif new.most <= old.least:
        longest = size.most
    else:
        longest = capped(math.ceil(size.most / old.least) * new.most)
    if old.most == 0:
        shortest = capped((size.least + 1) * new.least + size.least)
    elif old.most <= new.least:
        shortest = size.least
    else:
        shortest = capped(math.ceil(size.least / old.most) * new.least)
    return factor(size.most, 2 * STRING), Size(shortest, longest)


def _split(args: Sequence[Cost]) -> Price:
    size, limit = size_of(args[0]), args[2].literal if len(args) > 2 else None
    most = limit % 2**64 if isinstance(limit, int) else size.most
    return factor(size.most, 2 * STRING), Size(0, most)


def _join(args: Sequence[Cost]) -> Price:
    target, count = args[0], size_of(args[0])
    size = count.times(target.items) if target.type.name == "list" else Size(0, 0)
    if len(args) > 1:
        size = size.plus(size_of(args[1]).times(Size(max(0, count.least - 1), max(0, count.most - 1))))
    return factor(size.most, STRING), size


def _address(args: Sequence[Cost], more: int = 0) -> Price:
    """Two addresses are compared; one that comes as text is read first."""
    text = args[1].type.name in ("string", "dyn")
    return factor(2 * ADDRESS, STRING) + more + (factor(size_of(args[1]).most, STRING) if text else 0), None


def _network(args: Sequence[Cost]) -> Price:
    return _address(args, factor(ADDRESS, STRING) + 1)


def _format(args: Sequence[Cost]) -> Price:
    return factor(factor(size_of(args[1]).most, STRING), FORMAT_PATTERN * REGEX), None


def _converted(texts: str, *, shrinks: bool) -> Pricing:
    """Between text and bytes; every other conversion is one step."""

    def price(args: Sequence[Cost]) -> Price:
        if args[0].type.name not in (texts, "dyn"):
            return 1, None
        size = size_of(args[0])
        result = Size(size.least // 4, size.most) if shrinks else Size(size.least, capped(size.most * 4))
        return max(1 if args[0].type.name == "dyn" else 0, factor(size.most, STRING)), result

    return price


def _quote(args: Sequence[Cost]) -> Price:
    size = size_of(args[0])
    return factor(size.most, STRING), Size(capped(size.least + 2), capped(size.most * 2 + 2))


def _sets(times: float) -> Pricing:
    def price(args: Sequence[Cost]) -> Price:
        return capped(factor(size_of(args[0]).times(size_of(args[1])).most, times) + 1), None

    return price


def _list(size: Size, times: float = 1) -> Price:
    """A new list of this size."""
    return capped(factor(size.most, times) + 1 + LIST_COST), size


def _slice(args: Sequence[Cost]) -> Price:
    start = args[1].literal if isinstance(args[1].literal, int) else 0
    end = args[2].literal if isinstance(args[2].literal, int) else size_of(args[0]).most
    length = (end - start) % 2**64
    return _list(Size(length, length))


def _range(args: Sequence[Cost]) -> Price:
    length = args[0].literal if isinstance(args[0].literal, int) else UNBOUNDED
    return _list(Size(length, length))


def _flatten(args: Sequence[Cost]) -> Price:
    depth: float = 1
    if len(args) > 1:
        depth = args[1].literal if isinstance(args[1].literal, int) else UNBOUNDED
    return _list(size_of(args[0]), depth)


def _pairs(args: Sequence[Cost]) -> Price:
    """`distinct`: every item against every other."""
    size = size_of(args[0])
    return _list(size.times(size), 2)


def _sorted(args: Sequence[Cost]) -> Price:
    target, size = args[0], size_of(args[0])
    texts = target.type.item is not None and target.type.item.name in ("string", "bytes", "dyn")
    return _list(size.times(size), 2 + STRING if texts else 2)


def _ip(args: Sequence[Cost]) -> Price:
    return (1, None) if args[0].type.name == "CIDR" else _read()(args)


PRICES: dict[str, Pricing] = {
    "startsWith": _second,
    "endsWith": _second,
    "contains": _contains,
    "find": _find,
    "findAll": _find,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "containsIP": _address,
    "containsCIDR": _network,
    "validate": _format,
    "bytes": _converted("string", shrinks=False),
    "string": _converted("bytes", shrinks=True),
    "format": _read(),
    "strings.quote": _quote,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "slice": _slice,
    "lists.range": _range,
    "flatten": _flatten,
    "distinct": _pairs,
    "sort": _sorted,
    "reverse": lambda args: _list(size_of(args[0])),
    "ip": _ip,
    "ip.isCanonical": _read(2),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _through),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _read(result=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _read(result=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read()),
}


def price_of(name: str, args: Sequence[Cost], *, method: bool) -> Price:
    """The price of a call, apart from its arguments."""
    if name == "matches":  # Upstream: only the method has a price of its own
        return _matches(args) if method else (1, None)
    return PRICES.get(name, _nominal)(args)
