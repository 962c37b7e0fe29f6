"""The string formats a schema may ask for, each a question with yes or no."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

from allaboard.api import names

_DATE_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})([.,]\d+)?([Zz]|[+-]\d{2}:?\d{2})?")
_UUID = re.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DURATION = re.compile(r"([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|0")
_LONG_DURATION = re.compile(r"(?i)\d+\s*(ns|nano|us|µs|μs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)s?")
_MAC = re.compile("([0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{4}(\\.[0-9A-Fa-f]{4}){2})")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.?[^@\s]*")
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?")


def is_date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    if not found:
        return False
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    try:
        datetime(max(year, 1), month, day, hour, minute, min(second, 59))
    except ValueError:
        return False
    return second <= 60


def is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def is_byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_duration(text: str) -> bool:
    return bool(_DURATION.fullmatch(text) or _LONG_DURATION.fullmatch(text))


def _address(version: int) -> Callable[[str], bool]:
    def is_address(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return is_address


def is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def is_uuid(text: str) -> bool:
    return bool(_UUID.fullmatch(text))


def _uuid(version: str) -> Callable[[str], bool]:
    return lambda text: is_uuid(text) and text.replace("-", "")[12] == version


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": is_date_time,
    "datetime": is_date_time,
    "date": is_date,
    "byte": is_byte,
    "duration": is_duration,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": is_cidr,
    "uri": is_uri,
    "uuid": is_uuid,
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "hostname": lambda text: len(text) <= 255 and bool(_HOST.fullmatch(text)),
    "hexcolor": lambda text: bool(re.fullmatch("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})", text)),
    "bsonobjectid": lambda text: bool(re.fullmatch("[0-9a-fA-F]{24}", text)),
    "k8s-short-name": lambda text: not names.dns_label(text),
    "k8s-long-name": lambda text: not names.dns_subdomain(text),
}
