"""Protobuf bodies, read: what typed Go clients send, turned into the document they would have sent as JSON."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from allaboard.api.documents import Document
from allaboard.schema import builtin

MAGIC = b"k8s\x00"
VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Malformed(Exception):
    """Bytes that are no message of the kind they should be."""


def read(data: bytes) -> Document:
    """The document in a protobuf body: magic, an envelope that says its kind, and the object's own message."""
    if not data.startswith(MAGIC):
        shown = " ".join(map(str, MAGIC))
        raise Malformed(f"provided data does not appear to be a protobuf message, expected prefix [{shown}]")
    version = kind = ""
    raw = b""
    for number, _, value in fields(data[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            named = {part: text for part, _, text in fields(value) if isinstance(text, bytes)}
            version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
        elif number == 2 and isinstance(value, bytes):
            raw = value
    type_name = builtin.type_of(version, kind) or _OPTIONS.get(kind)
    if type_name is None:
        raise Malformed(f'no kind "{kind}" is registered for version "{version}"')
    return {"apiVersion": version, "kind": kind, **message(raw, type_name)}


# Options are read from any group's version.
_OPTIONS = {"DeleteOptions": "meta.v1.DeleteOptions"}


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Every field of a message: its number, wire type and raw value."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == BYTES:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (WIDE, NARROW):
            size = 8 if kind == WIDE else 4
            value, at = data[at : at + size], at + size
        else:
            raise Malformed(f"proto: illegal wireType {kind}")
        if at > end:
            raise Malformed("unexpected EOF")
        yield number, kind, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise Malformed("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Malformed("proto: integer overflow")


def message(data: bytes, type_name: str) -> Document:
    """A message as a document, field by field; unknown numbers are passed over."""
    known, document = builtin.wire(type_name), dict[str, object]()
    for number, kind, value in fields(data):
        if number not in known:
            continue
        name, inner, mode = known[number]
        if mode == "inline":
            document.update(message(_bytes(value), inner))
        elif mode == "map":
            key, entry = _entry(_bytes(value), inner)
            _mapping(document, name)[key] = entry
        elif mode == "repeated":
            _sequence(document, name).extend(_items(value, kind, inner))
        else:
            document[name] = _value(value, inner)
    return document


def _mapping(document: dict[str, object], name: str) -> dict[str, object]:
    held = document.setdefault(name, {})
    return held if isinstance(held, dict) else {}


def _sequence(document: dict[str, object], name: str) -> list[object]:
    held = document.setdefault(name, [])
    return held if isinstance(held, list) else []


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("proto: wrong wireType = 0")
    return value


def _entry(data: bytes, inner: str) -> tuple[str, object]:
    key, value = "", _zero(inner)
    for number, _, raw in fields(data):
        if number == 1:
            key = _text(_bytes(raw))
        elif number == 2:
            value = _value(raw, inner)
    return key, value


def _zero(inner: str) -> object:
    if inner in _SCALARS:
        return {"string": "", "bytes": "", "bool": False}.get(inner, 0)
    return _value(b"", inner)


def _items(value: int | bytes, kind: int, inner: str) -> list[object]:
    """One item, or several numbers packed together."""
    if kind == BYTES and inner in ("bool", "int32", "int64"):
        data, at, found = _bytes(value), 0, list[object]()
        while at < len(data):
            number, at = _varint(data, at)
            found.append(_value(number, inner))
        return found
    return [_value(value, inner)]


def _value(value: int | bytes, inner: str) -> object:
    if scalar := _SCALARS.get(inner):
        return scalar(value)
    data = _bytes(value)
    if special := _SPECIAL.get(inner):
        return special(data)
    return message(data, inner)


def _text(data: int | bytes) -> str:
    try:
        return _bytes(data).decode()
    except UnicodeDecodeError as fault:
        raise Malformed("proto: invalid UTF-8 in a string") from fault


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise Malformed("proto: wrong wireType = 2")
    return value - (1 << 64) if value >= 1 << 63 else value


def _double(value: int | bytes) -> float:
    data = _bytes(value)
    if len(data) != 8:
        raise Malformed("unexpected EOF")
    number: float = struct.unpack("<d", data)[0]
    return number


_SCALARS: dict[str, Callable[[int | bytes], object]] = {
    "string": _text,
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "bool": lambda value: bool(_signed(value)),
    "int32": lambda value: (_signed(value) + (1 << 31)) % (1 << 32) - (1 << 31),
    "int64": _signed,
    "double": _double,
}


def _parts(data: bytes) -> dict[int, int | bytes]:
    return {number: value for number, _, value in fields(data)}


def _quantity(data: bytes) -> str:
    return _text(_parts(data).get(1, b""))


def _int_or_string(data: bytes) -> object:
    parts = _parts(data)
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))


def _moment(data: bytes) -> tuple[datetime, int] | None:
    parts = _parts(data)
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds), nanos
    except OverflowError as fault:
        raise Malformed(f"proto: time {seconds} is out of range") from fault


def _time(data: bytes) -> str | None:
    found = _moment(data)
    return found[0].strftime("%Y-%m-%dT%H:%M:%SZ") if found else None


def _micro_time(data: bytes) -> str | None:
    found = _moment(data)
    return f"{found[0]:%Y-%m-%dT%H:%M:%S}.{found[1] // 1000:06d}Z" if found else None


def _json(data: bytes) -> object:
    raw = _bytes(_parts(data).get(1, b""))
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, RecursionError) as fault:
        raise Malformed(f"embedded JSON: {fault}") from fault


def _schema_or_bool(data: bytes) -> object:
    parts = _parts(data)
    return message(_bytes(parts[2]), _SCHEMA) if 2 in parts else bool(parts.get(1))


def _schema_or_list(data: bytes) -> object:
    parts = _parts(data)
    if 1 in parts:
        return message(_bytes(parts[1]), _SCHEMA)
    return [message(_bytes(value), _SCHEMA) for number, _, value in fields(data) if number == 2]


def _schema_or_words(data: bytes) -> object:
    parts = _parts(data)
    if 1 in parts:
        return message(_bytes(parts[1]), _SCHEMA)
    return [_text(value) for number, _, value in fields(data) if number == 2]


_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_SPECIAL: dict[str, Callable[[bytes], object]] = {
    "api.resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": _json,
    "runtime.RawExtension": _json,
    "apiextensions.v1.JSON": _json,
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_words,
}
