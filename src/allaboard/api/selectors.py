"""Label and field selectors: read once into requirements, asked many times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest
from allaboard.api.names import label_value, qualified_name

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS = {"=": "=", "==": "=", "!=": "!=", "in": "in", "notin": "notin", ">": ">", "<": "<"}
_BINARY = "in, notin, =, ==, !=, gt, lt"
_WORDS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class BadSelector(BadRequest):
    """A selector nobody can read."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key: `=`, `!=`, `in`, `notin`, `exists`, `!`, `<`, `>`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch("[+-]?[0-9]+", value):
            return False
        limit = int(next(iter(self.values)))
        return int(value) > limit if self.operator == ">" else int(value) < limit

    def __str__(self) -> str:
        joined = ",".join(sorted(self.values))
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        return (
            f"{self.key} {self.operator} ({joined})" if "in" in self.operator else f"{self.key}{self.operator}{joined}"
        )


@dataclass(frozen=True, slots=True)
class Selector:
    """Every requirement must hold; none at all selects everything, and `NOTHING` selects nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    exact: dict[str, str] = field(default_factory=dict, compare=False)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        return all(requirement.matches(labels or {}) for requirement in self.requirements)

    def matches_document(self, document: Document) -> bool:
        return not self.requirements or self.matches(document.get("metadata", {}).get("labels"))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> Selector:
    """A selector in text form (`a=b,c in (x,y),!d`); raises `BadSelector` in Kubernetes' words."""
    requirements = sorted(_Parser(text).selector(), key=lambda requirement: requirement.key)
    return _selector(requirements) if requirements else EVERYTHING


def _selector(requirements: Iterable[Requirement]) -> Selector:
    found = tuple(requirements)
    exact = {r.key: next(iter(r.values)) for r in found if r.operator in ("=", "in") and len(r.values) == 1}
    return Selector(found, exact=exact)


class _Parser:
    """Reads requirements from left to right; its complaints are Kubernetes' own."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text.split("\0", 1)[0])
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def selector(self) -> Iterable[Requirement]:
        while token := self.peek():
            if not _is_word(token) and token != "!":
                raise BadSelector(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                yield self.requirement()
            except ValueError as complaint:
                raise BadSelector(f"unable to parse requirement: {complaint}") from None
            self.separator()

    def separator(self) -> None:
        found, following = self.take(), self.peek()
        if found and found != ",":
            raise BadSelector(f"found '{found}', expected: ',' or 'end of string'")
        if found and not _is_word(following) and following != "!":
            raise BadSelector(f"found '{following}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        token = self.take()
        absent = token == "!"
        key = self.take() if absent else token
        if not _is_word(key):
            raise ValueError(f"found '{key}', expected: identifier")
        _check_key(key)
        # Upstream: `!key` followed by anything but a comma is found out by whoever reads the separator.
        if absent or self.peek() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        operator = self.take()
        if operator not in _SYMBOLS:
            raise ValueError(f"found '{operator}', expected: {_BINARY}")
        values = self.values() if operator in ("in", "notin") else self.value()
        _check_values(key, operator, sorted(values))
        return Requirement(key, _SYMBOLS[operator], frozenset(values))

    def value(self) -> set[str]:
        if self.peek() in ("", ","):
            return {""}
        value = self.take()
        if not _is_word(value):
            raise ValueError(f"found '{value}', expected: identifier")
        return {value}

    def values(self) -> set[str]:
        opening = self.take()
        if opening != "(":
            raise ValueError(f"found '{opening}' expected: '('")
        if self.peek() == ")":
            self.take()
            return {""}
        if not _is_word(self.peek()) and self.peek() != ",":
            raise ValueError(f"found '{self.peek()}', expected: ',', ')' or identifier")
        found, expects_value = set(), True
        while (token := self.take()) != ")":
            if token == ",":
                found |= {""} if expects_value else set()
                expects_value = True
            elif _is_word(token) and expects_value:
                found.add(token)
                expects_value = False
            else:
                raise ValueError(f"found '{token}', expected: ',' or ')'")
        return found | {""} if expects_value else found


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in "=!(),<>"


def _check_key(key: str) -> None:
    if complaints := qualified_name(key):
        raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(complaints)}')


def _check_values(key: str, operator: str, values: list[str]) -> None:
    complaints = []
    for index, value in enumerate(values):
        if operator in "<>" and not re.fullmatch("[+-]?[0-9]{1,19}", value):
            words = "for 'Gt', 'Lt' operators, the value must be an integer"
            complaints.append(f'values[{index}]: Invalid value: "{value}": {words}')
        if found := label_value(value):
            quoted = value.replace("\\", "\\\\").replace('"', '\\"')
            complaints.append(f'values[{index}][{key}]: Invalid value: "{quoted}": {"; ".join(found)}')
    if complaints:
        raise ValueError(complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]")


def labels(text: str) -> Callable[[Mapping[str, str] | None], bool]:
    """A label selector as a question about labels."""
    return parse_labels(text).matches


def fields(text: str) -> Callable[[Document], bool]:
    """A field selector as a question about documents."""
    return parse_fields(text).matches_document


def from_document(selector: Document | None) -> Selector:
    """A selector in document form (`matchLabels`, `matchExpressions`); None selects nothing, `{}` everything."""
    if selector is None:
        return NOTHING
    exact = [Requirement(key, "=", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    return _selector([*exact, *map(_expression, selector.get("matchExpressions") or ())])


def from_map(labels: Mapping[str, str] | None) -> Selector:
    """A plain map of labels, as a Service's selector is written; an empty one selects everything."""
    return _selector(Requirement(key, "=", frozenset({value})) for key, value in (labels or {}).items())


def _expression(expression: Document) -> Requirement:
    operator = str(expression.get("operator", ""))
    if operator not in _WORDS:
        raise BadSelector(f'"{operator}" is not a valid label selector operator')
    return Requirement(expression["key"], _WORDS[operator], frozenset(expression.get("values") or ()))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms on fields of a document: (path, equal?, value)."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    @property
    def fields(self) -> list[str]:
        return [path for path, _, _ in self.terms]

    def exact(self, path: str) -> str | None:
        """The one value a path must have, if the selector says so."""
        return next((value for name, equal, value in self.terms if name == path and equal), None)

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether fields with these texts are selected; a field that is absent reads as the empty text."""
        return all((values.get(path, "") == value) is equal for path, equal, value in self.terms)

    def matches_document(self, document: Document) -> bool:
        return all((field_text(document, path) == value) is equal for path, equal, value in self.terms)

    def __str__(self) -> str:
        return ",".join(f"{path}{'=' if equal else '!='}{_escaped(value)}" for path, equal, value in self.terms)


def _escaped(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def field_text(document: Any, path: str) -> str:
    """A field as selectors compare it: text, "true"/"false", digits; the empty text where there is nothing."""
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    if document is None:
        return ""
    if isinstance(document, bool):
        return "true" if document else "false"
    return str(document)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    """A field selector (`status.phase!=Running,metadata.name=x`); `=`, `==` and `!=` only."""
    terms = []
    for part in filter(None, re.findall(r"(?:\\.|[^\\,]|\\$)+", text, re.DOTALL)):
        found = re.match(r"((?:\\.|(?!!=|=).)*?)(!=|==|=)(.*)\Z", part, re.DOTALL)
        if not found:
            raise BadSelector(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append((found[1], found[2] != "!=", _unescaped(found[3])))
    return FieldSelector(tuple(terms))


def _unescaped(value: str) -> str:
    out, escaped = [], False
    for letter in value:
        if escaped:
            if letter not in "\\,=":
                raise BadSelector(f"invalid field selector: invalid escape sequence: \\{letter}")
            escaped = False
        elif letter == "\\":
            escaped = True
            continue
        elif letter in ",=":
            raise BadSelector(f"invalid field selector: unescaped character in value: {ord(letter)}")
        out.append(letter)
    if escaped:
        raise BadSelector("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
