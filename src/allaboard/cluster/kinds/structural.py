"""Whether a schema is structural: every place has a type, defaults fit, lists name their keys."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.cluster import complaints
from allaboard.schema.nodes import Node
from allaboard.schema.rules import rule_faults
from allaboard.schema.structure import Structure

PART = Structure({"$ref": "apiextensions.v1.JSONSchemaProps"})
UNREADABLE = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
TYPES = ("array", "boolean", "integer", "number", "object", "string")
LIST_TYPES = ("atomic", "map", "set")
FORBIDDEN = ("definitions", "dependencies", "deprecated", "discriminator", "id", "patternProperties", "$ref")


def causes(schema: Document, field: str) -> list[Cause]:
    """Every breach of a schema at the root of a version."""
    _check_types(schema)
    if not schema.get("type"):
        return [complaints.required(f"{field}.type", "must not be empty at the root")]
    found: list[Cause] = []
    if schema["type"] != "object":
        found.append(complaints.invalid(f"{field}.type", schema["type"], "must be object at the root"))
    found += _node(schema, field, "at the root")
    # Rules are compiled only against a schema that makes sense.
    return found or rule_faults(Node(schema), field)


def _node(schema: Document, field: str, where: str) -> list[Cause]:
    found = _type(schema, field, where)
    for key in FORBIDDEN:
        if schema.get(key) is not None:
            found.append(complaints.forbidden(f"{field}.{key}", f"{key} is not supported"))
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(complaints.forbidden(f"{field}.uniqueItems", why))
    found += _list_type(schema, field)
    if "default" in schema and where != "at the root":
        found += _default(schema, field)
    return found + _children(schema, field)


def _type(schema: Document, field: str, where: str) -> list[Cause]:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string") or (schema.get("x-kubernetes-preserve-unknown-fields") and not kind):
        return []
    if not kind:
        return [complaints.required(f"{field}.type", f"must not be empty {where}")]
    return [] if kind in TYPES else [complaints.not_supported(f"{field}.type", kind, TYPES)]


def _children(schema: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name, child in (schema.get("properties") or {}).items():
        found += _node(child or {}, f"{field}.properties[{name}]", "for specified object fields")
    items, values = schema.get("items"), schema.get("additionalProperties")
    if schema.get("properties") and values:
        why = "additionalProperties and properties are mutual exclusive"
        found.append(complaints.forbidden(f"{field}.additionalProperties", why))
    if schema.get("type") == "array" and items is None:
        found.append(complaints.required(f"{field}.items", "must be specified"))
    if isinstance(items, dict):
        found += _node(items, f"{field}.items", "for specified array items")
    if isinstance(values, dict):
        found += _node(values, f"{field}.additionalProperties", "for specified object fields")
    return found


def _check_types(schema: Document) -> None:
    """Decode what stands where a schema or something else may: an `items`, an `additionalProperties`."""
    for name, others in (("items", (list, None.__class__)), ("additionalProperties", (bool, None.__class__))):
        part = schema.get(name)
        if isinstance(part, dict):
            if fault := PART.admit(part).malformed:
                raise BadRequest(f"{UNREADABLE}{fault}")
            _check_types(part)
        elif not isinstance(part, others):
            raise BadRequest(f"{UNREADABLE}json: cannot unmarshal into Go struct field JSONSchemaProps.{name}")
    for child in (schema.get("properties") or {}).values():
        _check_types(child or {})


def _list_type(schema: Document, field: str) -> list[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    where = f"{field}.x-kubernetes-list-map-keys"
    if kind is None:
        return (
            [complaints.forbidden(where, "x-kubernetes-list-map-keys is only allowed for x-kubernetes-list-type=map")]
            if keys
            else []
        )
    if kind not in LIST_TYPES:
        return [complaints.not_supported(f"{field}.x-kubernetes-list-type", kind, LIST_TYPES)]
    if kind != "map":
        return []
    if not keys:
        return [complaints.required(where, "must not be empty if x-kubernetes-list-type is map")]
    return _keys(schema, keys, field)


def _keys(schema: Document, keys: list[str], field: str) -> list[Cause]:
    items = schema.get("items") or {}
    items = items if isinstance(items, dict) else {}
    properties, required, found = items.get("properties") or {}, items.get("required") or [], list[Cause]()
    for index, key in enumerate(keys):
        if key not in properties:
            why = "entries must all be names of item properties"
            found.append(complaints.invalid(f"{field}.x-kubernetes-list-map-keys[{index}]", key, why))
        elif key not in required and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            found.append(complaints.required(f"{field}.items.properties[{key}].default", why))
    return found


def _default(schema: Document, field: str) -> list[Cause]:
    """A default must itself keep the rules of its place."""
    value = schema["default"]
    if value is None and not schema.get("nullable"):
        return []
    wrapped = Structure(
        {"type": "object", "properties": {"default": {k: v for k, v in schema.items() if k != "default"}}}
    )
    found = []
    for cause in wrapped.validate({"default": value}):
        message = cause.message.replace("default in body", " in body")
        found.append(Cause(cause.reason, f"{field}.default{cause.field.removeprefix('default')}", message))
    return found
