"""Kubernetes' strategic merge patch: merge keys and strategies from the schema, directives from the patch.

Directives: `$patch: replace|delete` in maps and list items, `$retainKeys`, `$setElementOrder/<list>` and
`$deleteFromPrimitiveList/<list>`. Upstream: apimachinery's strategicpatch; its words for what it refuses are ours.
"""

from __future__ import annotations

from typing import Any

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest
from allaboard.merge.refusals import Unmergeable, plain
from allaboard.schema.nodes import DEDUCED, Node

_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"
_GO = {dict: "map[string]interface {}", str: "string", bool: "bool", int: "int64"}
_NAMES = {list: "array", str: "string", bool: "bool", type(None): "null"}


def strategic_merge(document: Document, patch: Any, node: Node) -> Document:
    """The document with the patch merged into it, by the schema's merge keys."""
    if not isinstance(patch, dict):
        found = _NAMES.get(type(patch), "number")
        raise BadRequest(f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    try:
        return _merged(document, patch, node)
    except RecursionError:
        raise BadRequest("the patch is nested too deeply to be read") from None


def _merged(original: Any, patch: Document, node: Node) -> Document:
    if "$patch" in patch:
        return _directed(patch)
    out = _retained(dict(original or {}), patch)
    patch = {name: item for name, item in patch.items() if name != "$retainKeys"}
    settled = _ordered(out, patch, node)
    for name, item in patch.items():
        if name.startswith(_ORDER) or name in settled:
            continue
        if name.startswith(_DELETE):
            _forget(out, name.removeprefix(_DELETE), item)
        elif item is None:
            out.pop(name, None)
        elif name not in out or _kind(out[name]) is not _kind(item):
            _take_over(out, name, item)
        else:
            out[name] = _one(out[name], item, node.child(name) or DEDUCED)
    return out


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _directed(patch: Document) -> Document:
    directive = patch["$patch"]
    if directive == "replace":
        return {name: item for name, item in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    raise Unmergeable(f"unknown patch type: {plain(directive)} in map: {plain(patch)}")


def _one(original: Any, patch: Any, node: Node) -> Any:
    if isinstance(patch, dict):
        return patch if "replace" in node.patch_strategy else _merged(original, patch, node)
    if isinstance(patch, list):
        return _merged_list(original, patch, node) if "merge" in node.patch_strategy else patch
    return patch


def _retained(out: Document, patch: Document) -> Document:
    """`$retainKeys` names everything that may stay; what the patch sets must be among it."""
    if "$retainKeys" not in patch:
        return out
    kept = patch["$retainKeys"]
    if not isinstance(kept, list):
        raise BadRequest("invalid patch format of retainKeys")
    for name, item in patch.items():
        if item is not None and name not in kept and not name.startswith((_ORDER, _DELETE, "$retainKeys")):
            raise BadRequest("invalid patch format of retainKeys")
    return {name: item for name, item in out.items() if name in kept}


def _forget(out: Document, name: str, gone: Any) -> None:
    if isinstance(out.get(name), list) and isinstance(gone, list):
        out[name] = [item for item in out[name] if item not in gone]


def _take_over(out: Document, name: str, item: Any) -> None:
    """Take a value as a whole, where there is nothing of its kind to merge it with."""
    out.pop(name, None)
    if not _is_directive(item):
        out[name] = _plain_value(item)


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and "$patch" in value


def _plain_value(value: Any) -> Any:
    """A value without what only means something against an original: nulls and parts that are directives."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if item is not None and not _is_directive(item)}
        return {name: _plain_value(item) for name, item in kept.items()}
    if isinstance(value, list):
        return [_plain_value(item) for item in value if not _is_directive(item)]
    return value


def _ordered(out: Document, patch: Document, node: Node) -> set[str]:
    """Lists with an order of their own, settled first; the names of those that are done."""
    done: set[str] = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER):
            continue
        name = directive.removeprefix(_ORDER)
        for part in (order, out.get(name)):
            if not isinstance(part, list | None):
                raise Unmergeable(f"expected a []interface {{}}, but received a {_GO.get(type(part), 'float64')}")
        if name not in out and name not in patch:
            continue
        child, before, change = node.child(name) or DEDUCED, out.get(name), patch.get(name)
        _check_order(change or [], order, child.patch_key)
        merged = _plain_value(change) if before is None else before
        if before is not None and change is not None:
            merged = _one(before, change, child)
        out[name] = _arranged(merged or [], order, before or [], child.patch_key)
        done.add(name)
    return done


def _check_order(change: list[Any], order: list[Any], key: str) -> None:
    """What the patch changes must stand in the same order as in the list of the whole order."""
    wanted = [_mark(item, key) for item in change if not (isinstance(item, dict) and item.get("$patch") == "delete")]
    marks = iter(_mark(item, key) for item in order)
    if not all(mark in marks for mark in wanted):
        lists = f"{plain(change)}\n doesn't match $setElementOrder list:\n{plain(order)}\n"
        raise Unmergeable(f"The order in patch list:\n{lists}")


def _mark(item: Any, key: str) -> Any:
    """What tells one item from another: its merge key, or itself."""
    if not key or not isinstance(item, dict):
        return item
    if key not in item:
        raise Unmergeable(f"map: {plain(item)} does not contain declared merge key: {key}")
    return item[key]


def _merged_list(original: list[Any], patch: list[Any], node: Node) -> list[Any]:
    if not original and not patch:
        return original
    _check_alike(original, patch)
    if not any(isinstance(item, dict) for item in (*original, *patch)):
        merged = list(dict.fromkeys((*original, *patch)))
        return _arranged(merged, patch, original, "")
    if not node.patch_key:
        raise Unmergeable(f"cannot merge lists without merge key for {node.name}")
    original, patch = _without_directives(original, patch, node.patch_key)
    return _arranged(_merged_items(original, patch, node), patch, original, node.patch_key)


def _check_alike(original: list[Any], patch: list[Any]) -> None:
    """Items of one list are of one type, and none is a list itself."""
    types = {type(item) for item in (*original, *patch)}
    if list in types:
        raise Unmergeable("lists of lists are not supported")
    if len(types) > 1:
        raise Unmergeable(f"list element types are not identical: {plain([original, patch])}")


def _without_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Items that delete have deleted, an item that replaces replaces the list; what is left is to be merged."""
    kept: list[Any] = []
    replaces = False
    for item in patch:
        directive = item.get("$patch") if isinstance(item, dict) else None
        if directive is None:
            kept.append(item)
        elif directive == "delete":
            gone = _mark(item, key)
            original = [known for known in original if known.get(key) != gone]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise Unmergeable("merging lists cannot yet be specified in the patch")
        else:
            raise Unmergeable(f"unknown patch type: {plain(directive)} in map: {plain(item)}")
    return (kept, []) if replaces else (original, kept)


def _merged_items(original: list[Any], patch: list[Any], node: Node) -> list[Any]:
    out = list(original)
    for item in patch:
        mark = _mark(item, node.patch_key)
        index = next((i for i, known in enumerate(out) if known.get(node.patch_key) == mark), None)
        if index is None:
            out.append(item)
        else:
            out[index] = _merged(out[index], item, node.items)
    return out


def _arranged(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """The merged items in their order: the patch's among themselves, the server's where they stood between them."""
    ranks = [_mark(item, key) for item in order]
    places = [_mark(item, key) for item in server]
    named = sorted((item for item in merged if _mark(item, key) in ranks), key=lambda i: ranks.index(_mark(i, key)))
    others = [item for item in merged if _mark(item, key) not in ranks]
    others.sort(key=lambda i: places.index(_mark(i, key)) if _mark(i, key) in places else len(places))
    out: list[Any] = []
    while named and others:
        ours, theirs = _mark(named[0], key), _mark(others[0], key)
        known = ours in places and theirs in places
        out.append((others if known and places.index(theirs) < places.index(ours) else named).pop(0))
    return [*out, *named, *others]
