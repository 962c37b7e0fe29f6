"""The functions of CEL: the standard ones, the string and list extensions, and the libraries Kubernetes adds.

Each is registered by its signature: `string:contains(string) bool` is a method of strings, `sets.contains(list,list)
bool` and `size(dyn) int` stand alone. A result `item` is the element of the target list, `same` the target's own type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from allaboard.schema import formats
from allaboard.schema.cel.syntax import UInt
from allaboard.schema.cel.values import CelError, Optional, equal, text_of, type_name
from allaboard.schema.patterns import compiled


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function: what it takes (the target first, for a method), what it gives, and how."""

    method: bool
    params: tuple[str, ...]
    result: str
    run: Callable[..., Any]


FUNCTIONS: dict[str, list[Overload]] = {}
_SIGNATURE = re.compile(r"(?:(\w+):)?([\w.]+)\(([\w,]*)\) (\w+)")


def cel(*signatures: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its signatures."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        for signature in signatures:
            found = _SIGNATURE.fullmatch(signature)
            assert found, signature
            target, name, params, result = found.groups()
            taken = tuple(filter(None, (target, *params.split(","))))
            FUNCTIONS.setdefault(name, []).append(Overload(target is not None, taken, result, run))
        return run

    return register


INT64 = 2**63


def as_int(value: float, words: str = "integer overflow") -> int:
    if not -INT64 <= value < INT64:
        raise CelError(words)
    return int(value)


# --- standard ---------------------------------------------------------------------------------------------------------


@cel("string:size() int", "list:size() int", "map:size() int", "bytes:size() int")
@cel("size(string) int", "size(list) int", "size(map) int", "size(bytes) int")
def size(value: Any) -> int:
    return len(value)


@cel("string:contains(string) bool")
def contains(text: str, part: str) -> bool:
    return part in text


@cel("string:startsWith(string) bool")
def starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


@cel("string:endsWith(string) bool")
def ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@cel("string:matches(string) bool", "matches(string,string) bool")
def matches(text: str, pattern: str) -> bool:
    return bool(_regex(pattern).search(text))


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except re.error as problem:
        raise CelError(f"error parsing regexp: {problem}") from None


@cel("int(dyn) int")
def to_int(value: Any) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, str):
        if not re.fullmatch("[+-]?[0-9]+", value):
            raise _no_conversion("int")
        return as_int(int(value), str(_no_conversion("int")))
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1e9)
    return as_int(_numeric(value))


def _numeric(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError("no such overload")
    return value


def _no_conversion(wanted: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{wanted}'")


@cel(*(f"uint({kind}) uint" for kind in ("uint", "int", "double", "string")))
def to_uint(value: Any) -> int:
    if isinstance(value, str) and not value.isdecimal():
        raise _no_conversion("uint")
    number = int(value) if isinstance(value, str) else _numeric(value)
    if not 0 <= number < 2**64:
        raise CelError("unsigned integer overflow")
    return UInt(number)


@cel(*(f"double({kind}) double" for kind in ("double", "int", "uint", "string")))
def to_double(value: Any) -> float:
    if not isinstance(value, str):
        return float(_numeric(value))
    try:
        return float(value)
    except ValueError:
        raise _no_conversion("double") from None


_PRINTED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration", "IP", "CIDR")


@cel(*(f"string({kind}) string" for kind in _PRINTED))
def to_string(value: Any) -> str:
    return text_of(value)


@cel("bytes(bytes) bytes", "bytes(string) bytes")
def to_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


@cel("bool(bool) bool", "bool(string) bool")
def to_bool(value: Any) -> bool:
    known = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    text = value.lower() if isinstance(value, str) else value
    if isinstance(value, bool):
        return value
    if text not in known:
        raise _no_conversion("bool")
    return known[text]


@cel("dyn(dyn) dyn")
def to_dyn(value: Any) -> Any:
    return value


@cel("type(dyn) type")
def to_type(value: Any) -> str:
    return type_name(value)


@cel(*(f"timestamp({kind}) timestamp" for kind in ("timestamp", "string", "int")))
def to_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str) and formats.is_date(value):
        return datetime.fromisoformat(f"{value}T00:00:00+00:00")
    if not isinstance(value, str) or not formats.is_date_time(value):
        raise CelError(f'parsing time "{value}": cannot parse')
    return datetime.fromisoformat(value.replace("Z", "+00:00"))


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@cel(*(f"duration({kind}) duration" for kind in ("duration", "string", "int")))
def to_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns))+)", value):
        raise CelError(f'time: invalid duration "{value}"')
    parts = re.findall(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)", value)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return timedelta(seconds=-seconds if value.startswith("-") else seconds)


# --- strings ----------------------------------------------------------------------------------------------------------


@cel("string:charAt(int) string")
def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@cel("string:indexOf(string) int", "string:indexOf(string,int) int")
def index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


@cel("string:lastIndexOf(string) int", "string:lastIndexOf(string,int) int")
def last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is not None and not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    return text.rfind(part) if end is None else text.rfind(part, 0, end + len(part))


@cel("string:lowerAscii() string")
def lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


@cel("string:upperAscii() string")
def upper(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


@cel("string:replace(string,string) string", "string:replace(string,string,int) string")
def replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


@cel("string:split(string) list", "string:split(string,int) list")
def split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    parts = text.split(separator) if separator else list(text)
    if count < 0 or len(parts) <= count:
        return parts
    return text.split(separator, count - 1) if separator else [*parts[: count - 1], "".join(parts[count - 1 :])]


@cel("string:substring(int) string", "string:substring(int,int) string")
def substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


@cel("string:trim() string")
def trim(text: str) -> str:
    return text.strip()


@cel("list:reverse() same")
def reverse(items: list[Any]) -> list[Any]:
    return items[::-1]


@cel("list:join() string", "list:join(string) string")
def join(parts: list[str], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise CelError("no such overload")
    return separator.join(parts)


@cel("strings.quote(string) string")
def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


_CLAUSE = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")


@cel("string:format(list) string")
def format_text(text: str, values: list[Any]) -> str:
    rest = iter(values)

    def one(clause: re.Match[str]) -> str:
        if clause[2] == "%":
            return "%"
        try:
            return _formatted(next(rest), clause[2], clause[1])
        except StopIteration:
            raise CelError(f"index {len(values)} out of range") from None

    return _CLAUSE.sub(one, text)


def _formatted(value: Any, verb: str, precision: str | None) -> str:
    if verb == "s":
        return text_of(value)
    if verb == "d" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if verb in "fe" and isinstance(value, int | float):
        return _raised(f"{value:.{precision or 6}{verb}}")
    if verb in "bxXo" and isinstance(value, int):
        return f"{int(value):{verb}}"
    if verb in "xX" and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "+")


def _raised(number: str) -> str:
    """A number with its exponent written as a power of ten."""
    digits, mark, power = number.partition("e")
    return f"{digits}×10{power.translate(_SUPERSCRIPT)}" if mark else digits


@cel("string:find(string) string")
def find(text: str, pattern: str) -> str:
    found = _regex(pattern).search(text)
    return found[0] if found else ""


@cel("string:findAll(string) list", "string:findAll(string,int) list")
def find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    found = [match[0] for match in _regex(pattern).finditer(text)]
    return found if count < 0 else found[:count]


# --- lists and sets ---------------------------------------------------------------------------------------------------


@cel("list:isSorted() bool")
def is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


@cel("list:sum() item")
def total(items: list[Any]) -> Any:
    if items and isinstance(items[0], timedelta):
        return sum(items, timedelta())
    found = sum(items)
    return as_int(found) if isinstance(found, int) else found


@cel("list:min() item")
def smallest(items: list[Any]) -> Any:
    if not items:
        raise CelError("min called on empty list")
    return min(items)


@cel("list:max() item")
def largest(items: list[Any]) -> Any:
    if not items:
        raise CelError("max called on empty list")
    return max(items)


@cel("list:indexOf(dyn) int")
def item_index(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


@cel("list:lastIndexOf(dyn) int")
def last_item_index(items: list[Any], wanted: Any) -> int:
    return max((index for index, item in enumerate(items) if equal(item, wanted)), default=-1)


@cel("list:slice(int,int) same")
def slice_of(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@cel("list:flatten() list", "list:flatten(int) list")
def flatten(items: list[Any], depth: int = 1) -> list[Any]:
    out: list[Any] = []
    for item in items:
        out.extend(flatten(item, depth - 1) if isinstance(item, list) and depth > 0 else [item])
    return out


@cel("list:distinct() same")
def distinct(items: list[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item_index(items, item) == index]


@cel("list:sort() same")
def sort(items: list[Any]) -> list[Any]:
    return sorted(items)


@cel("lists.range(int) list")
def numbers(count: int) -> list[int]:
    if count > 10_000_000:
        raise CelError("range limit exceeded")
    return list(range(count))


@cel("sets.contains(list,list) bool")
def set_contains(items: list[Any], part: list[Any]) -> bool:
    return all(any(equal(item, wanted) for item in items) for wanted in part)


@cel("sets.equivalent(list,list) bool")
def set_equivalent(left: list[Any], right: list[Any]) -> bool:
    return bool(set_contains(left, right)) and bool(set_contains(right, left))


@cel("sets.intersects(list,list) bool")
def set_intersects(left: list[Any], right: list[Any]) -> bool:
    return any(equal(item, other) for item in left for other in right)


# --- optional values --------------------------------------------------------------------------------------------------


@cel("optional.of(dyn) optional")
def optional_of(value: Any) -> Optional:
    return Optional(value, present=True)


@cel("optional.none() optional")
def optional_none() -> Optional:
    return Optional()


@cel("optional.ofNonZeroValue(dyn) optional")
def optional_non_zero(value: Any) -> Optional:
    return Optional(value, present=True) if value else Optional()


@cel("optional:hasValue() bool")
def has_value(value: Optional) -> bool:
    return value.present


@cel("optional:value() dyn")
def value_of(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


@cel("optional:orValue(dyn) dyn")
def or_value(value: Optional, other: Any) -> Any:
    return value.value if value.present else other


@cel("optional:or(optional) optional")
def or_optional(value: Optional, other: Optional) -> Optional:
    return value if value.present else other


@cel("list:first() optional_item")
def first_of(items: list[Any]) -> Optional:
    return Optional(items[0], present=True) if items else Optional()


@cel("list:last() optional_item")
def last_of(items: list[Any]) -> Optional:
    return Optional(items[-1], present=True) if items else Optional()


@cel("optional.unwrap(list) list", "list:unwrapOpt() list")
def unwrapped(items: list[Any]) -> list[Any]:
    return [item.value for item in items if isinstance(item, Optional) and item.present]
