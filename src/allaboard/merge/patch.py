"""Patches: JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as lenient as the API server is."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from allaboard.api.documents import Document
from allaboard.api.errors import ApiError, BadRequest, Invalid, TooLarge
from allaboard.merge.strategic import strategic_merge

MOST_OPERATIONS = 10_000
_OBJECT, _OPERATION = "map[string]interface {}", "handlers.jsonPatchOp"
_OPERATIONS = f"[]{_OPERATION}"
REJECTED = "the server rejected our request due to an error in our request"


class Rejected(Invalid):
    """A JSON patch that cannot be carried out: the API server does not say which operation; `why` is for others."""

    def __init__(self, why: str = "") -> None:
        super().__init__(REJECTED)
        self.why = why or REJECTED

    def status(self) -> Document:
        return ApiError.status(self) | {"details": {}}


_NAMES = {dict: "object", list: "array", str: "string", bool: "bool"}


def merge_patch(document: Document, patch: Any) -> Document:
    """RFC 7386: objects unite, null removes, everything else replaces."""
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        found = _NAMES.get(type(patch), "number")
        raise BadRequest(f"error decoding patch: json: cannot unmarshal {found} into Go value of type {_OBJECT}")
    try:
        merged: Document = _merged(document, patch)
    except RecursionError:
        raise BadRequest("the patch is nested too deeply to be read") from None
    return merged


def _merged(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    known = document if isinstance(document, dict) else {}
    out = dict(known)
    for name, item in patch.items():
        if item is None:
            out.pop(name, None)
        else:
            out[name] = _merged(known.get(name), item)
    return out


def json_patch(document: Document, operations: Any) -> Document:
    """RFC 6902, with the leniences of the API server: see `_STEPS` and `_place`."""
    if operations is None:
        return document
    if not isinstance(operations, list):
        found = _NAMES.get(type(operations), "number")
        raise BadRequest(f"error decoding patch: json: cannot unmarshal {found} into Go value of type {_OPERATIONS}")
    if len(operations) > MOST_OPERATIONS:
        raise TooLarge(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}")
    for operation in operations:
        _check_types(operation)
    patched: Any = deepcopy(document)
    for operation in operations:
        patched = _carried_out(patched, operation)
    if not isinstance(patched, dict):
        raise Rejected
    return patched


def _check_types(operation: Any) -> None:
    """An operation is read as a struct before it is carried out."""
    if operation is not None and not isinstance(operation, dict):
        found = _NAMES.get(type(operation), "number")
        raise BadRequest(f"error decoding patch: json: cannot unmarshal {found} into Go value of type {_OPERATION}")
    for field in ("op", "path", "from"):
        value = (operation or {}).get(field)
        if value is not None and not isinstance(value, str):
            found, where = _NAMES.get(type(value), "number"), f"Go struct field jsonPatchOp.{field}"
            raise BadRequest(f"error decoding patch: json: cannot unmarshal {found} into {where} of type string")


def unknown_words(operations: Any) -> list[str]:
    """What the operations of a JSON patch say beyond what one can say."""
    known = ("op", "path", "from", "value")
    return [
        f'unknown field "[{index}].{field}"'
        for index, operation in enumerate(operations if isinstance(operations, list) else ())
        if isinstance(operation, dict)
        for field in operation
        if field not in known
    ]


def _carried_out(document: Any, operation: Any) -> Any:
    name = operation.get("op") if isinstance(operation, dict) else None
    step = _STEPS.get(name) if isinstance(name, str) else None
    if step is None or not isinstance(operation.get("path"), str):
        raise Rejected(f"Unexpected kind: {name or 'unknown'}")
    try:
        return step(document, operation)
    except (KeyError, IndexError, TypeError, ValueError):
        raise Rejected(_why(document, str(name), operation["path"])) from None


def _why(document: Any, name: str, path: str) -> str:
    """Why an operation cannot be carried out, in the words of upstream's library."""
    if name == "test":
        return f"testing value {path} failed: test failed"
    try:
        _, last = _place(document, _pointer(path))
    except (KeyError, IndexError, TypeError, ValueError):
        shown = f'"{path}"' if name in ("add", "remove") else path
        return f"{name} operation does not apply: doc is missing path: {shown}: missing value"
    if name == "remove":
        return f"error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
    return f"error in {name} for path: '{path}': Unable to access invalid index: {last}: invalid index referenced"


def _pointer(text: str) -> list[str]:
    """The steps of a pointer. Upstream drops what stands before the first slash, whatever it is."""
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _place(document: Any, path: list[str]) -> tuple[Any, str]:
    """The container a path ends in, and the last step."""
    for part in path[:-1]:
        document = document[_index(document, part) if isinstance(document, list) else part]
    if not isinstance(document, dict | list):
        raise TypeError
    return document, path[-1]


def _index(items: list[Any], part: str, *, room: int = 0) -> int:
    """A position in a list; negative ones count from the end."""
    index = int(part)
    if not -len(items) - room <= index < len(items) + room:
        raise IndexError
    return index if index >= 0 else index + len(items) + room


def _read(document: Any, pointer: str) -> Any:
    if not pointer:
        return document
    place, last = _place(document, _pointer(pointer))
    return place[_index(place, last)] if isinstance(place, list) else place[last]


def _add(document: Any, operation: Document) -> Any:
    value = operation.get("value")
    if not operation["path"]:
        return value
    place, last = _place(document, _pointer(operation["path"]))
    if isinstance(place, dict):
        place[last] = value
    elif last == "-":
        place.append(value)
    else:
        place.insert(_index(place, last, room=1), value)
    return document


def _remove(document: Any, operation: Document) -> Any:
    place, last = _place(document, _pointer(operation["path"]))
    del place[_index(place, last) if isinstance(place, list) else last]
    return document


def _replace(document: Any, operation: Document) -> Any:
    value = operation.get("value")
    if not operation["path"]:
        return value
    place, last = _place(document, _pointer(operation["path"]))
    # A map key that is not there is added; a position in a list must exist.
    place[_index(place, last) if isinstance(place, list) else last] = value
    return document


def _move(document: Any, operation: Document) -> Any:
    value = _read(document, operation["from"])
    document = _remove(document, {"path": operation["from"]})
    return _add(document, {"path": operation["path"], "value": value})


def _copy(document: Any, operation: Document) -> Any:
    place, last = _place(document, _pointer(operation["from"]))
    # What is not there is copied as null.
    value = place[_index(place, last)] if isinstance(place, list) else place.get(last)
    return _add(document, {"path": operation["path"], "value": deepcopy(value)})


def _test(document: Any, operation: Document) -> Any:
    try:
        found = _read(document, operation["path"])
    except KeyError:
        found = None
    if found != operation.get("value"):
        raise ValueError
    return document


_STEPS: dict[str, Callable[[Any, Document], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}

__all__ = ["Rejected", "json_patch", "merge_patch", "strategic_merge"]
