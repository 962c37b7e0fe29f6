"""The functions Kubernetes adds to CEL: quantities, URLs, addresses and networks, semantic versions, named formats."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from allaboard.api import names, quantity
from allaboard.schema import formats
from allaboard.schema.cel.library import FUNCTIONS, INT64, as_int, cel
from allaboard.schema.cel.values import Address, CelError, Network, Optional, Semver, Url


def _made(make: Callable[[str], Any], text: str) -> Any:
    try:
        return make(text)
    except ValueError as problem:
        raise CelError(str(problem)) from None


def _is(make: Callable[[str], Any]) -> Callable[[str], bool]:
    def can(text: str) -> bool:
        try:
            make(text)
        except ValueError:
            return False
        return True

    return can


def _constructor(name: str, kind: str, make: Callable[[str], Any], question: str) -> None:
    cel(f"{name}(string) {kind}")(lambda text: _made(make, text))
    cel(f"{question}(string) bool")(_is(make))


def _methods(kind: str, table: dict[str, Callable[..., Any]]) -> None:
    for signature, run in table.items():
        cel(f"{kind}:{signature}")(run)


_constructor("quantity", "Quantity", quantity.parse, "isQuantity")
_constructor("url", "URL", Url.parse, "isURL")
_constructor("ip", "IP", Address.parse, "isIP")
_constructor("cidr", "CIDR", Network.parse, "isCIDR")
_constructor("semver", "Semver", Semver.parse, "isSemver")
cel("semver(string,bool) Semver")(lambda text, loose: _made(Semver.loose if loose else Semver.parse, text))
cel("isSemver(string,bool) bool")(lambda text, loose: _is(Semver.loose if loose else Semver.parse)(text))
cel("ip.isCanonical(string) bool")(lambda text: str(_made(ipaddress.ip_address, text)) == text)


def _quantity(value: Any) -> quantity.Quantity:
    return value if isinstance(value, quantity.Quantity) else quantity.Quantity(value * quantity.NANO)


def _whole(value: quantity.Quantity) -> int:
    if value.nanos % quantity.NANO:
        raise CelError("cannot convert value to integer")
    return as_int(value.nanos // quantity.NANO, "cannot convert value to integer")


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


_methods(
    "Quantity",
    {
        "isInteger() bool": lambda q: q.nanos % quantity.NANO == 0 and abs(q.nanos) < INT64 * quantity.NANO,
        "asInteger() int": _whole,
        "asApproximateFloat() double": float,
        "add(Quantity) Quantity": lambda q, other: q + other,
        "add(int) Quantity": lambda q, other: q + _quantity(other),
        "sub(Quantity) Quantity": lambda q, other: q - other,
        "sub(int) Quantity": lambda q, other: q - _quantity(other),
        "isLessThan(Quantity) bool": lambda q, other: q < other,
        "isGreaterThan(Quantity) bool": lambda q, other: q > other,
        "compareTo(Quantity) int": _compare,
    },
)
cel("sign(Quantity) int")(lambda q: q.sign)
_methods(
    "Semver",
    {
        "major() int": lambda v: v.numbers[0],
        "minor() int": lambda v: v.numbers[1],
        "patch() int": lambda v: v.numbers[2],
        "isLessThan(Semver) bool": lambda v, other: v.order < other.order,
        "isGreaterThan(Semver) bool": lambda v, other: v.order > other.order,
        "compareTo(Semver) int": lambda v, other: _compare(v.order, other.order),
    },
)
_methods(
    "URL",
    {
        "getScheme() string": lambda u: u.parts.scheme,
        "getHost() string": lambda u: u.parts.netloc.rpartition("@")[2],
        "getHostname() string": lambda u: (u.parts.hostname or "").strip("[]"),
        "getPort() string": lambda u: u.port,
        "getEscapedPath() string": lambda u: quote(u.parts.path, safe="/%:@!$&'()*+,;=~-._"),
        "getQuery() map": lambda u: u.query,
    },
)
_methods(
    "IP",
    {
        "family() int": lambda a: a.value.version,
        "isUnspecified() bool": lambda a: a.value.is_unspecified,
        "isLoopback() bool": lambda a: a.value.is_loopback,
        "isLinkLocalMulticast() bool": lambda a: a.value.is_multicast and a.is_link_local_multicast,
        "isLinkLocalUnicast() bool": lambda a: a.value.is_link_local,
        "isGlobalUnicast() bool": lambda a: a.is_global_unicast,
    },
)
_methods(
    "CIDR",
    {
        "containsIP(string) bool": lambda n, text: n.holds(_made(Address.parse, text)),
        "containsIP(IP) bool": lambda n, address: n.holds(address),
        "containsCIDR(string) bool": lambda n, text: n.covers(_made(Network.parse, text)),
        "containsCIDR(CIDR) bool": lambda n, other: n.covers(other),
        "ip() IP": lambda n: n.address,
        "masked() CIDR": lambda n: n.masked(),
        "prefixLength() int": lambda n: n.length,
    },
)

Judge = Callable[[str], Iterable[str]]


def _format_rule(name: str) -> Judge:
    words = {"uuid": "does not match the UUID format", "byte": "invalid base64"}

    def judge(text: str) -> list[str]:
        if formats.FORMATS[name](text):
            return []
        return [f'parse "{text}": invalid URI for request' if name == "uri" else words.get(name, f"invalid {name}")]

    return judge


NAMED_FORMATS: dict[str, Judge] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": lambda text: names.dns_label(text.removesuffix("-") + ("a" if text.endswith("-") else "")),
    "dns1123SubdomainPrefix": lambda t: names.dns_subdomain(t.removesuffix("-") + ("a" if t.endswith("-") else "")),
    "dns1035LabelPrefix": lambda text: names.dns_1035_label(
        text.removesuffix("-") + ("a" if text.endswith("-") else "")
    ),
    "labelValue": names.label_value,
    "uri": _format_rule("uri"),
    "uuid": _format_rule("uuid"),
    "byte": _format_rule("byte"),
    "date": _format_rule("date"),
    "datetime": _format_rule("datetime"),
}


def _validated(judge: Judge, text: str) -> Optional:
    found = list(judge(text))
    return Optional(found, present=True) if found else Optional()


for _name, _judge in NAMED_FORMATS.items():
    cel(f"format.{_name}() Format")(lambda judge=_judge: judge)
cel("Format:validate(string) optional")(_validated)


@cel("format.named(string) optional")
def named_format(name: str) -> Optional:
    return Optional(NAMED_FORMATS[name], present=True) if name in NAMED_FORMATS else Optional()


__all__ = ["FUNCTIONS"]
