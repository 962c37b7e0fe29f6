"""Types of CEL, as far as a schema tells them, and the words for them in a compiler's complaints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from allaboard.schema.nodes import DEDUCED, LIST, MAP, Node


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
        return f"optional_type({self.item or DYN})" if self.name == "optional" else self.name

    def fits(self, wanted: str) -> bool:
        """Whether a value of this type may stand where the named type is asked for."""
        return "dyn" in (self.name, wanted) or self.name == wanted or (wanted == "map" and self.name == "object")


DYN, BOOL, INT, UINT, DOUBLE = Type("dyn"), Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null_type")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
_SCALARS = {"string": STRING, "boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS = {"date-time": TIMESTAMP, "date": TIMESTAMP, "datetime": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_METADATA = Node({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}})
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
        if isinstance(node.schema.get("additionalProperties"), dict) and node.values is not None:
            return Type("map", type_of(node.values), node)
        return Type("object", None, node, root or node.embedded)
    form = node.schema.get("format", "")
    return _FORMATS.get(form, STRING) if node.type == "string" else _SCALARS.get(node.type, DYN)


def field_of(of: Type, name: str) -> Type | None:
    """The type of a field of an object; None where the schema declares none. Metadata shows names alone."""
    assert of.node is not None
    if of.root and name == "metadata":
        return type_of(_METADATA)
    child = of.node.fields.get(name)
    return type_of(child) if child is not None else None


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
