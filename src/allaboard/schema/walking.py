"""The one pass over a document: unknown fields dropped, defaults filled in, every value checked.

A walk never changes what it is given: it returns the same object where nothing changed, and shares what did not.
Walks are compiled per node on first use. Custom resources are judged as apiextensions judges them (complaints are
collected); built-in kinds as Go decodes them (the first value of a wrong type makes the document malformed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allaboard.api.quantity import BadQuantity, canonical
from allaboard.schema.checks import Check, accepting, checks_of, is_plain, type_check, type_name, whole_range
from allaboard.schema.findings import DUPLICATE, INVALID, Malformed, MapKey, Path, Run, dotted, shown, steps
from allaboard.schema.gotext import Unreadable, check_base64, moment
from allaboard.schema.nodes import ANY, LIST, MAP, Node

Walk = Callable[[Any, Path, Run], Any]
_ABSENT = object()
_LARGE = 16  # fields of an item (a container, a volume) from which on walking a list again is dear


def walk_of(node: Node) -> Walk:
    """The compiled walk of a node."""
    if node.walk is None:
        makers = {MAP: _map_walk, LIST: _list_walk}
        # Set before it is complete: a schema that contains itself finds it here.
        node.walk = _later(node)
        node.walk = makers.get(node.shape, _leaf_walk)(node)
    found: Walk = node.walk
    return found


def _later(node: Node) -> Walk:
    return lambda value, path, run: node.walk(value, path, run)


def _as_is(value: Any, path: Path, run: Run) -> Any:
    return value


def _leaf_walk(node: Node) -> Walk:
    if node.builtin and not node.schema.get("pattern"):
        return _go_leaf(node)
    check_type, checks = type_check(node), checks_of(node, walk_of)
    if not checks and not check_type:
        return _as_is

    accepts, is_number = accepting(node), node.type in ("integer", "number")

    def walk(value: Any, path: Path, run: Run) -> Any:
        if accepts and accepts(value):
            return value
        if value is None and node.nullable:
            return value
        if check_type:
            check_type(value, path, run)
        if value is not None:
            for check in checks:
                check(value, path, run)
        # A whole number is printed without a point, however it was sent.
        return int(value) if is_number and type(value) is float and _is_whole(value) else value

    usual = whole_range(node)
    return walk if usual is None else _in_range(*usual, walk)


def _in_range(lowest: float, highest: float, otherwise: Walk) -> Walk:
    """Counts are in their range nearly always."""

    def walk(value: Any, path: Path, run: Run) -> Any:
        return value if type(value) is int and lowest <= value <= highest else otherwise(value, path, run)

    return walk


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < 2**53


def _go_leaf(node: Node) -> Walk:
    """A scalar of a built-in type, as Go decodes it."""
    form, kind = node.schema.get("format", ""), node.type
    if form in _READERS:
        return _read(_READERS[form] if node.name != "meta.v1.MicroTime" else _micro_moment)
    if not kind:
        return _as_is
    accepted = {"int-or-string": ("string", "integer"), "number": ("number", "integer")}.get(kind, (kind,))
    wanted = {
        "string": "string",
        "boolean": "bool",
        "number": "float64",
        "integer": form or "int64",
        "int-or-string": "int32",
    }.get(kind, kind)
    limit = 2**31 if form == "int32" else 2**63
    usual = {"string": str, "boolean": bool, "int-or-string": str}.get(kind)

    def walk(value: Any, path: Path, run: Run) -> Any:
        if type(value) is usual:
            return value
        found = type_name(value)
        if found in accepted and not (found == "integer" and not -limit <= value < limit):
            return value
        if found != "null":
            converting = f"cannot convert {_go_kind(value)} to {wanted}"
            if found == "string":
                converting = f"unrecognized type: {wanted}"
            run.malformed.append(Malformed(_go_complaint(value, path, wanted), converting, path))
        return value

    return _in_range(-limit, limit - 1, walk) if kind == "integer" else walk


def _micro_moment(text: Any) -> str:
    return moment(text, micros=True)


def _bytes(text: Any) -> Any:
    check_base64(text)
    return text


_READERS: dict[str, Callable[[Any], Any]] = {"quantity": canonical, "date-time": moment, "byte": _bytes}


NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _read(reader: Callable[[Any], Any]) -> Walk:
    """A text that Go reads as something else, and prints in its own way."""
    texts = (str,) if reader is not canonical else (str, int, float)

    def walk(value: Any, path: Path, run: Run) -> Any:
        if value is None:
            return None
        if type(value) not in texts:
            complaint = _go_complaint(value, path, "[]uint8" if reader is _bytes else "string")
            complaint = NOT_A_QUANTITY if reader is canonical else complaint
            run.malformed.append(Malformed(complaint, f"cannot convert {_go_kind(value)} to string", path))
            return value
        try:
            found = reader(value)
        except (BadQuantity, Unreadable) as problem:
            run.malformed.append(Malformed(str(problem), str(problem), path))
            return value
        return value if found == value else found

    return walk


_UIDS = ("metadata.uid", "metadata.ownerReferences.uid")  # text that Go has a type of its own for


def _go_complaint(value: Any, path: Path, wanted: str) -> str:
    """What Go says of a value that does not fit; the name of the struct is put in once it is known."""
    found = {"boolean": "bool", "integer": "number", "number": "number"}.get(type_name(value), type_name(value))
    exact = f" {value!r}" if found == "number" and wanted.startswith("int") else ""
    names = ".".join(step for step in steps(path) if isinstance(step, str) and not isinstance(step, MapKey))
    wanted = "types.UID" if names in _UIDS else wanted
    return f"json: cannot unmarshal {found}{exact} into Go struct field {{}}.{names} of type {wanted}"


def _map_walk(node: Node) -> Walk:
    if node.fields or node.values is None:
        return _struct_walk(node)
    visit, check_type, finish = _free_visit(node), type_check(node), _finish(node)

    def walk(value: Any, path: Path, run: Run) -> Any:
        if type(value) is not dict:
            return _not_a_container(node, check_type, value, path, run)
        found = visit(value, path, run)
        return finish(found, path, run) if finish else found

    return walk


def _not_a_container(node: Node, check_type: Check | None, value: Any, path: Path, run: Run) -> Any:
    if (value is None and (node.nullable or node.builtin)) or node.name == "meta.v1.FieldsV1":
        return value  # a set of fields is bytes to Go: who owns what is read from it later
    if node.builtin:
        kind = "slice" if node.shape == LIST else "struct" if node.fields else "map"
        converting = f"cannot restore {kind} from{':' if node.fields else ''} {_go_kind(value)}"
        run.malformed.append(Malformed(_go_complaint(value, path, _go_name(node)), converting, path))
    elif check_type:
        check_type(value, path, run)
    return value


def _go_kind(value: Any) -> str:
    kinds = {"integer": "int64", "number": "float64", "boolean": "bool", "object": "map", "array": "slice"}
    return kinds.get(type_name(value), type_name(value))


def _go_name(node: Node) -> str:
    """The Go type of a container: `v1.PodSpec`, `[]v1.Container`, `map[string]string`."""
    if node.name:
        return ".".join(node.name.split(".")[-2:])
    if node.shape == LIST:
        return f"[]{_go_name(node.items)}"
    if node.shape == MAP:
        inner = _go_name(node.values) if node.values else "interface {}"
        return "v1.ResourceList" if inner == "resource.Quantity" else f"map[string]{inner}"
    return "bool" if node.type == "boolean" else str(node.schema.get("format") or node.type)


class _Walks(dict[str, Walk]):
    """The walks of a struct's fields, compiled when a document first has the field."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node

    def __missing__(self, name: str) -> Walk:
        child = self.node.fields.get(name)
        if child is not None:
            self[name] = found = walk_of(child)
            return found
        if self.node.values is None:
            return _unknown
        walk = walk_of(self.node.values)
        return lambda value, path, run: walk(value, path and (path[0], MapKey(name)), run)


def _unknown(value: Any, path: Path, run: Run) -> Any:
    run.unknown.append(dotted(path))
    return _ABSENT


def _prints_null(node: Node, name: str) -> bool:
    """Whether Go prints null for an absent field of a built-in type (times that are no pointers)."""
    schema = (node.schema.get("properties") or {}).get(name, {})
    return node.builtin and "default" in schema and schema["default"] is None


def _omits(node: Node) -> frozenset[str]:
    """The fields Go leaves out when they are empty: omitempty, and no pointers."""
    found = {name for name, part in (node.schema.get("properties") or {}).items() if part.get("x-omit-empty")}
    # No entries at all is a request to forget them, and must be seen.
    return frozenset(found - {"managedFields"} if node.name == "meta.v1.ObjectMeta" else found)


def _struct_walk(node: Node) -> Walk:
    """Walk of declared fields, and of free keys beside them where a schema has both."""
    plain = {name: found for name, child in node.fields.items() if (found := is_plain(child)) is not None}
    kept = frozenset(name for name, child in node.fields.items() if child.nullable or _prints_null(node, name))
    walks, defaults = _Walks(node), _defaults_of(node)
    omitted = _omits(node)
    check_type, finish, nothing = type_check(node), _finish(node), _null_of(node, walks, defaults)

    def walk(value: Any, path: Path, run: Run) -> Any:
        if type(value) is not dict:
            return _not_a_container(node, check_type, value, path, run)
        out = value
        for name, item in value.items():
            if plain.get(name) is type(item) and (item or name not in omitted):
                continue
            if item is None and name not in kept:
                new = nothing(name, path, run)
            else:
                new = walks[name](item, (path, name), run)
            if not new and name in omitted:
                new = _ABSENT
            if new is not item:
                out = dict(value) if out is value else out
                if new is _ABSENT:
                    del out[name]
                else:
                    out[name] = new
        for name in defaults:
            if name not in out:
                out = dict(value) if out is value else out
                out[name] = defaults[name]
        return finish(out, path, run) if finish else out

    return walk


def _null_of(node: Node, walks: _Walks, defaults: dict[str, Any]) -> Callable[[str, Path, Run], Any]:
    """What becomes of a null that the schema does not allow: in what a client sent it stands for absence; in what was
    put together here (an apply that emptied a struct) it is judged, where there is no default for it."""

    def nothing(name: str, path: Path, run: Run) -> Any:
        run.nulls += 1
        child = node.child(name)
        if child is None:
            return _unknown(None, (path, name), run)
        if run.sent or node.builtin:
            return _ABSENT
        return defaults[name] if name in defaults else walk_of(child)(None, (path, name), run)

    return nothing


def _finish(node: Node) -> Walk | None:
    """What is checked of a map once its content is settled."""
    checks = checks_of(node, walk_of)
    required = () if node.builtin else tuple(node.schema.get("required") or ())
    if node.embedded and not node.schema.get("x-aboard-root"):
        required = tuple(dict.fromkeys((*required, "apiVersion", "kind")))
    if not checks and not required:
        return None

    def finish(value: dict[str, Any], path: Path, run: Run) -> dict[str, Any]:
        for name in required:
            if name not in value:
                run.missing(path, name)
        for check in checks:
            check(value, path, run)
        return value

    return finish


def _free_visit(node: Node) -> Walk:
    """Walk of a map whose keys are free: one schema for every value."""
    assert node.values is not None
    plain, walk, nullable = is_plain(node.values), walk_of(node.values), node.values.nullable
    if walk is _as_is:
        return _as_is
    drops_null, default = not nullable, node.values.schema.get("default")
    if node.builtin:
        default = _go_zero(node.values)

    def visit(value: dict[str, Any], path: Path, run: Run) -> dict[str, Any]:
        out = value
        for name, item in value.items():
            if type(item) is plain:
                continue
            if item is None:
                run.nulls += 1
            if item is None and drops_null and (run.sent or default is not None):
                new = _ABSENT if default is None else default
            else:
                new = walk(item, (path, MapKey(name)), run)
            if new is not item:
                out = dict(value) if out is value else out
                if new is _ABSENT:
                    del out[name]
                else:
                    out[name] = new
        return out

    return visit


def _go_zero(node: Node) -> Any:
    """What Go reads null as, inside a list or a map: the zero of the type; None where that prints as null."""
    if node.shape == MAP and node.fields:
        return walk_of(node)({}, None, Run())
    return {"string": "", "boolean": False, "integer": 0, "number": 0, "int-or-string": "0"}.get(node.type)


def _is_left_out(schema: dict[str, Any]) -> bool:
    """An empty default is never printed where Go leaves out what is empty."""
    return bool(schema.get("x-omit-empty")) and not schema.get("default")


def _defaults_of(node: Node) -> dict[str, Any]:
    """What absent fields become; a default that is an object has its own defaults filled in."""
    declared = node.schema.get("properties") or {}
    found = {
        name: schema["default"]
        for name, schema in declared.items()
        if (schema.get("default") is not None or _prints_null(node, name)) and not _is_left_out(schema)
    }
    return {
        name: walk_of(node.fields[name])(value, None, Run()) if isinstance(value, dict | list) else value
        for name, value in found.items()
    }


def _list_walk(node: Node) -> Walk:
    items, go = node.items, node.builtin
    plain, walk = is_plain(items), walk_of(items)
    check_type, checks = type_check(node), checks_of(node, walk_of)
    unique = None if go or node.list_type == "atomic" else _uniqueness(node)
    default = _go_zero(items) if go else None if items.nullable else items.schema.get("default")

    def visit(value: list[Any], path: Path, run: Run) -> list[Any]:
        out = value
        for index, item in enumerate(value):
            if type(item) is plain:
                continue
            new = default if item is None and default is not None else walk(item, (path, index), run)
            if new is not item:
                out = list(value) if out is value else out
                out[index] = new
        return out

    def whole(value: Any, path: Path, run: Run) -> Any:
        if type(value) is not list:
            return _not_a_container(node, check_type, value, path, run)
        found = value if walk is _as_is and items.shape == ANY else visit(value, path, run)
        for check in checks:
            check(found, path, run)
        if unique:
            unique(found, path, run)
        return found

    return _seen_last(whole) if len(items.fields) >= _LARGE else whole


def _seen_last(whole: Walk) -> Walk:
    """Pods of one template, written one after the other, hold the very same lists: one found good is walked once. So
    is what came out of it, which a hook may have handed back. Who sent it matters only where there were nulls."""
    last: tuple[Any, Any, tuple[bool, ...]] = (None, None, ())

    def walk(value: Any, path: Path, run: Run) -> Any:
        nonlocal last
        given, found, senders = last
        if (value is given or value is found) and run.sent in senders:
            return found
        remarks, nulls = run.remarks, run.nulls
        found = whole(value, path, run)
        if run.remarks == remarks:
            last = (value, found, (True, False) if run.nulls == nulls else (run.sent,))
        return found

    return walk


NO_OBJECT = "must be an object for an array of list-type map"


def _uniqueness(node: Node) -> Check:
    """No two items of a set are equal, no two items of a keyed list share their keys."""
    keys = sorted(node.keys)

    def identity(item: Any) -> Any:
        return {key: item[key] for key in keys if key in item} if keys and isinstance(item, dict) else item

    def check(value: list[Any], path: Path, run: Run) -> None:
        if _are_distinct(value, keys):
            return
        seen: set[str] = set()
        for index, item in enumerate(value):
            if keys and not isinstance(item, dict):
                # Upstream looks no further, and says nothing of a null.
                if item is not None:
                    run.add(INVALID, (path, index), f"Invalid value: {shown(item)}: {NO_OBJECT}")
                return
            text = shown(identity(item))
            if text in seen:
                run.add(DUPLICATE, (path, index), f"Duplicate value: {text}")
            seen.add(text)

    return check


def _are_distinct(items: list[Any], keys: list[str]) -> bool:
    """A quick yes for the common case; no answer at all where items lack their keys or cannot be told apart."""
    try:
        if len(keys) == 1:
            return len({item[keys[0]] for item in items}) == len(items)
        return len({tuple([item[key] for key in keys]) if keys else item for item in items}) == len(items)
    except (KeyError, TypeError):
        return False
