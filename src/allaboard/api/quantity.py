"""Quantities ("500m", "8Gi") as exact numbers, with Kubernetes' own spelling, and resource vectors made of them.

A quantity is a whole number of billionths: Kubernetes keeps nothing finer, and rounds a finer amount away from zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from allaboard.api.documents import Document

NANO = 10**9
# Upstream caps binary amounts here while parsing; decimal amounts have no cap.
LARGEST_BINARY = (2**63 - 1) * NANO
# An exponent beyond this names a number no machine has; it is refused before it is computed.
LARGEST_EXPONENT = 10_000

PATTERN = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_SUFFIX = "unable to parse quantity's suffix"
BAD_NUMBER = "unable to parse numeric part of quantity"

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)\Z")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_TEXT = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_TEXT = {power: suffix for suffix, power in _BINARY.items()}


class BadQuantity(ValueError):
    """The text is no quantity; the message is Kubernetes' own."""


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount, the family of suffixes it was written in, and the text it came from where that is canonical."""

    nanos: int
    format: str = "DecimalSI"
    text: str = ""

    def __str__(self) -> str:
        return self.text or spell(self.nanos, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nanos * times, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __float__(self) -> float:
        return self.nanos / NANO

    @property
    def sign(self) -> int:
        return (self.nanos > 0) - (self.nanos < 0)

    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return _away(self.nanos, NANO)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _away(self.nanos, NANO // 1000)


def compare(left: Quantity, right: Quantity) -> int:
    return (left.nanos > right.nanos) - (left.nanos < right.nanos)


def parse(value: str | int | float) -> Quantity:
    """The quantity a document's value names; raises `BadQuantity` with Kubernetes' words."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadQuantity(PATTERN)
    return _parse(value.strip() if isinstance(value, str) else repr(value))


def is_quantity(value: object) -> bool:
    """Whether a value of a document can be read as a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        parse(value)
    except BadQuantity:
        return False
    return True


def canonical(value: str | int | float) -> str:
    """The text Kubernetes stores for this value."""
    return str(parse(value))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    if text == "0":
        return Quantity(0, "DecimalSI", "0")
    found = _SHAPE.match(text)
    if not text or not found:
        raise BadQuantity(PATTERN)
    sign, whole, fraction, suffix = found[1], found[2].lstrip("0") or "0", found[3] or "", found[4]
    base, power, family = _family(suffix)
    digits = int(whole + fraction) if len(whole + fraction) < LARGEST_EXPONENT else _refuse(BAD_NUMBER)
    nanos = _nanos(digits, base, power, len(fraction))
    if base == 2:
        nanos = min(nanos, LARGEST_BINARY)
        if 0 < nanos < NANO:
            family = "DecimalSI"
    kept = text if _is_kept(whole + fraction, fraction, base, power) else ""
    return Quantity(-nanos if sign == "-" else nanos, family, kept)


def _refuse(words: str) -> int:
    raise BadQuantity(words)


def _family(suffix: str) -> tuple[int, int, str]:
    """Base, power and format a suffix stands for."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "BinarySI"
    exponent = _EXPONENT.match(suffix)
    if not exponent or abs(int(exponent[1])) > LARGEST_EXPONENT:
        raise BadQuantity(BAD_SUFFIX)
    return 10, int(exponent[1]), "DecimalExponent"


def _nanos(digits: int, base: int, power: int, places: int) -> int:
    if base == 2:
        return _away((digits << power) * NANO, 10**places)
    scale = 9 + power - places
    return digits * 10**scale if scale >= 0 else _away(digits, 10**-scale)


def _is_kept(digits: str, fraction: str, base: int, power: int) -> bool:
    """Whether the text stays as written. Upstream: quantity.go keeps what its fast path takes for canonical."""
    if base == 2:
        room = 15 - len(digits) - int(power * 0.3) - 1
        return not fraction and room >= 0 and int(digits) & 7 != 0
    scale = power - len(fraction)
    return len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _away(amount: int, unit: int) -> int:
    """The quotient, rounded away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


def spell(nanos: int, family: str) -> str:
    """The canonical text of an amount: no fraction, the largest suffix that loses nothing."""
    if not nanos:
        return "0"
    if family == "BinarySI" and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _spell_binary(nanos // NANO)
    number, power = nanos, -9
    while number % 1000 == 0:
        number //= 1000
        power += 3
    if family != "DecimalExponent" and power in _DECIMAL_TEXT:
        return f"{number}{_DECIMAL_TEXT[power]}"
    return f"{number}e{power}" if power else str(number)


def _spell_binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < 60:
        number //= 1024
        power += 10
    return f"{number}{_BINARY_TEXT[power]}" if power else str(number)


Resources = dict[str, Quantity]


def resources(document: Mapping[str, str | int | float] | None) -> Resources:
    """A document's resource list (`requests`, `limits`, `allocatable`) as a vector."""
    return {name: parse(amount) for name, amount in (document or {}).items()}


def total(vectors: Iterable[Resources]) -> Resources:
    """The sum of vectors, name by name."""
    summed: Resources = {}
    for vector in vectors:
        for name, amount in vector.items():
            summed[name] = summed[name] + amount if name in summed else amount
    return summed


def largest(vectors: Iterable[Resources]) -> Resources:
    """The largest amount of each name."""
    found: Resources = {}
    for vector in vectors:
        for name, amount in vector.items():
            if name not in found or amount > found[name]:
                found[name] = amount
    return found


def times(vector: Resources, count: int) -> Resources:
    return {name: amount * count for name, amount in vector.items()}


def resource_list(vector: Resources) -> Document:
    """A vector as a document's resource list."""
    return {name: str(amount) for name, amount in vector.items()}
