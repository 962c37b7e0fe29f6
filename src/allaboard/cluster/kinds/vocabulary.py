"""What a schema in a CRD may say at all: known types, served features of JSON schema, sound keys of lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

TYPES = ("array", "boolean", "integer", "number", "object", "string")
MAP_TYPES, LIST_TYPES = ("atomic", "granular"), ("atomic", "set", "map")
UNSERVED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
META = ("metadata", "kind", "apiVersion")
TEXT_FORMATS = frozenset(
    ("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5")
    + ("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date")
    + ("duration", "datetime", "k8sshortname", "k8slongname")
)
# Upstream: with a status of its own, the root may say no more than what the status does not lose by it.
AT_ROOT = (
    ("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum")
    + ("MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items")
    + ("Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations")
)


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a schema: whether defaults may stand there, and whether it describes an object's own metadata."""

    field: str
    root: bool = False
    no_default: str = ""
    in_meta: bool = False

    def below(self, step: str) -> Where:
        return replace(self, field=f"{self.field}{step}", root=False)


def causes(schema: Document, field: str) -> list[Cause]:
    """Everything in a version's schema that may not be said."""
    found = _said(schema, Where(field, root=True))
    if schema.get("nullable"):
        found.append(complaints.forbidden(f"{field}.nullable", "nullable cannot be true at the root"))
    return found


def beside_status(schema: Document, field: str) -> list[Cause]:
    """What the root of a schema may not say when the status is a subresource."""
    if schema.get("type") and schema["type"] != "object":
        why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [complaints.invalid(f"{field}.type", schema["type"], why)]
    if all(_go_name(key) in AT_ROOT for key in schema if schema[key] not in (None, "", False, [], {})):
        return []
    listed = " ".join(AT_ROOT)
    why = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
    return [complaints.invalid(field, complaints.OMITTED, why)]


def _go_name(key: str) -> str:
    if key.startswith("x-kubernetes-"):
        return "X" + "".join(word.capitalize() for word in key.removeprefix("x-kubernetes-").split("-"))
    return key[:1].upper() + key[1:]


def children(schema: Document) -> Iterator[tuple[str, Document]]:
    """Every schema directly inside of a schema, and the step that leads to it."""
    if isinstance(schema.get("additionalProperties"), dict):
        yield ".additionalProperties", schema["additionalProperties"]
    for name, part in (schema.get("properties") or {}).items():
        yield f".properties[{name}]", part or {}
    if isinstance(schema.get("not"), dict):
        yield ".not", schema["not"]
    for key in ("allOf", "oneOf", "anyOf"):
        for index, part in enumerate(schema.get(key) or ()):
            yield f".{key}[{index}]", part or {}
    items = schema.get("items")
    if isinstance(items, dict):
        yield ".items", items
    for index, part in enumerate(items if isinstance(items, list) else ()):
        yield f".items[{index}]", part or {}


def _said(schema: Document, where: Where) -> list[Cause]:
    found = _features(schema, where) + _types(schema, where.field) + _lists(schema, where.field)
    for step, part in children(schema):
        found += _said(part, _inside(schema, where, step))
    return found


def _inside(schema: Document, where: Where, step: str) -> Where:
    name = step.removeprefix(".properties[").removesuffix("]")
    if step == ".additionalProperties" and where.in_meta:
        return replace(where.below(step), no_default="inside additionalProperties applying to object metadata")
    if not step.startswith(".properties") or name not in META:
        return where.below(step)
    if where.root:
        return replace(where.below(step), in_meta=True, no_default=f"in top-level {name}")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    return replace(where.below(step), in_meta=where.in_meta or embedded)


def _features(schema: Document, where: Where) -> list[Cause]:
    field, found = where.field, list[Cause]()
    kind = schema.get("type") or ""
    if kind and kind not in TYPES:
        found.append(complaints.not_supported(f"{field}.type", kind, TYPES))
    if kind == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        found.append(complaints.forbidden(f"{field}.type", why))
    if schema.get("default") is not None and where.no_default:
        found.append(complaints.forbidden(f"{field}.default", f"must not be set {where.no_default}"))
    for key in UNSERVED:
        if schema.get(key) not in (None, "", {}):
            found.append(complaints.forbidden(f"{field}.{key}", f"{key} is not supported"))
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(complaints.forbidden(f"{field}.uniqueItems", why))
    if isinstance(schema.get("items"), list) and schema["items"]:
        found.append(complaints.forbidden(f"{field}.items", "items must be a schema object and not an array"))
    if where.in_meta and schema.get("x-kubernetes-embedded-resource"):
        why = "must not be used inside of resource meta"
        found.append(complaints.forbidden(f"{field}.x-kubernetes-embedded-resource", why))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        why = "additionalProperties and properties are mutual exclusive"
        found.append(complaints.forbidden(f"{field}.additionalProperties", why))
    preserved = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserved is False:
        why = "must be true or undefined"
        found.append(complaints.invalid(f"{field}.x-kubernetes-preserve-unknown-fields", preserved, why))
    return found


def _types(schema: Document, field: str) -> list[Cause]:
    """Of the kinds of maps and lists, and the types they go with."""
    found: list[Cause] = []
    for key, kind, known in (
        ("x-kubernetes-map-type", "object", MAP_TYPES),
        ("x-kubernetes-list-type", "array", LIST_TYPES),
    ):
        said = schema.get(key)
        if said is None:
            continue
        if schema.get("type") != kind:
            why = f"must be {kind} if {key} is specified"
            found.append(_wrong_type(schema, field, why))
        if said not in known:
            found.append(complaints.not_supported(f"{field}.{key}", said, known))
    return found


def _wrong_type(schema: Document, field: str, why: str) -> Cause:
    kind = schema.get("type")
    return complaints.invalid(f"{field}.type", kind, why) if kind else complaints.required(f"{field}.type", why)


def _lists(schema: Document, field: str) -> list[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    found: list[Cause] = []
    if keys and kind != "map":
        why, where = "must be map if x-kubernetes-list-map-keys is non-empty", f"{field}.x-kubernetes-list-type"
        found.append(complaints.required(where, why) if kind is None else complaints.invalid(where, kind, why))
    items = schema.get("items")
    if isinstance(items, dict) and kind in ("set", "map") and items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        found.append(complaints.forbidden(f"{field}.items.nullable", why))
    if kind == "set" and schema.get("type") == "array" and isinstance(items, dict):
        found += _set(items, field)
    return found + (_keyed(schema, keys, field) if kind == "map" else [])


def _set(items: Document, field: str) -> list[Cause]:
    """Upstream: the items of a set are compared as wholes, so nothing inside of them may be owned by itself."""
    why, lists = "must be atomic as item of a list with x-kubernetes-list-type=set", items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and lists not in (None, "atomic"):
        return [complaints.invalid(f"{field}.items.x-kubernetes-list-type", lists, why)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [complaints.invalid(f"{field}.items.x-kubernetes-map-type", lists, why)]
    return []


def _keyed(schema: Document, keys: list[str], field: str) -> list[Cause]:
    items, where, found = schema.get("items"), f"{field}.x-kubernetes-list-map-keys", list[Cause]()
    if not keys:
        found.append(complaints.required(where, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        why = "must have a schema if x-kubernetes-list-type is map"
        return [*found, complaints.required(f"{field}.items", why)]
    if not isinstance(items, dict):
        return found
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        found.append(complaints.invalid(f"{field}.items.type", items.get("type") or "", why))
    else:
        found += _key_names(items, keys, field)
    return found + _key_values(items, keys, field)


def _key_names(items: Document, keys: list[str], field: str) -> list[Cause]:
    where, found, seen = f"{field}.x-kubernetes-list-map-keys", list[Cause](), set[str]()
    for key in keys:
        part = (items.get("properties") or {}).get(key)
        if part is None:
            found.append(complaints.invalid(where, keys, "entries must all be names of item properties"))
        elif part.get("type") in ("array", "object"):
            # Upstream quotes the type of the item, not that of the key.
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            found.append(complaints.invalid(f"{field}.items.properties[{key}].type", "object", why))
        if key in seen:
            found.append(complaints.invalid(where, keys, "must not contain duplicate entries"))
        seen.add(key)
    return found


def _key_values(items: Document, keys: list[str], field: str) -> list[Cause]:
    found: list[Cause] = []
    for key in keys:
        part, where = (items.get("properties") or {}).get(key), f"{field}.items.properties[{key}]"
        if part is None:
            continue
        said = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and part.get("default") is None:
            found.append(
                complaints.required(f"{where}.default", f"{said} must have a default or be a required property")
            )
        if part.get("nullable"):
            found.append(complaints.forbidden(f"{where}.nullable", f"{said} cannot be nullable"))
    return found


def remarks(schema: Document) -> list[str]:
    """What is accepted but means nothing here."""
    found: list[str] = []
    form, kind = schema.get("format") or "", schema.get("type") or ""
    if form and not _is_known_format(form, kind):
        found.append(f'unrecognized format "{form}"')
    items = schema.get("items")
    item_type = items.get("type") if isinstance(items, dict) else ""
    if schema.get("x-kubernetes-list-type") == "set" and item_type in ("object", "array"):
        words = "is not supported by server-side apply or CEL validation rules"
        found.append(f'x-kubernetes-list-type: set for items of type "{item_type}" {words}')
    return found + [remark for _, part in children(schema) for remark in remarks(part)]


def _is_known_format(form: str, kind: str) -> bool:
    if kind in ("", "string"):
        return form.replace("-", "") in TEXT_FORMATS
    return form in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
