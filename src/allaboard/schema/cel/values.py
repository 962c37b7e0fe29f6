"""Values of CEL that JSON does not have, and what equality and text mean for all of them."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import total_ordering
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from allaboard.api.quantity import Quantity
from allaboard.schema.cel.syntax import UInt
from allaboard.schema.findings import go_float


class CelError(Exception):
    """An expression that could not be evaluated."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent: `self.?a`, `optional.of(1)`."""

    value: Any = None
    present: bool = False


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL, or an absolute path."""

    parts: SplitResult

    @classmethod
    def parse(cls, text: str) -> Url:
        try:
            parts = urlsplit(text)
            _ = parts.port
        except ValueError as problem:
            raise ValueError(f'parse "{text}": {problem}') from None
        odd = re.search(r"\s", parts.netloc) or re.search(r"[\x00-\x1f\x7f]", text)
        if odd or (not (parts.scheme and (parts.netloc or parts.path)) and not text.startswith("/")):
            raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
        return cls(parts)

    @property
    def port(self) -> str:
        return str(self.parts.port) if self.parts.port is not None else ""

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.parts.query, keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    value: ipaddress.IPv4Address | ipaddress.IPv6Address

    @classmethod
    def parse(cls, text: str) -> Address:
        if "%" in text:
            raise ValueError(f"IP address with zone value {text!r} is not allowed")
        try:
            value = ipaddress.ip_address(text)
        except ValueError:
            raise ValueError(f'IP Address "{text}" parse error during conversion from string') from None
        if isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        return cls(value)

    @property
    def is_link_local_multicast(self) -> bool:
        network = "224.0.0.0/24" if self.value.version == 4 else "ff02::/16"
        return self.value in ipaddress.ip_network(network)

    @property
    def is_global_unicast(self) -> bool:
        value = self.value
        broadcast = value == ipaddress.ip_address("255.255.255.255")
        special = value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local
        return not broadcast and not special

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Network:
    """An address with the length of its network."""

    address: Address
    length: int

    @classmethod
    def parse(cls, text: str) -> Network:
        try:
            found = ipaddress.ip_interface(text)
        except ValueError:
            raise ValueError(f'network address parse error during conversion from string: "{text}"') from None
        if not re.search(r"/\d+$", text):
            raise ValueError(f"network address parse error during conversion from string: \"{text}\": no '/'")
        return cls(Address.parse(str(found.ip)), found.network.prefixlen)

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network(f"{self.address}/{self.length}", strict=False)

    def masked(self) -> Network:
        return Network(Address(self.network.network_address), self.length)

    def holds(self, address: Address) -> bool:
        return address.value.version == self.address.value.version and address.value in self.network

    def covers(self, other: Network) -> bool:
        return self.length <= other.length and self.holds(other.address)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


@total_ordering
@dataclass(frozen=True, slots=True)
class _Part:
    """An identifier of a pre-release: numbers come before words."""

    text: str

    def _key(self) -> tuple[int, int, str]:
        return (0, int(self.text), "") if self.text.isdigit() else (1, 0, self.text)

    def __lt__(self, other: _Part) -> bool:
        return self._key() < other._key()


_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?")


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version."""

    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        found = _SEMVER.fullmatch(text)
        if not found or any(not part or re.fullmatch(r"0\d+", part) for part in (found[4] or "x").split(".")):
            raise ValueError(f'Invalid semantic version: "{text}"')
        return cls(
            (int(found[1]), int(found[2]), int(found[3])), tuple((found[4] or "").split(".")) if found[4] else ()
        )

    @classmethod
    def loose(cls, text: str) -> Semver:
        """With a leading `v`, missing parts and leading zeros forgiven."""
        head, sign, tail = re.match(r"v?([0-9.]*)([-+]?)(.*)", text.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
        parts = [part.lstrip("0") or "0" for part in head.split(".")]
        return cls.parse(".".join([*parts, "0", "0"][: max(3, len(parts))]) + sign + tail)

    @property
    def order(self) -> tuple[tuple[int, int, int], bool, tuple[_Part, ...]]:
        return self.numbers, not self.pre, tuple(map(_Part, self.pre))


_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (UInt, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (datetime, "google.protobuf.Timestamp"),
    (timedelta, "google.protobuf.Duration"),
    (Optional, "optional_type"),
    (Quantity, "kubernetes.Quantity"),
    (Url, "kubernetes.URL"),
    (Address, "net.IP"),
    (Network, "net.CIDR"),
    (Semver, "kubernetes.Semver"),
)
_SHORT = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "optional_type": "optional",
    "kubernetes.Quantity": "Quantity",
    "kubernetes.URL": "URL",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
    "kubernetes.Semver": "Semver",
}


def type_name(value: Any) -> str:
    """What `type(x)` answers."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null_type" if value is None else "dyn")


def is_of(value: Any, wanted: str) -> bool:
    """Whether a value has the type a signature asks for."""
    name = type_name(value)
    return wanted == "dyn" or _SHORT.get(name, name) == wanted or (wanted == "Format" and callable(value))


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers compare across their types, nothing else does."""
    if left is right:
        return bool(left == left)
    # What Python tells apart is different; what it takes for equal may still be true and 1.
    if left != right:
        return False
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def text_of(value: Any) -> str:
    """What `string(x)` answers."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return _general(value) if abs(value) != float("inf") and value == value else f"{value:+}".replace("inf", "Inf")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{go_float(seconds)}s"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inside, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inside(key)}:{_inside(value[key])}" for key in sorted(value)) + "}"
    return str(value)


def _inside(value: Any) -> str:
    """A value as a part of a printed list or map: texts stand in quotes there."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else text_of(value)


def _general(value: float) -> str:
    """A number as Go prints it in general: with an exponent from a million on, or below a ten-thousandth."""
    digits, _, power = f"{value!r}".partition("e")
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return digits.removesuffix(".0") if not power else f"{value:.17f}".rstrip("0").rstrip(".")
    return next(text for text in (f"{value:.{count}e}" for count in range(17)) if float(text) == value)
