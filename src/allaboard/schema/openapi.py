"""The schemas as kubectl reads them: OpenAPI v3, one document for each group and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha512
from typing import Any

import msgspec

from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.schema import builtin

JSON = "application/json"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PATCHES = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
STRATEGIC = "application/strategic-merge-patch+json"
TITLE = {"title": "Kubernetes", "version": "v1.35.0"}
CUSTOM_TITLE = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
# What only we know: which empty fields are left out, and that a type holds anything.
INTERNAL = ("x-omit-empty", "x-kubernetes-preserve-unknown-fields")
UNIONS = "x-kubernetes-unions"
SCALARS: dict[str, Document] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One served resource: its kind, its schema (a reference, or a CRD's own), and its doors."""

    kind: Kind
    schema: Document
    subresources: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    custom: bool = False
    returned: bool = False  # whoever deletes one is shown it


def index(entries: Iterable[Entry]) -> Document:
    """Where the documents are; the hash changes when a document does."""
    chosen: dict[str, list[Entry]] = {}
    for entry in entries:
        chosen.setdefault(_place(entry.kind), []).append(entry)
    return {"paths": {place: {"serverRelativeURL": _address(place, some)} for place, some in sorted(chosen.items())}}


def _place(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _address(place: str, entries: Sequence[Entry]) -> str:
    facts = [[e.kind.kind, e.schema, sorted(e.subresources)] for e in sorted(entries, key=lambda e: e.kind.plural)]
    return f"/openapi/v3/{place}?hash={sha512(msgspec.json.encode(facts, order='sorted')).hexdigest().upper()}"


def document(group: str, version: str, entries: Iterable[Entry]) -> Document:
    """The document of one group and version."""
    chosen = [entry for entry in entries if (entry.kind.group, entry.kind.version) == (group, version)]
    schemas: Document = {}
    paths: Document = {}
    for entry in sorted(chosen, key=lambda e: e.kind.plural):
        _describe(entry, schemas)
        paths |= _paths(entry)
    for name, verb in (("DeleteOptions", "delete"), ("Status", "delete"), ("Patch", "patch")):
        if any(verb in entry.verbs for entry in chosen):
            _collect(f"meta.v1.{name}", schemas)
    if group and (options := schemas.get(f"{META}.DeleteOptions")):
        known = {"group": group, "kind": "DeleteOptions", "version": version}
        options["x-kubernetes-group-version-kind"] = [*options["x-kubernetes-group-version-kind"], known]
    custom = bool(chosen) and all(entry.custom for entry in chosen)
    title = (
        {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
        if custom
        else {"title": "Kubernetes", "version": "v1.35.0"}
    )
    return {"openapi": "3.0.0", "info": title, "paths": paths, "components": {"schemas": dict(sorted(schemas.items()))}}


VERSION2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def version2() -> bytes:
    """The old document, as protobuf: clients fall back to it for kinds nobody serves, and find nothing in it."""
    title, version = (text.encode() for text in (TITLE["title"], TITLE["version"]))
    told = b"\x0a" + bytes([len(title)]) + title + b"\x12" + bytes([len(version)]) + version
    return b"\x0a\x032.0" + b"\x12" + bytes([len(told)]) + told


# Schemas


def _describe(entry: Entry, schemas: Document) -> None:
    if not entry.custom:
        _collect(str(entry.schema["$ref"]), schemas)
        listing = builtin.type_of(entry.kind.api_version, entry.kind.list_kind)
        if listing:
            _collect(listing, schemas)
        return
    kind, name = entry.kind, component(entry)
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    _collect("meta.v1.ObjectMeta", schemas)
    _collect("meta.v1.ListMeta", schemas)
    own = dict(entry.schema)
    metadata = {"allOf": [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}]}
    strings = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    own["properties"] = {**strings, **(entry.schema.get("properties") or {}), "metadata": metadata}
    schemas[name] = {**own, "x-kubernetes-group-version-kind": [gvk]}
    schemas[f"{name}List"] = _listing(name, kind)


def _listing(name: str, kind: Kind) -> Document:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.list_kind}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"#/components/schemas/{META}.ListMeta"}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}},
        },
        "x-kubernetes-group-version-kind": [gvk],
    }


def component(entry: Entry) -> str:
    """The name of a kind's schema: `io.k8s.api.batch.v1.Job`, `io.x-k8s.jobset.v1alpha2.JobSet`."""
    if not entry.custom:
        return builtin.long_name(str(entry.schema["$ref"]))
    kind = entry.kind
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _collect(name: str, schemas: Document) -> None:
    """Put a built-in type and all it refers to among the schemas."""
    long = builtin.long_name(name)
    if long in schemas:
        return
    schemas[long] = {}
    wanted: list[str] = []
    schemas[long] = _written(builtin.schema(name), wanted.append)
    for field, said in builtin.shown().get(name, {}).items():
        if field == UNIONS:
            schemas[long][UNIONS] = said
        else:
            _say(schemas[long]["properties"][field], said)
    for other in wanted:
        _collect(other, schemas)


def _say(schema: Document, said: Document) -> None:
    """Lay what else is known of a field, or of its elements, over its schema."""
    for part, value in said.items():
        if isinstance(value, dict):
            _say(schema[part], value)
        else:
            schema[part] = value


def _written(schema: Document, want: Callable[[str], None], *, field: bool = False) -> Document:
    """A compact schema in OpenAPI's own words; a field's reference leaves room for what is said beside it."""
    if schema.get("format") in SCALARS and schema.get("x-kubernetes-int-or-string"):
        return dict(SCALARS[schema["format"]])
    written: Document = {}
    for key, value in schema.items():
        if key == "$ref":
            want(value)
            reference = {"$ref": f"#/components/schemas/{builtin.long_name(value)}"}
            written |= {"allOf": [reference]} if field or len(schema) > 1 else reference
        elif key == "properties":
            written[key] = {name: _written(child, want, field=True) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            written[key] = _written(value, want)
        elif key not in INTERNAL and not (key == "default" and value is None):
            written[key] = value
    return written


# Paths


def _paths(entry: Entry) -> Document:
    kind, found = entry.kind, dict[str, Any]()
    base = kind.path("{namespace}") if kind.namespaced else kind.path()
    collection = {verb: _operation(entry, action) for verb, action in _COLLECTION.items() if action in entry.verbs}
    if collection:
        found[base] = collection | {"parameters": _path_parameters(kind, named=False)}
    single = {verb: _operation(entry, action) for verb, action in _SINGLE.items() if action in entry.verbs}
    if single:
        found[f"{base}/{{name}}"] = single | {"parameters": _path_parameters(kind, named=True)}
    if entry.subresources & {"status", "scale"}:
        for name in sorted(entry.subresources & {"status", "scale"}):
            doors = {verb: _operation(entry, action, name) for verb, action in _STATUS.items()}
            found[f"{base}/{{name}}/{name}"] = doors | {"parameters": _path_parameters(kind, named=True)}
    if kind.namespaced and "list" in entry.verbs:
        found[kind.path()] = {"get": _operation(entry, "list", everywhere=True), "parameters": _parameters(_PRETTY)}
    return {path: _lifted(doors) for path, doors in found.items()}


def _lifted(doors: Document) -> Document:
    """Upstream: what every method of a path takes stands beside them; so does all that an only method takes."""
    methods = [method for method in doors if method != "parameters"]
    if len(methods) != 1 or "parameters" not in doors[methods[0]]:
        return doors
    only = dict(doors[methods[0]])
    both = [*only.pop("parameters"), *doors["parameters"]]
    return {methods[0]: only, "parameters": sorted(both, key=lambda one: (one["in"] != "path", one["name"]))}


_PRETTY = {"pretty": "string"}
_COLLECTION = {"delete": "deletecollection", "get": "list", "post": "create"}
_SINGLE = {"delete": "delete", "get": "get", "patch": "patch", "put": "update"}
_STATUS = {"get": "get", "patch": "patch", "put": "update"}
_LISTING = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_WRITING = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETING = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_OPTIONS: dict[str, dict[str, str]] = {
    "list": _LISTING,
    "deletecollection": _LISTING,
    "create": _WRITING,
    "update": _WRITING,
    "patch": {**_WRITING, "force": "boolean"},
    "delete": _DELETING,
    "get": {"resourceVersion": "string"},
}
# Upstream: built-in kinds say otherwise what the deletion of many and the reading of one take.
_BUILT_IN = _OPTIONS | {
    "deletecollection": {n: t for n, t in _LISTING.items() if n not in ("allowWatchBookmarks", "watch")} | _DELETING,
    "get": {},
}
_WORDS = {
    "list": ("list", "list"),
    "deletecollection": ("deletecollection", "delete collection of"),
    "create": ("post", "create"),
    "update": ("put", "replace the specified"),
    "patch": ("patch", "partially update the specified"),
    "delete": ("delete", "delete"),
    "get": ("get", "read the specified"),
}


def _operation(entry: Entry, action: str, subresource: str = "", *, everywhere: bool = False) -> Document:
    kind, (word, sentence) = entry.kind, _WORDS[action]
    options = (_OPTIONS if entry.custom else _BUILT_IN)[action]
    operation: Document = {
        "description": f"{sentence} {kind.kind}",
        "operationId": _operation_id(kind, action, subresource, everywhere=everywhere),
        **({"parameters": _parameters(options)} if options else {}),
        "responses": _responses(entry, action),
        "tags": [_tag(kind)],
        "x-kubernetes-action": word,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
    body = _body(entry, action)
    return operation | ({"requestBody": body} if body else {})


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.replace("-", ".").split("."))


def _tag(kind: Kind) -> str:
    camel = _camel(kind.group.removesuffix(".k8s.io") if not kind.group.endswith("x-k8s.io") else kind.group) or "Core"
    return f"{camel[:1].lower()}{camel[1:]}_{kind.version}"


def _operation_id(kind: Kind, action: str, subresource: str, *, everywhere: bool = False) -> str:
    verb = {"get": "read", "update": "replace", "deletecollection": "delete"}.get(action, action)
    tag, _, version = _tag(kind).partition("_")
    scope = "Namespaced" if kind.namespaced and not everywhere else ""
    middle = "Collection" if action == "deletecollection" else ""
    door = "ForAllNamespaces" if everywhere else _camel(subresource)
    return f"{verb}{tag[:1].upper()}{tag[1:]}{version[:1].upper()}{version[1:]}{middle}{scope}{kind.kind}{door}"


def _parameters(names: dict[str, str]) -> list[Document]:
    return [{"in": "query", "name": n, "schema": {"type": t, "uniqueItems": True}} for n, t in names.items()]


def _path_parameters(kind: Kind, *, named: bool) -> list[Document]:
    wanted = (["name"] if named else []) + (["namespace"] if kind.namespaced else [])
    text = {"type": "string", "uniqueItems": True}
    found: list[Document] = [{"in": "path", "name": name, "required": True, "schema": text} for name in wanted]
    return [*found, {"in": "query", "name": "pretty", "schema": text}]


def _content(reference: str) -> Document:
    schema = {"schema": {"$ref": f"#/components/schemas/{reference}"}}
    return {JSON: schema, "application/yaml": schema}


def _responses(entry: Entry, action: str) -> Document:
    name = component(entry)
    if action == "list":
        name += "List"
    elif action == "deletecollection" or (action == "delete" and not entry.returned):
        name = f"{META}.Status"
    content = _content(name)
    if action == "list" and not entry.custom:
        content[f"{JSON};stream=watch"] = content[JSON]
    answer = {"description": "OK", "content": content}
    found = {"200": answer}
    if action in ("create", "update") or (action == "patch" and not entry.custom):
        found["201"] = {**answer, "description": "Created"}
    if action in ("create", "delete"):
        found["202"] = {**answer, "description": "Accepted"}
    return found | {"401": {"description": "Unauthorized"}}


def _body(entry: Entry, action: str) -> Document | None:
    if action in ("create", "update"):
        return {"content": _sent(entry, component(entry)), "required": True}
    if action == "patch":
        schema = {"schema": {"$ref": f"#/components/schemas/{META}.Patch"}}
        kinds = PATCHES if entry.custom else [*PATCHES, STRATEGIC]
        return {"content": dict.fromkeys(kinds, schema), "required": True}
    if action == "delete" or (action == "deletecollection" and not entry.custom):
        return {"content": _sent(entry, f"{META}.DeleteOptions")}
    return None


def _sent(entry: Entry, reference: str) -> Document:
    """A body that is sent: built-in kinds are read in every notation there is."""
    content = _content(reference)
    return content if entry.custom else {"*/*": content[JSON]}
