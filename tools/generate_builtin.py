"""Writes the facts of the built-in kinds we serve: names, types, list keys, wire numbers; no prose.

Usage: python tools/generate_builtin.py

It asks the ordinary go client for the modules named in MODULES, reads the OpenAPI and discovery documents and the
.proto files inside them, and writes compact JSON into src/allaboard/schema/builtin:

    <package>.json        {"types": {Type: schema}}   schemas in OpenAPI's words, references as "core.v1.Container"
    <package>.wire.json   {Type: {number: [json name, type, mode]}}   mode: "", "repeated", "map" or "inline"
    resources.json        what discovery says about every served resource and its subresources
    shown.json            {Type: {field: {"enum": [...]}}}   what only OpenAPI documents say: the words a field may
                          hold, and which goes with which other field ("x-kubernetes-unions", of the type itself)
    structs.json          {Type: [[Go name, mode, type]]}   the server's own structs, in the order in which refusals
                          print them; mode: "", "*" (may be null), "[]" or "map"; type: a struct, or a kind of scalar
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

VERSION = "v1.37.0"
STAGING = VERSION.replace("v1.", "v0.", 1)
MODULES = {
    "k8s.io/kubernetes": VERSION,
    "k8s.io/api": STAGING,
    "k8s.io/apimachinery": STAGING,
    "k8s.io/apiextensions-apiserver": STAGING,
}
TARGET = Path(__file__).parent.parent / "src" / "allaboard" / "schema" / "builtin"

# Group and version -> the resources we serve; everything else in the documents is left out.
SERVED = {
    "v1": "bindings configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes "
    "pods resourcequotas secrets serviceaccounts services",
    "admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations validatingwebhookconfigurations",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io/v1": "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews "
    "subjectaccessreviews",
    "batch/v1": "cronjobs jobs",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
    "node.k8s.io/v1": "runtimeclasses",
    "rbac.authorization.k8s.io/v1": "clusterrolebindings clusterroles rolebindings roles",
    "scheduling.k8s.io/v1": "priorityclasses",
    "storage.k8s.io/v1": "storageclasses",
}
# Types that no served resource refers to, yet travel: bodies and answers of subresources and of every request.
EXTRA = {
    "meta.v1.DeleteOptions",
    "meta.v1.Status",
    "meta.v1.APIGroup",
    "meta.v1.APIGroupList",
    "meta.v1.APIResourceList",
    "meta.v1.APIVersions",
    "meta.v1.Patch",
    "meta.v1.WatchEvent",
    "core.v1.Binding",
    "policy.v1.Eviction",
    "autoscaling.v1.Scale",
    "authentication.v1.TokenRequest",
}
PREFIXES = {
    "io.k8s.api.": "",
    "io.k8s.apimachinery.pkg.apis.": "",
    "io.k8s.apimachinery.pkg.": "",
    "io.k8s.apiextensions-apiserver.pkg.apis.": "",
}
# Types whose value is a scalar of its own kind; the compiler knows them by format.
SCALARS = {
    "api.resource.Quantity": {"x-kubernetes-int-or-string": True, "format": "quantity"},
    "util.intstr.IntOrString": {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    "meta.v1.FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "runtime.RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "apiextensions.v1.JSON": {"x-kubernetes-preserve-unknown-fields": True},
    "apiextensions.v1.JSONSchemaPropsOrArray": {"x-kubernetes-preserve-unknown-fields": True},
    "apiextensions.v1.JSONSchemaPropsOrBool": {"x-kubernetes-preserve-unknown-fields": True},
    "apiextensions.v1.JSONSchemaPropsOrStringArray": {"x-kubernetes-preserve-unknown-fields": True},
}
KEPT = {
    "type",
    "format",
    "required",
    "default",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
}
Json = dict[str, Any]


def main() -> None:
    folders = {module: fetch(module, version) for module, version in MODULES.items()}
    api = folders["k8s.io/kubernetes"] / "api"
    schemas = load_schemas(api / "openapi-spec" / "v3")
    resources = load_resources(api / "discovery")
    types = reachable(schemas, roots(schemas, resources))
    members = read_members([folders[module] for module in list(MODULES)[1:]])
    mark_omitted(types, members)
    for stale in TARGET.glob("*.json"):
        stale.unlink()
    write_types(types)
    write_wire(types, [folders[module] for module in list(MODULES)[1:]])
    write("resources.json", resources)
    write("shown.json", shown(types, folders["k8s.io/kubernetes"]))
    write("structs.json", internal_structs(folders["k8s.io/kubernetes"] / "pkg" / "apis"))


def fetch(module: str, version: str) -> Path:
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"], check=True, capture_output=True, text=True
    )
    return Path(json.loads(done.stdout)["Dir"])


# Schemas


def load_schemas(folder: Path) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path in sorted(folder.glob("*.json")):
        found |= json.loads(path.read_text()).get("components", {}).get("schemas", {})
    return {short(name): compact(short(name), schema) for name, schema in found.items()}


def short(name: str) -> str:
    """`io.k8s.api.core.v1.Container` and `#/components/schemas/…` both become `core.v1.Container`."""
    name = name.rpartition("/")[2]
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
    return PREFIXES.get(prefix, "") + name.removeprefix(prefix)


def compact(name: str, schema: Json) -> Json:
    return SCALARS.get(name) or slim(schema)


def slim(schema: Json) -> Json:
    """The schema without prose; `allOf: [{$ref}]` is a plain reference."""
    kept = {key: value for key, value in schema.items() if key in KEPT}
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", [])), None)
    if reference:
        kept["$ref"] = short(reference)
    if "properties" in schema:
        kept["properties"] = {key: slim(value) for key, value in schema["properties"].items()}
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            # An element's default only restates Go's zero value.
            kept[part] = {key: value for key, value in slim(schema[part]).items() if key != "default"}
    return kept


def roots(schemas: dict[str, Json], resources: list[Json]) -> set[str]:
    """The types of the served kinds and their lists, by group, version and kind."""
    by_kind = {}
    for name, schema in schemas.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            by_kind.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    wanted = {(r["group"], r["version"], r["kind"]) for r in resources}
    wanted |= {(s["group"], s["version"], s["kind"]) for r in resources for s in r["subresources"]}
    wanted |= {(group, version, kind + "List") for group, version, kind in wanted}
    return {by_kind[gvk] for gvk in wanted if gvk in by_kind} | EXTRA


def reachable(schemas: dict[str, Json], wanted: set[str]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    while wanted:
        name = wanted.pop()
        found[name] = trim_kinds(name, schemas[name])
        wanted |= set(references(schemas[name])) - found.keys()
    return found


def trim_kinds(name: str, schema: Json) -> Json:
    """Options belong to every group there is; only their own entry is kept."""
    gvks = schema.get("x-kubernetes-group-version-kind", [])
    if len(gvks) > 1:
        schema = schema | {"x-kubernetes-group-version-kind": [gvk for gvk in gvks if not gvk["group"]][:1]}
    return schema


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return here + [name for value in schema.values() for name in references(value)]


# What only documents say: nothing here is judged by it


ENUM_OF = re.compile(
    r"^func schema_(\w+)\(|^\t\t\t\t\t\"(\w+)\": \{$|^\t+Enum: +\[\]interface\{\}\{(.*)\},$", re.MULTILINE
)
UNIONS = "x-kubernetes-unions"


def shown(types: dict[str, Json], kubernetes: Path) -> Json:
    """The enums stand in the server's generated code alone, unions also in its documents."""
    enums = read_enums((kubernetes / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go").read_text())
    found: Json = {}
    for name in sorted(types):
        properties = types[name].get("properties", {})
        if fields := enums.get(go_function(name)):
            found[name] = {field: spread(properties[field], words) for field, words in fields.items()}
    for path in sorted((kubernetes / "api" / "openapi-spec" / "v3").glob("*.json")):
        for name, schema in json.loads(path.read_text()).get("components", {}).get("schemas", {}).items():
            if UNIONS in schema and short(name) in types:
                found.setdefault(short(name), {})[UNIONS] = schema[UNIONS]
    return found


def spread(schema: Json, words: list[str]) -> Json:
    """The words of a field, or of each element of a list or map."""
    part = next((part for part in ("items", "additionalProperties") if part in schema), "")
    return {part: {"enum": words}} if part else {"enum": words}


def go_function(name: str) -> str:
    """What the generated code calls a type of ours: `core.v1.Pod` is in `k8sio_api_core_v1_Pod`."""
    package, _, kind = name.rpartition(".")
    where = "pkg_apis" if package in ("meta.v1", "apiextensions.v1") else "k8sio_api"
    return f"{where}_{package.replace('.', '_')}_{kind}"


def read_enums(code: str) -> dict[str, dict[str, list[str]]]:
    """Function -> field -> the words it may hold."""
    found: dict[str, dict[str, list[str]]] = {}
    function, field = "", ""
    for opened, named, words in ENUM_OF.findall(code):
        function, field = opened or function, named or field
        if words:
            found.setdefault(function, {})[field] = json.loads(f"[{words}]")
    return found


# Go's habits


STRUCT = re.compile(r"^type (\w+) struct \{")
MEMBER = re.compile(r'^\s+(?:\w+\s+)?(\S+)\s+`json:"([^",]*)([^"]*)"')


# Of a struct's field: its Go type and the options of its JSON tag.
Member = tuple[str, str]
Members = dict[str, dict[str, Member]]


def read_members(folders: list[Path]) -> Members:
    return {name: member for folder in folders for name, member in read_structs(folder).items()}


def mark_omitted(types: dict[str, Json], members: Members) -> None:
    """`x-omit-empty` on fields that Go leaves out when empty ("", 0, false, no items); a pointer's zero is kept.

    A null default on what Go prints as null when absent: times, and lists and maps that are never left out.
    """
    for name, schema in types.items():
        for field, (kind, options) in inlined(name, members).items():
            target = schema.get("properties", {}).get(field)
            if target is not None and not kind.startswith("*"):
                target |= habit(kind, options, is_struct="$ref" in target and not is_scalar(types[target["$ref"]]))


def habit(kind: str, options: str, *, is_struct: bool) -> Json:
    """What Go does with a field that is not a pointer when it is empty."""
    if kind.rpartition(".")[2] in ("Time", "MicroTime"):
        # A time is a struct: omitempty does not omit it.
        return {"x-omit-empty": True} if "omitzero" in options else {"default": None}
    if kind == "resource.Quantity":
        return {"default": "0"}
    if "omitempty" in options:
        return {} if is_struct else {"x-omit-empty": True}
    return {"default": None} if kind.startswith(("[]", "map[")) else {}


def is_scalar(schema: Json) -> bool:
    return "properties" not in schema


def read_structs(folder: Path) -> Members:
    """Type -> JSON field -> member, of every versioned package."""
    found: Members = {}
    for path in sorted(folder.rglob("types*.go")):
        package = path.parent.relative_to(folder).as_posix().replace("/", ".")
        here = short(f"io.k8s.{folder.name.partition('@')[0]}.{package}.x").removesuffix(".x")
        fields: dict[str, Member] = {}
        for line in path.read_text().splitlines():
            if opened := STRUCT.match(line):
                fields = found.setdefault(f"{here}.{opened.group(1)}", {})
            elif member := MEMBER.match(line):
                kind, name, options = member.groups()
                fields[name or f"inline:{kind}"] = (kind, options)
    return found


def inlined(name: str, members: Members) -> dict[str, Member]:
    """The fields of a struct with those of the structs it embeds, in their order."""
    found: dict[str, Member] = {}
    for field, member in members.get(name, {}).items():
        if field.startswith("inline:"):
            found |= inlined(f"{name.rpartition('.')[0]}.{member[0]}", members)
        else:
            found[field] = member
    return found


def write_types(types: dict[str, Json]) -> None:
    packages: dict[str, Json] = {}
    for name in sorted(types):
        package, _, type_name = name.rpartition(".")
        packages.setdefault(package, {})[type_name] = types[name]
    for package, members in packages.items():
        write(f"{package}.json", members)


def write(name: str, content: Any) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    # One type per line: a new version shows up as a readable difference.
    text = re.sub(r'(?<=[}\]]),(?="[A-Z0-9]\w*":\{)', ",\n", text) if isinstance(content, dict) else text
    (TARGET / name).write_text(text + "\n")


# What discovery says


def load_resources(folder: Path) -> list[Json]:
    found = []
    for group_version, wanted in SERVED.items():
        group, _, version = group_version.rpartition("/")
        name = f"apis__{group}__{version}.json" if group else f"api__{version}.json"
        entries = json.loads((folder / name).read_text())["resources"]
        for entry in entries:
            if entry["name"] in wanted.split():
                subresources = [sub for sub in entries if sub["name"].startswith(entry["name"] + "/")]
                found.append(resource(group, version, entry, subresources))
    return found


def resource(group: str, version: str, entry: Json, subresources: list[Json]) -> Json:
    return {
        "group": group,
        "version": version,
        "kind": entry["kind"],
        "plural": entry["name"],
        "singular": entry["singularName"],
        "namespaced": entry["namespaced"],
        "verbs": entry["verbs"],
        "short": entry.get("shortNames", []),
        "categories": entry.get("categories", []),
        "subresources": [
            {
                "name": sub["name"].partition("/")[2],
                "group": sub.get("group", group),
                "version": sub.get("version", version),
                "kind": sub["kind"],
                "verbs": sub["verbs"],
            }
            for sub in subresources
        ],
    }


# The wire


FIELD = re.compile(r"^(optional|repeated|required)?\s*(map<\s*\w+\s*,\s*[\w.]+\s*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)")
SCALAR_TYPES = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float"}


def write_wire(types: dict[str, Json], folders: list[Path]) -> None:
    messages: dict[str, dict[str, list[Any]]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("generated.proto")):
            messages |= read_proto(path.read_text())
    packages: dict[str, Json] = {}
    for name in sorted(closure(messages, set(types))):
        package, _, type_name = name.rpartition(".")
        fields = messages[name]
        known = types.get(name, {}).get("properties")
        packages.setdefault(package, {})[type_name] = {n: settle(f, known) for n, f in fields.items()}
    for package, members in packages.items():
        write(f"{package}.wire.json", members)


def closure(messages: dict[str, Any], wanted: set[str]) -> set[str]:
    """Embedded Go structs are messages of their own on the wire though no schema names them."""
    found: set[str] = set()
    wanted = {name for name in wanted if name in messages} | {"runtime.Unknown", "runtime.TypeMeta"}
    while wanted:
        name = wanted.pop()
        found.add(name)
        wanted |= {f[1] for f in messages[name].values() if f[1] in messages} - found
    return found


def read_proto(text: str) -> dict[str, dict[str, list[Any]]]:
    package = re.findall(r"^package ([\w.]+);", text, re.M)[0]
    here = from_proto(package + ".x").removesuffix(".x")
    found: dict[str, dict[str, list[Any]]] = {}
    fields: dict[str, list[Any]] = {}
    for line in map(str.strip, text.splitlines()):
        if opened := re.match(r"message (\w+) \{", line):
            fields = found.setdefault(f"{here}.{opened.group(1)}", {})
        elif field := FIELD.match(line):
            label, kind, name, number = field.groups()
            fields[number] = [name, *wire_type(here, kind, label or "")]
    return found


def from_proto(name: str) -> str:
    return short("io.k8s." + name.removeprefix("k8s.io.").replace("apiextensions_apiserver", "apiextensions-apiserver"))


def wire_type(package: str, kind: str, label: str) -> tuple[str, str]:
    if kind.startswith("map<"):
        return wire_type(package, kind[4:-1].partition(",")[2].strip(), "")[0], "map"
    mode = "repeated" if label == "repeated" else ""
    if kind in SCALAR_TYPES:
        return kind, mode
    if kind.startswith("."):
        return from_proto(kind[1:]), mode
    return f"{package}.{kind}", mode


def settle(field: list[Any], known: Json | None) -> list[Any]:
    """JSON's name for the field; a message that JSON does not name is an embedded struct, its fields stand inline."""
    name, kind, mode = field
    spellings = {plain(spelling): spelling for spelling in known or ()}
    if known is None or name in known:
        return field
    if plain(name) in spellings:
        return [spellings[plain(name)], kind, mode]
    return [name, kind, "inline"] if kind not in SCALAR_TYPES else field


def plain(name: str) -> str:
    return re.sub(r"\W", "", name).lower()


# What the server calls its own


PRINTED = (
    "core.PodTemplateSpec core.PersistentVolumeClaimSpec core.PersistentVolumeSource core.SecurityContext "
    "core.SeccompProfile core.VolumeNodeAffinity core.NodeSpec core.ObjectReference "
    "rbac.RoleRef batch.PodFailurePolicy batch.SuccessPolicy "
    "batch.UncountedTerminatedPods discovery.Endpoint"
)
ALIAS = re.compile(r"^type (\w+) (\w+|\[\]\w+|map\[\w+\][\w.]+)$")
PLAIN = re.compile(r"^\t(\w+)\s+((?:\*|\[\]|map\[\w+\])*)([\w.]+)(?:\s+//.*)?$")
EMBEDDED = re.compile(r"^\t([\w.]+)(?:\s+//.*)?$")
GO_SCALARS = {"string": "string", "bool": "bool", "byte": "bytes", "float64": "number"}
GO_SCALARS |= dict.fromkeys(("int", "int32", "int64", "uint64"), "number")
GO_TYPES = {"resource.Quantity": "quantity", "intstr.IntOrString": "port", "metav1.Time": "time", "types.UID": "string"}
Struct = list[list[str]]


def internal_structs(folder: Path) -> dict[str, Struct]:
    structs, aliases = {}, {}
    for package in ("core", "batch", "rbac", "discovery"):
        text = (folder / package / "types.go").read_text()
        aliases |= {f"{package}.{m[1]}": f"{package}.{m[2]}" for m in map(ALIAS.match, text.splitlines()) if m}
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            structs[f"{package}.{name}"] = (package, body.splitlines())
    found: dict[str, Struct] = {}
    wanted = set(PRINTED.split())
    while wanted:
        name = wanted.pop()
        found[name] = go_fields(name, structs, aliases)
        wanted |= {kind for _, _, kind in found[name] if kind in structs} - found.keys()
    return found


def go_fields(name: str, structs: Json, aliases: dict[str, str]) -> Struct:
    package, lines = structs[name]
    found: Struct = []
    for line in lines:
        if member := PLAIN.match(line):
            found.append([member[1], *go_type(member[2], member[3], package, structs, aliases)])
        elif member := EMBEDDED.match(line):
            inner = f"{package}.{member[1]}"
            found += go_fields(inner, structs, aliases) if inner in structs else [["", "", "meta"]]
    return found


def go_type(mode: str, kind: str, package: str, structs: Json, aliases: dict[str, str]) -> tuple[str, str]:
    mode = "map" if mode.startswith("map") else mode[:2] if mode.startswith("[]") else mode
    full = f"{package}.{kind}" if "." not in kind else kind.replace("api.", "core.")
    if full in structs:
        return mode, full
    if full in aliases:
        target = aliases[full].partition(".")[2] if "." in aliases[full] else aliases[full]
        prefix = re.match(r"map\[\w+\]|\[\]", target)
        return go_type(
            mode or (prefix[0] if prefix else ""), target[prefix.end() if prefix else 0 :], package, structs, aliases
        )
    return mode, GO_SCALARS.get(kind) or GO_TYPES.get(kind) or "tagged"


if __name__ == "__main__":
    main()
