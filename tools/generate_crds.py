"""Expands the CRD sources in src/allaboard/api/crds/*.yaml into the *.json a cluster is given.

Usage: python tools/generate_crds.py [--check]

A source is a CRD without what can be said once: `{$builtin: core.v1.PodTemplateSpec}` stands for Kubernetes' own type,
written out as a structural schema, and `{$fragment: condition}` for an entry of fragments.yaml. Keywords beside a
reference are laid over it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from allaboard.schema import builtin

FOLDER = Path(__file__).parent.parent / "src" / "allaboard" / "api" / "crds"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
# Of an embedded object's metadata a CRD keeps only what a template may set.
TEMPLATE_METADATA = {
    "type": "object",
    "properties": {
        "annotations": STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
SCALARS = {
    "api.resource.Quantity": INT_OR_STRING | {"pattern": QUANTITY},
    "util.intstr.IntOrString": INT_OR_STRING,
    "meta.v1.Time": {"type": "string", "format": "date-time"},
    "meta.v1.ObjectMeta": TEMPLATE_METADATA,
}
# Upstream's CRDs differ from the OpenAPI documents in two ways that server-side apply can see: defaults that are Go
# constants are not written, and a struct that embeds LocalObjectReference inherits its being atomic.
UNSTATED_DEFAULTS = {"core.v1.AzureDiskVolumeSource": ("cachingMode", "kind")}
DROPPED = {
    "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-group-version-kind", "$ref",
    "x-null", "x-omit-empty",
}  # fmt: skip
Json = dict[str, Any]


def main() -> None:
    expected = {path.stem + ".json": render(expand_file(path)) for path in sources()}
    if "--check" in sys.argv:
        stale = [name for name, text in expected.items() if (FOLDER / name).read_text() != text]
        sys.exit(f"not fresh: {', '.join(stale)}; run python tools/generate_crds.py" if stale else 0)
    for name, text in expected.items():
        (FOLDER / name).write_text(text)


def sources() -> list[Path]:
    return sorted(path for path in FOLDER.glob("*.yaml") if path.stem != "fragments")


def render(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n"


def expand_file(path: Path) -> Json:
    """The CustomResourceDefinition a source stands for."""
    source = yaml.safe_load(path.read_text())
    fragments = yaml.safe_load((path.parent / "fragments.yaml").read_text())
    spec = expand(source, fragments)
    spec["names"].setdefault("listKind", spec["names"]["kind"] + "List")
    spec["names"].setdefault("singular", spec["names"]["kind"].lower())
    for version in spec["versions"]:
        version |= {"served": version.get("served", True), "storage": version.get("storage", True)}
        root = version["schema"]["openAPIV3Schema"]
        root.setdefault("type", "object")
        plain = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        root["properties"] = plain | root["properties"]
    metadata = {"name": f"{spec['names']['plural']}.{spec['group']}"} | spec.pop("metadata", {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def expand(source: Any, fragments: Json) -> Any:
    if isinstance(source, list):
        return [expand(item, fragments) for item in source]
    if not isinstance(source, dict):
        return source
    beside = {key: expand(value, fragments) for key, value in source.items() if key not in ("$builtin", "$fragment")}
    if "$builtin" in source:
        return lay_over(from_builtin(source["$builtin"]), beside)
    if "$fragment" in source:
        piece = expand(fragments[source["$fragment"]], fragments)
        return lay_over(piece, beside) if beside else piece
    return beside


def lay_over(lower: Json, upper: Json) -> Json:
    """Keywords of the upper schema win; properties are laid over one by one."""
    merged = lower | upper
    for key in lower.keys() & upper.keys():
        if isinstance(lower[key], dict) and isinstance(upper[key], dict):
            merged[key] = lay_over(lower[key], upper[key])
    return merged


def from_builtin(name: str) -> Json:
    if name in SCALARS:
        return SCALARS[name]
    written = structural(builtin.schema(name))
    for field_name in UNSTATED_DEFAULTS.get(name, ()):
        del written["properties"][field_name]["default"]
    if any(field[1:] == ("core.v1.LocalObjectReference", "inline") for field in builtin.wire(name).values()):
        written["x-kubernetes-map-type"] = "atomic"
    return written


def structural(schema: Json) -> Json:
    """A built-in type written out as a CRD may have it: no references, no zero defaults, no patch keywords."""
    reference = schema.get("$ref")
    written = dict(from_builtin(reference)) if isinstance(reference, str) else {}
    written |= {key: value for key, value in schema.items() if key not in DROPPED | {"properties", "items"}}
    # Only Go prints a value for what is absent here.
    if written.get("default") in ({}, None) or reference == "api.resource.Quantity":
        written.pop("default", None)
    if "properties" in schema:
        required = schema.get("required", ())
        written["properties"] = {
            key: field(value, required=key in required) for key, value in schema["properties"].items()
        }
    if "items" in schema:
        written["items"] = structural(schema["items"])
    if "additionalProperties" in schema:
        written["additionalProperties"] = structural(schema["additionalProperties"])
    if "required" in written:
        written["required"] = sorted(written["required"])
    return written


def field(schema: Json, *, required: bool) -> Json:
    """A required field's default only restates Go's zero value."""
    written = structural(schema)
    return {key: value for key, value in written.items() if key != "default"} if required else written


if __name__ == "__main__":
    main()
