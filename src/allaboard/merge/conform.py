"""Whether a configuration fits its schema well enough to be merged, in the words of structured-merge-diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allaboard.merge.fields import spelled
from allaboard.merge.refusals import plain
from allaboard.merge.trees import step_of
from allaboard.schema.findings import quoted
from allaboard.schema.nodes import ANY, DEDUCED, LIST, MAP, Node

_NO_KEYS = (
    "associative list with keys has an element that omits all key fields [{}] "
    "(and doesn't have default values for any key fields)"
)


def complaints(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Everything that keeps a configuration from being merged: wrong types, undeclared fields, items without a name."""
    if value is None or node is DEDUCED:
        return
    if node.shape == MAP:
        yield from _map(value, node, path)
    elif node.shape == LIST:
        yield from _list(value, node, path)
    elif node.shape != ANY and (complaint := _scalar(value, node.type)):
        yield f"{path}: {complaint}"


def _scalar(value: Any, kind: str) -> str:
    """What is wrong with a scalar, as Go prints it."""
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "int-or-string": not isinstance(value, dict | list),
    }
    if fits.get(kind, isinstance(value, int | float) and not isinstance(value, bool)):
        return ""
    if kind == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{_syntax(value)}}}"
    if kind == "boolean":
        return f"expected boolean, got &{{{plain(value)}}}"
    if kind == "int-or-string":
        return f"expected any scalar, got &{{{plain(value)}}}"
    return f"expected numeric (int or float), got {_type(value)}"


def _map(value: Any, node: Node, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{plain(value)}}}"
        return
    for name, item in value.items():
        child = node.child(name)
        if child is None:
            yield f"{path}.{name}: field not declared in schema"
            return
        if type(item) is not str or child.type != "string":
            yield from complaints(item, child, f"{path}.{name}")


def _list(value: Any, node: Node, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got &{{{plain(value)}}}"
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        step = f"i:{index}"
        if node.list_type != "atomic":
            if complaint := _unnamed(item, node):
                yield f"{path}: element {index}: {complaint}"
                return
            step = step_of(node, item)
            if step in seen:
                yield f"{path}: duplicate entries for key {spelled([step])}"
            seen.add(step)
        yield from complaints(item, node.items, path + spelled([step]))


def _unnamed(item: Any, node: Node) -> str:
    """Why an item of an associative list cannot be told from the others."""
    if node.list_type == "set":
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(key in item or key in node.key_defaults for key in node.keys):
        return ""
    return _NO_KEYS.format(" ".join(quoted(key) for key in node.keys))


def _type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "<nil>")


def _syntax(value: Any) -> str:
    """A value as Go's %#v prints it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{quoted(name)}:{_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_syntax, value)) + "}"
    if value is None:
        return "interface {}(nil)"
    return quoted(value) if isinstance(value, str) else plain(value)
