"""Whether a schema is structural: every place has a type of its own, and what only restricts it stands apart."""

from __future__ import annotations

from allaboard.api.documents import Document, without
from allaboard.api.errors import BadRequest, Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import vocabulary
from allaboard.schema.faults import rule_faults
from allaboard.schema.nodes import Node
from allaboard.schema.patterns import complaint
from allaboard.schema.structure import Structure

PART = Structure({"$ref": "apiextensions.v1.JSONSchemaProps"})
UNREADABLE = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
EITHER = [{"type": "integer"}, {"type": "string"}]
JUNCTORS = ("anyOf", "allOf", "oneOf")
PLACES = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
# What restricts a value may say nothing that shapes it: `true` names what must be false, the others be left out.
SHAPING = (
    dict.fromkeys(("type", "title", "description", "x-kubernetes-list-map-keys"), "must be empty")
    | dict.fromkeys(("additionalProperties", "default", "x-kubernetes-list-type"), "must be undefined")
    | {"x-kubernetes-map-type": "must be undefined", "x-kubernetes-validations": "must be empty"}
    | dict.fromkeys(("nullable", "x-kubernetes-preserve-unknown-fields"), "must be false")
    | dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), "must be false")
)


def causes(schema: Document, field: str, *, status: bool = False) -> list[Cause]:
    """Every breach of the schema of a version."""
    _check_types(schema)
    found = vocabulary.beside_status(schema, field) if status else []
    unserved = _unserved(schema)
    if not unserved:
        broken = _shape(schema, field, "root") + _complete(schema, schema, field, field)
        found += broken or _defaults({**schema, "x-kubernetes-embedded-resource": True}, field)
    found += vocabulary.causes(schema, field)
    if unserved and not found:
        found.append(complaints.invalid(field, "", f"OpenAPIV3Schema '{unserved}' is not supported"))
    # Rules are compiled only against a schema that makes sense.
    return found or rule_faults(Node(schema), field)


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


def _unserved(schema: Document) -> str:
    """The first word anywhere that keeps a schema from being looked at as a structural one."""
    for key in ("id", "$schema", *vocabulary.UNSERVED):
        if schema.get(key) not in (None, "", {}):
            return key.removeprefix("$") if key == "$schema" else key
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "items"
    return next((word for _, part in vocabulary.children(schema) if (word := _unserved(part))), "")


def _shape(schema: Document, field: str, place: str) -> list[Cause]:
    """What a schema and everything below it must keep to be structural."""
    found: list[Cause] = []
    items, values = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        found.append(complaints.required(f"{field}.items", "must be specified"))
    if isinstance(items, dict):
        found += _shape(items, f"{field}.items", "item")
    for name, part in (schema.get("properties") or {}).items():
        found += _shape(part or {}, f"{field}.properties[{name}]", "field")
    if values is not None and place == "root":
        found.append(complaints.forbidden(f"{field}.additionalProperties", "must not be used at the root"))
    if isinstance(values, dict):
        found += _shape(values, f"{field}.additionalProperties", "field")
    return found + _extensions(schema, field) + _restrictions(schema, field) + _type(schema, field, place)


def _extensions(schema: Document, field: str) -> list[Cause]:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    why = "must be false if x-kubernetes-int-or-string is true"
    others = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    return [complaints.invalid(f"{field}.{key}", schema[key], why) for key in others if schema.get(key)]


def _type(schema: Document, field: str, place: str) -> list[Cause]:
    kind, embedded = schema.get("type") or "", bool(schema.get("x-kubernetes-embedded-resource"))
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    found: list[Cause] = []
    if embedded and kind != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        found.append(
            complaints.invalid(f"{field}.type", kind, why) if kind else complaints.required(f"{field}.type", why)
        )
    elif not kind and not loose:
        found.append(complaints.required(f"{field}.type", f"must not be empty {PLACES[place]}"))
    if embedded and schema.get("additionalProperties") is not None:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        found.append(complaints.forbidden(f"{field}.additionalProperties", why))
    if place == "root" and kind and kind != "object":
        found.append(complaints.invalid(f"{field}.type", kind, "must be object at the root"))
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        found.append(complaints.required(f"{field}.properties", why))
    return found + _meta(schema, field, place)


def _meta(schema: Document, field: str, place: str) -> list[Cause]:
    """An object's own fields have the types they always have; of metadata only names may be restricted."""
    parts, found = schema.get("properties") or {}, list[Cause]()
    checked = place == "root" or schema.get("x-kubernetes-embedded-resource")
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if checked and name in parts and parts[name].get("type") != kind:
            where = f"{field}.properties[{name}].type"
            found.append(complaints.invalid(where, parts[name].get("type") or "", f"must be {kind}"))
    if place == "root" and "metadata" in parts and not _restricts_names_only(parts["metadata"]):
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        found.append(complaints.forbidden(f"{field}.properties[metadata]", why))
    return found


def _restricts_names_only(metadata: Document) -> bool:
    inner = set(metadata.get("properties") or {})
    rest = {key for key, value in metadata.items() if value not in (None, "", False, [], {})}
    return inner <= {"name", "generateName"} and rest <= {"type", "properties", "default"}


def _restrictions(schema: Document, field: str, *, skip: bool = False) -> list[Cause]:
    """The parts of a schema that only restrict: `skip` where an integer or a string is told by two types."""
    found: list[Cause] = []
    for key in JUNCTORS:
        parts = schema.get(key) or []
        if key == "anyOf" and (skip or parts == EITHER):
            continue
        for index, part in enumerate(parts):
            either = key == "allOf" and index == 0 and part.get("anyOf") == EITHER
            found += _restriction(part, f"{field}.{key}[{index}]", skip=either)
    if schema.get("not") is not None:
        found += _restriction(schema["not"], f"{field}.not")
    if schema.get("pattern") and (problem := complaint(schema["pattern"])):
        why = f"must be a valid regular expression, but isn't: {problem}"
        found.append(complaints.invalid(f"{field}.pattern", schema["pattern"], why))
    return found


def _restriction(schema: Document, field: str, *, skip: bool = False) -> list[Cause]:
    found = _restrictions(schema, field, skip=skip)
    if isinstance(schema.get("items"), dict):
        found += _restriction(schema["items"], f"{field}.items")
    for name, part in (schema.get("properties") or {}).items():
        found += _restriction(part or {}, f"{field}.properties[{name}]")
    for key, must in SHAPING.items():
        said = schema.get(key)
        if said not in (None, "", [], {}) and not (said is False and key != "additionalProperties"):
            found.append(complaints.forbidden(f"{field}.{key}", f"{must} to be structural"))
    if "metadata" in (schema.get("properties") or {}):
        where = f"{field}.properties[metadata]"
        found.append(complaints.forbidden(where, "must not be specified in a nested context"))
    return found


def _complete(schema: Document | None, restriction: Document, here: str, there: str) -> list[Cause]:
    """What is restricted somewhere must have a shape, too."""
    found: list[Cause] = []
    for key in JUNCTORS:
        for index, part in enumerate(restriction.get(key) or ()):
            found += _shaped(schema, part, here, f"{there}.{key}[{index}]")
    if isinstance(restriction.get("not"), dict):
        found += _shaped(schema, restriction["not"], here, f"{there}.not")
    return found


def _shaped(schema: Document | None, restriction: Document, here: str, there: str) -> list[Cause]:
    if schema is None:
        return [complaints.required(here, f"because it is defined in {there}")]
    found = _complete(schema, restriction, here, there)
    if isinstance(restriction.get("items"), dict):
        items = schema.get("items")
        found += _shaped(
            items if isinstance(items, dict) else None, restriction["items"], f"{here}.items", f"{there}.items"
        )
    for name, part in (restriction.get("properties") or {}).items():
        step = f".properties[{name}]"
        found += _shaped((schema.get("properties") or {}).get(name), part or {}, f"{here}{step}", f"{there}{step}")
    return found


def _defaults(schema: Document, field: str) -> list[Cause]:
    """Defaults must keep the rules of their own places."""
    found = _default(schema, f"{field}.default") if schema.get("default") is not None else []
    if isinstance(schema.get("items"), dict):
        found += _defaults(schema["items"], f"{field}.items")
    for name, part in (schema.get("properties") or {}).items():
        found += _defaults(part or {}, f"{field}.properties[{name}]")
    return found


def _default(schema: Document, field: str) -> list[Cause]:
    value, found = schema["default"], list[Cause]()
    wrapped = Structure({"type": "object", "properties": {"default": without(schema, "default")}})
    if wrapped.admit({"default": value}).unknown:
        found.append(complaints.invalid(field, value, "must not have unknown fields"))
    for cause in wrapped.validate({"default": value}):
        if cause.reason == "FieldValueDuplicate":
            continue  # Upstream does not look
        nowhere = cause.field.startswith("<nil>")
        message = cause.message.replace("default in body", " in body").removesuffix(" in default")
        if message != cause.message and cause.message.endswith(" in default"):
            message += " in "
        below = "" if nowhere else cause.field.removeprefix("default").replace("<nil>", "")
        found.append(Cause(cause.reason, f"{field}{below}", message))
    return found
