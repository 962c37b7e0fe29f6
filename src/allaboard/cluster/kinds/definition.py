"""CustomResourceDefinition: names, versions and columns of a kind somebody else defines; its schema is `structural`."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown, structural
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

SCOPES = ("Cluster", "Namespaced")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
APPROVAL = "api-approved.kubernetes.io"
SIMPLE_PATH = "must be a simple json path starting with ."
PATH = re.compile(r"(\.[A-Za-z_][\w-]*)+")


def default(document: Document) -> Document:
    spec = dict(document.get("spec") or {})
    given = spec.get("names") or {}
    kind = given.get("kind") or ""
    filled = {"singular": kind.lower(), "listKind": f"{kind}List" if kind else "", **given}
    spec["names"] = {key: value for key, value in filled.items() if value}
    spec["conversion"] = {"strategy": "None"} if not spec.get("conversion") else spec["conversion"]
    return {**document, "spec": spec}


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    if old is None:
        return {**new, "status": _first_status(new)}
    if subresource == "status":
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}
    return {**new, "status": _later_status(new, old.get("status") or {})}


def _first_status(document: Document) -> Document:
    """Nothing is accepted yet; the server does that right after the definition is stored."""
    return {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": _storage_versions(document) or None,
    }


def _later_status(new: Document, status: Document) -> Document:
    stored = status.get("storedVersions") or []
    more = [name for name in _storage_versions(new) if name not in stored]
    return {**status, "storedVersions": stored + more}


def _storage_versions(document: Document) -> list[str]:
    return [v.get("name", "") for v in document["spec"].get("versions") or () if v.get("storage")]


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "status":
        return []
    spec = new["spec"]
    found = _names(new, spec) + _group(new, spec) + _versions(spec)
    if spec.get("scope") not in SCOPES:
        found.append(complaints.not_supported("spec.scope", spec.get("scope", ""), SCOPES))
    if not dig(new, "status", "storedVersions"):
        why = "must have at least one stored version"
        found.append(complaints.invalid("status.storedVersions", None, why))
    if old is None:
        return found
    before = old["spec"]
    for field, path in (("spec.group", ("group",)), ("spec.scope", ("scope",)), ("spec.names.kind", ("names", "kind"))):
        found += complaints.immutable(field, dig(spec, *path), dig(before, *path))
    return found


def _names(document: Document, spec: Document) -> list[Cause]:
    given, found = spec.get("names") or {}, list[Cause]()
    wanted = f"{given.get('plural', '')}.{spec.get('group', '')}"
    name = document["metadata"].get("name", "")
    if name != wanted:
        found.append(complaints.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    for key in ("plural", "singular"):
        text = given.get(key) or ""
        if not text:
            found.append(complaints.required(f"spec.names.{key}"))
        found += complaints.all_invalid(f"spec.names.{key}", text, names.dns_1035_label(text) if text else [])
    for key in ("kind", "listKind"):
        text = given.get(key) or ""
        if not text:
            found.append(complaints.required(f"spec.names.{key}"))
            continue
        for why in names.dns_1035_label(text.lower()):
            mixed = f"may have mixed case, but should otherwise match: {why}"
            found.append(complaints.invalid(f"spec.names.{key}", text, mixed))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        why = "kind and listKind may not be the same"
        found.append(complaints.invalid("spec.names.listKind", given["listKind"], why))
    for index, text in enumerate(given.get("shortNames") or ()):
        found += complaints.all_invalid(f"spec.names.shortNames[{index}]", text, names.dns_1035_label(text))
    return found


def _group(document: Document, spec: Document) -> list[Cause]:
    group = spec.get("group") or ""
    if not group:
        return [complaints.required("spec.group")]
    found = complaints.all_invalid("spec.group", group, names.dns_subdomain(group))
    if "." not in group:
        found.append(complaints.invalid("spec.group", group, "should be a domain with at least one dot"))
    protected = group.endswith((".k8s.io", ".kubernetes.io")) and not group.endswith((".x-k8s.io",))
    if protected and not (document["metadata"].get("annotations") or {}).get(APPROVAL):
        why = f'protected groups must have approval annotation "{APPROVAL}", see '
        where = f"metadata.annotations[{APPROVAL}]"
        found.append(complaints.required(where, why + "https://github.com/kubernetes/enhancements/pull/1111"))
    return found


def _versions(spec: Document) -> list[Cause]:
    versions, found = spec.get("versions") or [], list[Cause]()
    if sum(1 for version in versions if version.get("storage")) != 1:
        why = "must have exactly one version marked as storage version"
        shape = f"[{','.join(_go_version(version) for version in versions)}]"
        found.append(Cause("FieldValueInvalid", "spec.versions", f"Invalid value: {shape}: {why}"))
    seen = set[str]()
    # Upstream: what every version shares is complained about once, as if it stood at the top.
    alone = len(versions) == 1
    for index, version in enumerate(versions):
        name = version.get("name") or ""
        found += complaints.all_invalid(f"spec.versions[{index}].name", name, names.dns_1035_label(name))
        if name in seen:
            found.append(complaints.invalid(f"spec.versions[{index}].name", name, "must be unique"))
        seen.add(name)
        found += _version(version, "spec" if alone else f"spec.versions[{index}]", index, alone=alone)
    return found


def _go_version(version: Document) -> str:
    # Upstream prints the Go struct; the schema has by then moved to the top.
    words = [f'"Name":{complaints.shown(version.get("name", ""))}']
    words += [
        f'"{key}":{complaints.shown(bool(version.get(key.lower())))}' for key in ("Served", "Storage", "Deprecated")
    ]
    rest = ("DeprecationWarning", "Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
    return "{" + ",".join([*words, *(f'"{key}":null' for key in rest)]) + "}"


def _version(version: Document, here: str, index: int, *, alone: bool) -> list[Cause]:
    schema = dig(version, "schema", "openAPIV3Schema")
    found: list[Cause] = []
    if schema is None:
        found.append(complaints.required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    else:
        where = "spec.validation.openAPIV3Schema" if alone else f"spec.versions[{index}].schema.openAPIV3Schema"
        found += structural.causes(schema, where)
    found += _printer_columns(version.get("additionalPrinterColumns") or [], f"{here}.additionalPrinterColumns")
    return found + _scale(dig(version, "subresources", "scale"), f"{here}.subresources.scale")


def _printer_columns(columns: Documents, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, given in enumerate(columns):
        here, path = f"{field}[{index}]", given.get("jsonPath") or ""
        if not given.get("name"):
            found.append(complaints.required(f"{here}.name"))
        if given.get("type") not in COLUMN_TYPES:
            why = f"must be one of {','.join(COLUMN_TYPES)}"
            found.append(complaints.invalid(f"{here}.type", given.get("type", ""), why))
        if not path:
            found.append(complaints.required(f"{here}.JSONPath"))
        elif not path.startswith("."):
            found.append(complaints.invalid(f"{here}.JSONPath", path, SIMPLE_PATH))
    return found


def _scale(scale: Document | None, field: str) -> list[Cause]:
    if scale is None:
        return []
    found: list[Cause] = []
    for key, under in (
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
        ("labelSelectorPath", ".status"),
    ):
        path = scale.get(key) or ""
        if not path:
            found += [] if key == "labelSelectorPath" else [complaints.required(f"{field}.{key}")]
        elif not PATH.fullmatch(path):
            found.append(complaints.invalid(f"{field}.{key}", path, SIMPLE_PATH))
        elif not path.startswith(f"{under}.") and not (key == "labelSelectorPath" and path.startswith(".spec.")):
            found.append(complaints.invalid(f"{field}.{key}", path, f"should be a json path under {under}"))
    return found


COLUMNS = (
    shown.NAME,
    column("Scope", "Cluster/Namespaced"),
    column("Versions", "Served versions"),
    shown.CREATED_AT,
    column("Group", "API group", wide=True),
    column("Kind", "CustomResource kind", wide=True),
    column("ShortNames", "Short names", wide=True),
    column("Established", "Established status", type="boolean", wide=True),
)


def row(document: Document, now: datetime) -> list[object]:
    spec = document.get("spec") or {}
    conditions = dig(document, "status", "conditions", default=[])
    return [
        shown.name_of(document),
        spec.get("scope", ""),
        ",".join(_version_text(version) for version in spec.get("versions") or () if version.get("served")),
        document["metadata"].get("creationTimestamp"),
        spec.get("group", ""),
        dig(spec, "names", "kind", default=""),
        ",".join(dig(spec, "names", "shortNames", default=[])),
        any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions),
    ]


def _version_text(version: Document) -> str:
    return f"{version.get('name')}(storage)" if version.get("storage") else str(version.get("name"))


def warn(new: Document, old: Document | None) -> list[str]:
    """What is carried but not honoured is said."""
    if dig(new, "spec", "conversion", "strategy") != "Webhook":
        return []
    return ["spec.conversion.strategy: Webhook is not supported here; versions are served without conversion"]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.CRD),
        warnings=warn,
        default=default,
        prepare=prepare,
        check=check,
        unconditional_update=False,
        columns=COLUMNS,
        row=row,
    ),
)
