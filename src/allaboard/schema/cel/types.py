"""Types of CEL, as far as a schema tells them, and the words for them in a compiler's complaints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from allaboard.schema.nodes import DEDUCED, LIST, MAP, Node
from allaboard.schema.nodes import STRING as TEXT


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its name, what it holds, and the node of the schema it came from (objects are known by theirs)."""

    name: str
    item: Type | None = None
    node: Node | None = None
    root: bool = False

    def __str__(self) -> str:
        if self.name == "list":
            return f"list({self.item or DYN})"
        if self.name == "map":
            return f"map(string, {self.item or DYN})"
        if self.name == "optional":
            return f"optional_type({self.item or DYN})"
        if self.name == "type":
            return f"type({self.item or DYN})"
        return _LONG.get(self.name, self.name)

    def fits(self, wanted: str) -> bool:
        """Whether a value of this type may stand where the named type is asked for."""
        return "dyn" in (self.name, wanted) or self.name == wanted


# How a compiler calls them.
_LONG = {"null_type": "null", "IP": "net.IP", "CIDR": "net.CIDR", "Format": "kubernetes.NamedFormat"}
_LONG |= {name: f"kubernetes.{name}" for name in ("Quantity", "URL", "Semver")}
DYN, BOOL, INT, UINT, DOUBLE = Type("dyn"), Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null_type")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
_SCALARS = {"string": STRING, "boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS = {"date-time": TIMESTAMP, "date": TIMESTAMP, "datetime": TIMESTAMP, "duration": DURATION, "byte": BYTES}
METADATA = Node({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}})
_KEYWORDS = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
    }
    | {"loop", "package", "namespace", "return", "var", "void", "while"}
)


def type_of(node: Node, *, root: bool = False) -> Type:
    """The type of the values a node describes."""
    if node is DEDUCED or node.type in ("", "int-or-string"):
        return Type("object", None, node, root) if node.shape == MAP else DYN
    if node.shape == LIST:
        return Type("list", type_of(node.items), node)
    if node.shape == MAP:
        if is_map(node) and node.values is not None:
            return Type("map", type_of(node.values), node)
        return Type("object", None, node, root or node.embedded)
    form = node.schema.get("format", "")
    return _FORMATS.get(form, STRING) if node.type == "string" else _SCALARS.get(node.type, DYN)


# Of every object, whatever its schema says. Metadata shows names alone.
STANDARD = {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA}


def field_of(of: Type, name: str) -> Type | None:
    """The type of a field of an object; None where the schema declares none, or none with a type."""
    assert of.node is not None
    child = STANDARD.get(name) if of.root else None
    child = child or of.node.fields.get(name)
    return type_of(child) if child is not None and is_exposed(child) else None


def is_exposed(node: Node) -> bool:
    """Whether rules see it at all: what has no type they do not."""
    if node.type == "int-or-string":
        return True
    if node.shape == LIST:
        return bool(node.type) and is_exposed(node.items)
    if is_map(node):
        return node.values is not None and is_exposed(node.values)
    return bool(node.type)


def is_map(node: Node) -> bool:
    """Whether it holds values of one kind under keys of any name."""
    return node.shape == MAP and isinstance(node.schema.get("additionalProperties"), dict)


# What a null may be compared with and stand for. Upstream: cel-go, isAssignableNull.
_NULLABLE = frozenset({"object", "optional", "timestamp", "duration", "null_type"})


def goes_with(one: Type, other: Type) -> bool:
    """Whether two values may be of one type."""
    if "dyn" in (one.name, other.name):
        return True
    if "null_type" in (one.name, other.name):
        return {one.name, other.name} - {"null_type"} <= _NULLABLE
    if one.name != other.name:
        return False
    if one.name == "object":
        return one.node is other.node
    return goes_with(one.item or DYN, other.item or DYN) if one.item or other.item else True


def unescaped(name: str) -> str:
    """The field a name in a rule stands for: `__namespace__` is `namespace`, `a__dash__b` is `a-b`."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    if "__" not in name:
        return name
    signs = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
    return re.sub("__(underscores|dot|dash|slash)__", lambda found: signs[found[1]], name)


def type_of_value(value: Any) -> Type:
    """The type of a constant."""
    names = {bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
    return names.get(type(value), UINT)
