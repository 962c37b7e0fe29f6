"""Documents as the API server prints its own structs: Go's names, in Go's order, with everything that is not there."""

from __future__ import annotations

import json
from typing import Any

from allaboard.schema import builtin

ZEROS: dict[str, Any] = {"string": "", "bool": False, "number": 0, "quantity": "0", "port": 0, "bytes": None}
# Structs that travel as they are keep their JSON names, and the order of their fields.
OF_METADATA = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
ORDER = (*OF_METADATA, "matchLabels", "matchExpressions", "key", "operator", "values")
# What a field was renamed to inside of the server.
RENAMED = {"deprecatedserviceaccount": "serviceaccount"}


def printed(kind: str, document: Any) -> Any:
    """The struct of a kind (`core.PodSpec`) that holds what a document says."""
    if document is None:
        return None
    given = {name.lower(): value for name, value in document.items()} if isinstance(document, dict) else {}
    found: dict[str, Any] = {}
    for name, mode, inner in builtin.structs()[kind]:
        if inner == "meta":
            found |= _tagged(document.get("metadata") or {})
        else:
            found[name] = _value(given.get(RENAMED.get(name.lower(), name.lower())), mode, inner)
    return found


def text(value: Any, indent: int | None = None) -> str:
    """JSON as Go writes it."""
    separators = (",", ": ") if indent else (",", ":")
    plain = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _value(value: Any, mode: str, kind: str) -> Any:
    if mode == "[]":
        return None if value is None else [_value(item, "", kind) for item in value]
    if mode == "map":
        return None if value is None else {key: value[key] for key in sorted(value)}
    if value is None and (mode == "*" or kind in ("tagged", "time")):
        return None
    if kind in builtin.structs():
        return printed(kind, value or {})
    return _tagged(value) if kind == "tagged" else ZEROS.get(kind) if value is None else value


def _tagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = [name for name in ORDER if name in value]
    return {name: _tagged(value[name]) for name in (*known, *sorted(value.keys() - set(known)))}
