"""CustomResourceDefinition: names, versions and columns of a kind somebody else defines; its schema is `structural`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import conversion, shown, structural, vocabulary
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in
from allaboard.schema import fieldpaths

SCOPES = ("Cluster", "Namespaced")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
APPROVAL = "api-approved.kubernetes.io"
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SIMPLE_PATH = "must be a simple json path starting with ."
MOST_SELECTABLE = 8


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
    return [v.get("name", "") for v in document["spec"].get("versions") or () if v.get("storage")][:1]


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    status = new.get("status") or {}
    accepted = _named(status.get("acceptedNames") or {}, "status.acceptedNames")
    if subresource == "status":
        return accepted
    spec = new["spec"]
    found = _names(new, spec) if old is None else []
    found += _required_names(spec) + _named(spec.get("names") or {}, "spec.names")
    found += _group(spec) + _scope(spec) + _versions(spec) + conversion.causes(spec.get("conversion"))
    found += accepted + _stored(status.get("storedVersions") or [], spec.get("versions") or [])
    found += _approval(new, old)
    if spec.get("preserveUnknownFields") and not dig(old or {}, "spec", "preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(complaints.invalid("spec.preserveUnknownFields", spec["preserveUnknownFields"], why))
    return found if old is None else found + _fixed(spec, old)


def _fixed(spec: Document, old: Document) -> list[Cause]:
    """What names the kind's objects in the store cannot change; the rest of its names once it is served."""
    paths: tuple[tuple[str, ...], ...] = (("group",), ("names", "plural"))
    if _is_established(old):
        paths += (("scope",), ("names", "kind"))
    found: list[Cause] = []
    for path in paths:
        found += complaints.immutable(".".join(("spec", *path)), dig(spec, *path), dig(old["spec"], *path))
    return found


def _is_established(document: Document) -> bool:
    conditions = dig(document, "status", "conditions", default=[])
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def _names(document: Document, spec: Document) -> list[Cause]:
    wanted = f"{dig(spec, 'names', 'plural', default='')}.{spec.get('group', '')}"
    name = document["metadata"].get("name", "")
    if name == wanted:
        return []
    return [complaints.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _required_names(spec: Document) -> list[Cause]:
    given = spec.get("names") or {}
    keys = ("plural", "singular", "kind", "listKind")
    return [complaints.required(f"spec.names.{key}") for key in keys if not given.get(key)]


def _named(given: Document, here: str) -> list[Cause]:
    """Upstream: several complaints about one name are one cause."""
    found: list[Cause] = []
    for key in ("plural", "singular"):
        text = given.get(key) or ""
        found += _one(f"{here}.{key}", text, names.dns_1035_label(text) if text else [])
    for key in ("kind", "listKind"):
        text = given.get(key) or ""
        whys = names.dns_1035_label(text.lower()) if text else []
        found += _one(f"{here}.{key}", text, whys, "may have mixed case, but should otherwise match: ")
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        why = "kind and listKind may not be the same"
        found.append(complaints.invalid(f"{here}.listKind", given["listKind"], why))
    for key in ("shortNames", "categories"):
        for index, text in enumerate(given.get(key) or ()):
            found += _one(f"{here}.{key}[{index}]", text, names.dns_1035_label(text))
    return found


def _one(field: str, text: str, whys: list[str], before: str = "") -> list[Cause]:
    return [complaints.invalid(field, text, before + ",".join(whys))] if whys else []


def _group(spec: Document) -> list[Cause]:
    group = spec.get("group") or ""
    if not group:
        return [complaints.required("spec.group")]
    whys = names.dns_subdomain(group)
    if not whys and "." not in group:
        whys = ["should be a domain with at least one dot"]
    return _one("spec.group", group, whys)


def _scope(spec: Document) -> list[Cause]:
    scope = spec.get("scope") or ""
    if not scope:
        return [complaints.required("spec.scope")]
    return [] if scope in SCOPES else [complaints.not_supported("spec.scope", scope, SCOPES)]


def _approval(new: Document, old: Document | None) -> list[Cause]:
    """Groups of the Kubernetes community ask for a word about who approved of the kind."""
    group = new["spec"].get("group") or ""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    said, why = _approved(new)
    if not why or (old is not None and bool(_approved(old)[0]) == bool(said)):
        return []
    where = f"metadata.annotations[{APPROVAL}]"
    return [complaints.invalid(where, said, why) if said else complaints.required(where, why)]


def _approved(document: Document) -> tuple[str, str]:
    said = (document["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    scheme, mark, host = said.partition("://")
    if said.startswith("unapproved") or (scheme and mark and host.split("/")[0]):
        return said, ""
    choice = ' with either a URL or a reason starting with "unapproved"' if said else ""
    why = f'protected groups must have approval annotation "{APPROVAL}"{choice}, see '
    return said, why + "https://github.com/kubernetes/enhancements/pull/1111"


def _stored(stored: list[str], versions: Documents) -> list[Cause]:
    field = "status.storedVersions"
    if not stored:
        return [complaints.invalid(field, None, "must have at least one stored version")]
    known = [version.get("name", "") for version in versions]
    found = [
        complaints.invalid(field, stored, f"must have the storage version {version.get('name', '')}")
        for version in versions
        if version.get("storage") and version.get("name", "") not in stored
    ]
    for index, name in enumerate(stored):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            found.append(complaints.invalid(f"{field}[{index}]", name, why))
    return found


# Upstream keeps what all versions share at the top, and complains about it there.
SHARED = {"schema": "validation", "subresources": "", "additionalPrinterColumns": "", "selectableFields": ""}


def _versions(spec: Document) -> list[Cause]:
    versions, found = spec.get("versions") or [], list[Cause]()
    shared = {key for key in SHARED if versions and all(v.get(key) == versions[0].get(key) for v in versions)}
    seen = {version.get("name") or "" for version in versions}
    if len(seen) < len(versions):
        found.append(_about_all(versions, shared, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        found.append(_about_all(versions, shared, "must have exactly one version marked as storage version"))
    if versions:
        first = versions[0].get("name") or ""
        found += _one("spec.version", first, names.dns_1035_label(first)) if first else []
    for index, version in enumerate(versions):
        name, here = version.get("name") or "", f"spec.versions[{index}]"
        found += _one(f"{here}.name", name, names.dns_1035_label(name))
        found += _deprecation(version, here)
        if dig(version, "schema", "openAPIV3Schema") is None:
            found.append(complaints.required(f"{here}.schema.openAPIV3Schema"))
        found += _version({key: value for key, value in version.items() if key not in shared}, here)
    if versions and shared:
        found += _version({key: versions[0][key] for key in shared if versions[0].get(key)}, "spec", shared=True)
    return found


def _about_all(versions: Documents, shared: set[str], why: str) -> Cause:
    shape = f"[{','.join(_go_version(version, shared) for version in versions)}]"
    return Cause("FieldValueInvalid", "spec.versions", f"Invalid value: {shape}: {why}")


def _go_version(version: Document, shared: set[str]) -> str:
    # Upstream prints the Go struct, without what has moved to the top.
    words = [f'"Name":{complaints.shown(version.get("name", ""))}']
    words += [
        f'"{key}":{complaints.shown(bool(version.get(key.lower())))}' for key in ("Served", "Storage", "Deprecated")
    ]
    rest = ("DeprecationWarning", "Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
    said = (version.get(key[0].lower() + key[1:]) if key[0].lower() + key[1:] not in shared else None for key in rest)
    return "{" + ",".join([*words, *(f'"{key}":{json.dumps(value)}' for key, value in zip(rest, said))]) + "}"


def _deprecation(version: Document, here: str) -> list[Cause]:
    warning, field = version.get("deprecationWarning"), f"{here}.deprecationWarning"
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [complaints.invalid(field, warning, "can only be set for deprecated versions")]
    whys = ["must be <= 256 characters long"] if len(warning.encode()) > 256 else []
    whys += [] if warning else ["must not be an empty string"]
    odd = next((i for i, letter in enumerate(warning) if not letter.isprintable()), None)
    if odd is not None:
        words = "must only contain printable UTF-8 characters; non-printable character found at index"
        whys.append(f"{words} {len(warning[:odd].encode())}")
    return complaints.all_invalid(field, warning, whys)


def _version(version: Document, here: str, *, shared: bool = False) -> list[Cause]:
    schema = dig(version, "schema", "openAPIV3Schema")
    where = "spec.validation.openAPIV3Schema" if shared else f"{here}.schema.openAPIV3Schema"
    status = dig(version, "subresources", "status") is not None
    found = structural.causes(schema, where, status=status) if schema is not None else []
    found += _printer_columns(version.get("additionalPrinterColumns") or [], f"{here}.additionalPrinterColumns")
    if version.get("selectableFields"):
        found += _selectable(version["selectableFields"], schema or {}, f"{here}.selectableFields")
    return found + _scale(dig(version, "subresources", "scale"), f"{here}.subresources.scale")


def _printer_columns(columns: Documents, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, given in enumerate(columns):
        here, kind, form = f"{field}[{index}]", given.get("type") or "", given.get("format") or ""
        if not given.get("name"):
            found.append(complaints.required(f"{here}.name"))
        if kind not in COLUMN_TYPES:
            why = f"must be one of {','.join(COLUMN_TYPES)}"
            where = f"{here}.type"
            found.append(complaints.invalid(where, kind, why) if kind else complaints.required(where, why))
        if form and form not in COLUMN_FORMATS:
            found.append(complaints.invalid(f"{here}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
        found += _simple_path(given.get("jsonPath") or "", f"{here}.JSONPath")
    return found


def _simple_path(path: str, field: str) -> list[Cause]:
    if not path:
        return [complaints.required(field)]
    return [] if path.startswith(".") else [complaints.invalid(field, path, SIMPLE_PATH)]


def _selectable(fields: Documents, schema: Document, here: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, given in enumerate(fields):
        path, field = given.get("jsonPath") or "", f"{here}[{index}].jsonPath"
        if not path:
            found.append(complaints.required(field))
            continue
        try:
            target = fieldpaths.follow(path, schema, brackets=False)
        except fieldpaths.BadPath as problem:
            found.append(complaints.invalid(field, path, f"is an invalid path: {problem}"))
            continue
        if path.startswith(".metadata"):
            found.append(complaints.invalid(field, path, "must not point to fields in metadata"))
        if target.get("type") not in ("string", "boolean", "integer"):
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats"
            )
            found.append(complaints.invalid(field, path, f"{why} are allowed."))
        found += [complaints.duplicate(field, path)] if path in seen else []
        seen.add(path)
    return found + ([complaints.too_many(here, len(seen), MOST_SELECTABLE)] if len(seen) > MOST_SELECTABLE else [])


def _scale(scale: Document | None, field: str) -> list[Cause]:
    if scale is None:
        return []
    found: list[Cause] = []
    for key, unders in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        path, where = scale.get(key) or "", f"{field}.{key}"
        if not path and key == "labelSelectorPath":
            continue
        broken = _simple_path(path, where)
        if not broken and not path.startswith(tuple(f"{under}." for under in unders)):
            place = unders[0] if len(unders) == 1 else "either .spec or .status"
            broken = [complaints.invalid(where, path, f"should be a json path under {place}")]
        found += broken
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
    return [
        shown.name_of(document),
        spec.get("scope", ""),
        ",".join(_version_text(version) for version in spec.get("versions") or () if version.get("served")),
        document["metadata"].get("creationTimestamp"),
        spec.get("group", ""),
        dig(spec, "names", "kind", default=""),
        ",".join(dig(spec, "names", "shortNames", default=[])),
        _is_established(document),
    ]


def _version_text(version: Document) -> str:
    return f"{version.get('name')}(storage)" if version.get("storage") else str(version.get("name"))


def warn(new: Document, old: Document | None) -> list[str]:
    """Formats that nobody checks, and sets whose items are not told apart."""
    before = _remarks(old) if old is not None else []
    return [remark for remark in _remarks(new) if remark not in before]


def _remarks(definition: Document) -> list[str]:
    found: list[str] = []
    for version in definition["spec"].get("versions") or ():
        schema = dig(version, "schema", "openAPIV3Schema") or {}
        for remark in vocabulary.remarks(schema):
            if remark not in found:
                found.append(remark)
    return found


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
