"""The facts of the built-in kinds, generated: `schema("core.v1.Pod")`, `wire("core.v1.Pod")`, `resources()`.

A schema is OpenAPI without prose. Differences from a CRD's schema that its reader must know:

* a reference is `{"$ref": "core.v1.Container"}`, possibly with siblings (`default`, list and patch keywords);
* `default` is what Go prints for an absent field ({}, "", 0, false, null for values that are not pointers) or a real
  default ("TCP"); both are filled in on every write;
* `x-omit-empty` marks a field that Go leaves out when it is "", 0, false or holds nothing;
* `required` is not enforced by type: the kind's own validation words the error;
* `meta.v1.Time` and `MicroTime` are strings with format date-time; `api.resource.Quantity` and
  `util.intstr.IntOrString` are `x-kubernetes-int-or-string` with format "quantity" or "int-or-string".
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_FOLDER = Path(__file__).parent

# A field on the wire: its JSON name, the name of its type (a scalar of proto or a type of ours), and how it repeats.
WireField = tuple[str, str, str]


@cache
def _package(name: str) -> dict[str, Any]:
    path = _FOLDER / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}


def schema(type_name: str) -> dict[str, Any]:
    """The schema of one type, references left as they are; KeyError where there is no such type."""
    package, _, name = type_name.rpartition(".")
    found: dict[str, Any] = _package(package)[name]
    return found


@cache
def wire(type_name: str) -> dict[int, WireField]:
    """Protobuf field number -> (JSON name, type, mode); mode is "", "repeated", "map" or "inline"."""
    package, _, name = type_name.rpartition(".")
    fields: dict[str, list[str]] = _package(f"{package}.wire")[name]
    return {int(number): (field[0], field[1], field[2]) for number, field in fields.items()}


@cache
def resources() -> tuple[dict[str, Any], ...]:
    """What discovery says of every built-in resource: group, version, kind, plural, verbs, subresources …"""
    return tuple(msgspec.json.decode((_FOLDER / "resources.json").read_bytes(), type=list[dict[str, Any]]))


@cache
def shown() -> dict[str, dict[str, Any]]:
    """What only documents say of a type: of each field the words it may hold, of the type itself its unions."""
    return msgspec.json.decode((_FOLDER / "shown.json").read_bytes(), type=dict[str, dict[str, Any]])


@cache
def structs() -> dict[str, list[tuple[str, str, str]]]:
    """The server's own structs: type -> (Go name, mode, type) of each field; mode is "", "*", "[]" or "map"."""
    kind = dict[str, list[tuple[str, str, str]]]
    return msgspec.json.decode((_FOLDER / "structs.json").read_bytes(), type=kind)


@cache
def _by_kind() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    packages = sorted(path.stem for path in _FOLDER.glob("*.json") if not path.stem.endswith(".wire"))
    for package in packages:
        members = _package(package) if package not in ("resources", "shown", "structs") else {}
        for name, content in members.items():
            for gvk in content.get("x-kubernetes-group-version-kind", ()):
                api_version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
                found[api_version, gvk["kind"]] = f"{package}.{name}"
    return found


def type_of(api_version: str, kind: str) -> str | None:
    """The type that describes a kind, `core.v1.Pod` for ("v1", "Pod"); None where the kind is not built in."""
    return _by_kind().get((api_version, kind))


_LONG = {
    "meta.v1.": "io.k8s.apimachinery.pkg.apis.",
    "api.resource.": "io.k8s.apimachinery.pkg.",
    "util.intstr.": "io.k8s.apimachinery.pkg.",
    "runtime.": "io.k8s.apimachinery.pkg.",
    "apiextensions.v1.": "io.k8s.apiextensions-apiserver.pkg.apis.",
}


def long_name(type_name: str) -> str:
    """The name OpenAPI documents use: `io.k8s.api.core.v1.Pod`."""
    prefix = next((long for start, long in _LONG.items() if type_name.startswith(start)), "io.k8s.api.")
    return prefix + type_name
