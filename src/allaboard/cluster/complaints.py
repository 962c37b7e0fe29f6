"""The words for a broken field, exactly as the API server says them; each gives a `Cause`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from allaboard.api.errors import Cause
from allaboard.schema import gostructs


class _Omitted:
    """Stands for a bad value that is not shown."""


class Ordered:
    """A bad value whose fields are shown in the order in which they stand, as Go shows a struct's."""

    def __init__(self, value: object) -> None:
        self.value = value


OMITTED = _Omitted()
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"


def struct(kind: str, document: object) -> Ordered:
    """A bad value as the struct (`core.PodSpec`) which the server keeps it in."""
    return Ordered(gostructs.printed(kind, document))


def shown(value: object) -> str:
    """A bad value as the message quotes it: JSON, whose strings are quoted as Go quotes them."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Ordered):
        return gostructs.text(value.value)
    return msgspec.json.encode(value, order="sorted").decode()


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode().replace("\x7f", "\\x7f")


def invalid(field: str, value: object, why: str) -> Cause:
    value_part = "" if isinstance(value, _Omitted) else f": {shown(value)}"
    return Cause(
        "FieldValueInvalid", field, f"Invalid value{value_part}: {why}" if why else f"Invalid value{value_part}"
    )


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {why}")


def not_supported(field: str, value: object, choices: Iterable[str]) -> Cause:
    listed = ", ".join(quoted(choice) for choice in choices)
    tail = f": supported values: {listed}" if listed else ""
    return Cause("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}{tail}")


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def not_found(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", field, f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} {items}")


def all_invalid(field: str, value: object, complaints: Sequence[str]) -> list[Cause]:
    """One cause for each complaint about the same value."""
    return [invalid(field, value, why) for why in complaints] if complaints else []


def immutable(field: str, new: object, old: object) -> list[Cause]:
    return [] if same(new, old) else [invalid(field, new, IMMUTABLE)]


def not_negative(field: str, value: object) -> list[Cause]:
    return [invalid(field, value, NEGATIVE)] if isinstance(value, int) and value < 0 else []


def same(new: object, old: object) -> bool:
    """Equal, where absent and empty say the same thing."""
    return new == old or (new in EMPTY and old in EMPTY)


EMPTY: tuple[object, ...] = (None, "", 0, False, {}, [])
