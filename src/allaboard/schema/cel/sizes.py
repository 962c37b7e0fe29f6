"""How large a value can be that a schema describes: the most it holds, and the fewest bytes it takes in a request.

Upstream derives both from the words of a schema (`maxItems`, `maxLength`, `maxProperties`, `required`) and, where it
says nothing, from the largest request the server reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from allaboard.schema.cel.types import STANDARD, is_exposed, is_map, unescaped
from allaboard.schema.nodes import LIST, MAP, Node

REQUEST = 3 * 1024 * 1024  # bytes of the largest request
UNBOUNDED = 2**64 - 1
_QUOTES = 2
# The longest and the shortest text of a format, quotes included where upstream includes them.
_LONGEST = {"duration": 32, "date": 12, "date-time": 32}
_SHORTEST = {"duration": 3, "date": 12, "date-time": 21}
_NUMBERS = {"boolean": 4, "integer": 1, "number": 1}


class Size(NamedTuple):
    """From how many to how many characters, items or entries."""

    least: int
    most: int

    def joined(self, other: Size) -> Size:
        """The size of either."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Size) -> Size:
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(capped(self.least * other.least), capped(self.most * other.most))


UNKNOWN = Size(0, UNBOUNDED)


def capped(number: int) -> int:
    """Sums and products stop at the largest number upstream can count to."""
    return min(number, UNBOUNDED)


def at(node: Node, path: Iterable[str], *, root: bool) -> Size | None:
    """The size of what stands at a path below the value a rule is about; None where the schema does not say.

    Steps are fields as a rule writes them, `@items`, `@values` and `@keys`.
    """
    for step in path:
        found = _below(node, step, root=root or node.embedded)
        if found is None or not is_exposed(found):
            return None
        if found is _KEY:
            return Size(0, 0)
        node, root = found, False
    return Size(0, most(node))


_KEY = Node({"type": "string"})  # upstream gives the keys of maps no length


def _below(node: Node, step: str, *, root: bool) -> Node | None:
    if step == "@keys":
        return _KEY if is_map(node) else None
    if step in ("@items", "@values"):
        return node.items if node.shape == LIST else node.values if is_map(node) else None
    if node.shape != MAP or is_map(node):
        return None
    name = unescaped(step)
    return STANDARD[name] if root and name in STANDARD else node.fields.get(name)


def most(node: Node) -> int:
    """How many characters, items or entries there can be at most; what has no length counts as nothing."""
    schema = node.schema
    if node.type == "int-or-string":
        return _told(schema.get("maxLength"), 4) if "maxLength" in schema else REQUEST - _QUOTES
    if node.shape == LIST:
        return _told(schema.get("maxItems")) if "maxItems" in schema else (REQUEST - 2) // (least(node.items) + 1)
    if is_map(node):
        assert node.values is not None
        told = schema.get("maxProperties")
        return _told(told) if told is not None else (REQUEST - 2) // (least(node.values) + 6)
    return _characters(node) if node.type == "string" else 0


def _characters(node: Node) -> int:
    schema, form = node.schema, node.schema.get("format", "")
    if form in _LONGEST:
        return _LONGEST[form]
    if schema.get("maxLength") is not None:  # a character may take four bytes
        return _told(schema["maxLength"], 1 if form == "byte" else 4)
    if schema.get("enum") and form != "byte":
        return max((len(value.encode()) for value in schema["enum"] if isinstance(value, str)), default=0)
    return REQUEST - _QUOTES


def _told(number: object, bytes_each: int = 1) -> int:
    return max(0, number) * bytes_each if isinstance(number, int) else 0


def least(node: Node) -> int:
    """The fewest bytes a value takes in JSON."""
    if node.type == "int-or-string":
        return 1
    if node.shape == LIST or is_map(node):
        return 2
    if node.shape == MAP:
        return 2 + sum(_required(node))
    return _SHORTEST.get(node.schema.get("format", ""), 2) if node.type == "string" else _NUMBERS.get(node.type, 2)


def _required(node: Node) -> Iterable[int]:
    """The bytes of each field that must be there; what has a default need not be sent."""
    for name in node.schema.get("required") or ():
        child = node.fields.get(name)
        if child is not None and is_exposed(child) and child.schema.get("default") is None:
            yield len(name.encode()) + least(child) + 4


def cardinality(node: Node) -> int:
    """How often a value like this fits into one request, at most."""
    return REQUEST // (least(node) + 1)


def below(node: Node, times: int | None) -> int | None:
    """How often each child of a node can be there, if it is there `times`; None where nothing bounds that."""
    schema = node.schema
    if times is None:
        return None
    if schema.get("type") == "array":
        told = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        told = schema.get("maxProperties")
    else:
        return times
    return None if told is None else capped(times * _told(told))
