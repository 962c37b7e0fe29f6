"""What a walk over a document finds wrong: where, which rule, in which words, and how Go would print the value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from allaboard.api.errors import Cause

# A path is a chain of (parent, step); steps are field names, list indexes, and keys of free-form maps.
Path = tuple[Any, Any] | None

INVALID, REQUIRED, DUPLICATE = "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate"
UNSUPPORTED, TYPE, TOO_LONG = "FieldValueNotSupported", "FieldValueTypeInvalid", "FieldValueTooLong"
TOO_MANY, FORBIDDEN = "FieldValueTooMany", "FieldValueForbidden"
# Rules of a document are not evaluated where one of these was found. Upstream: customresource/strategy.go.
BLOCKING = frozenset({REQUIRED, UNSUPPORTED, TYPE, TOO_LONG, TOO_MANY})
NOWHERE = "<nil>"


class MapKey(str):
    """A key of a free-form map: `spec.labels.a` for the schema's own words, `spec.labels[a]` for rules and lists."""

    __slots__ = ()


@dataclass(slots=True)
class Finding:
    """One breach. `subject` is the path whose value broke the rule (the parent, where a field is missing)."""

    reason: str
    path: Path
    words: str
    subject: Path
    nowhere: bool = False

    def cause(self, prefix: str = "") -> Cause:
        where = NOWHERE if self.nowhere else ".".join(filter(None, (prefix, dotted(self.path)))) or NOWHERE
        return Cause(self.reason, where, self.words)


@dataclass(slots=True)
class Malformed:
    """A value of a built-in kind that Go cannot decode: what its JSON decoder says, and what its converter says."""

    decoding: str
    converting: str
    path: Path


@dataclass(slots=True)
class Run:
    """What one walk collects; `sent` where the document is as a client sent it, null meaning absence."""

    sent: bool = True
    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)
    nulls: int = 0  # met so far where they may stand for absence

    @property
    def remarks(self) -> int:
        """How much there was to say so far."""
        return len(self.findings) + len(self.unknown) + len(self.malformed)

    def invalid(self, path: Path, value: Any, rule: str) -> None:
        """A value out of bounds: `spec.size in body should be less than or equal to 9`."""
        self.add(INVALID, path, f"Invalid value: {shown(value)}: {dotted(path)} in body {rule}")

    def add(self, reason: str, path: Path, words: str) -> None:
        self.findings.append(Finding(reason, path, words, path))

    def missing(self, path: Path, name: str) -> None:
        self.findings.append(Finding(REQUIRED, (path, name), "Required value", path))

    def nowhere(self, path: Path, words: str) -> None:
        self.findings.append(Finding(INVALID, path, f'Invalid value: "": {words}', path, nowhere=True))

    def wrong_type(self, path: Path, wanted: str, found: str) -> None:
        name = dotted(path)
        self.add(TYPE, path, f'Invalid value: "{found}": {name} in body must be of type {wanted}: "{found}"')


def steps(path: Path) -> list[Any]:
    found = []
    while path is not None:
        path, step = path
        found.append(step)
    return found[::-1]


def dotted(path: Path) -> str:
    """The path as the schema's own complaints write it: `spec.labels.a`, `spec.list[0].b`."""
    return _joined(path, keys=False)


def bracketed(path: Path) -> str:
    """The path as rules and list checks write it: `spec.labels[a]`."""
    return _joined(path, keys=True)


def _joined(path: Path, *, keys: bool) -> str:
    text = ""
    for step in steps(path):
        if isinstance(step, int) or (keys and isinstance(step, MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """A value as an error prints it: texts quoted, numbers plain, everything else as JSON."""
    if isinstance(value, str):
        return quoted(value)
    # Past 64 bits a number is a float to whoever reads JSON in Go.
    if isinstance(value, float) or (type(value) is int and not -(2**63) <= value < 2**63):
        return go_general(float(value))
    return msgspec.json.encode(value).decode()


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """A text between quotes, as Go's %q writes it."""
    return '"' + "".join(_ESCAPES.get(letter) or _visible(letter) for letter in text) + '"'


def _visible(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_general(value: float) -> str:
    """A float as Go's %v prints it: the shortest digits, an exponent below 1e-4 and from 1e6 on."""
    digits, exponent = f"{value:.17e}".split("e")
    if value and not -4 <= int(exponent) < 6:
        shortest = next(text for places in range(17) if float(text := f"{value:.{places}e}") == value)
        digits, exponent = shortest.split("e")
        return f"{digits}e{int(exponent):+03d}"
    return str(int(value)) if value == int(value) else repr(value)


def go_float(value: float) -> str:
    """A float in plain digits, as JSON has it: the shortest ones, an exponent below 1e-4 and from 1e21 on."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e" not in text:
        if abs(value) >= 1e-4:
            return text
        text = f"{value:e}"
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent):+03d}"
