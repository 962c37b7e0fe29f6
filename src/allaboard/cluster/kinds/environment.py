"""Variables of containers: where their values may come from, and the fields of a pod that can be shown."""

from __future__ import annotations

from functools import lru_cache

from allaboard.api import names, quantity
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
RESOURCE_FIELDS = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def default(variable: Document) -> Document:
    source = variable["valueFrom"] or {}
    if source.get("fieldRef") is not None:
        source = {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}
    if source.get("resourceFieldRef") is not None:
        source = {**source, "resourceFieldRef": {"divisor": "0", **source["resourceFieldRef"]}}
    return {**variable, "valueFrom": source}


@lru_cache(maxsize=4096)
def _env_words(name: str) -> tuple[str, ...]:
    return tuple(relaxed_env_name(name))


def relaxed_env_name(name: str) -> list[str]:
    """Any printable ASCII but `=` makes a variable's name."""
    if all(" " <= letter <= "~" and letter != "=" for letter in name):
        return []
    words = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [words]


def causes(variables: Documents, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            found.append(complaints.required(f"{field}[{index}].name"))
        elif words := _env_words(name):
            found += complaints.all_invalid(f"{field}[{index}].name", name, words)
        if variable.get("valueFrom") is not None:
            found += _value_from(variable, f"{field}[{index}].valueFrom")
    return found


def _value_from(variable: Document, field: str) -> list[Cause]:
    source = variable["valueFrom"]
    given = [name for name in ENV_SOURCES if source.get(name) is not None]
    found: list[Cause] = []
    for name in given:
        found += _source(name, source[name], f"{field}.{name}")
    if not given:
        listed = ", ".join(f"`{name}`" for name in ENV_SOURCES[:-1])
        found.append(complaints.invalid(field, "", f"must specify one of: {listed} or `{ENV_SOURCES[-1]}`"))
    elif variable.get("value"):
        found.append(complaints.invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        found.append(complaints.invalid(field, "", "may not have more than one field specified at a time"))
    return found


def _source(name: str, source: Document, field: str) -> list[Cause]:
    if name == "fieldRef":
        return field_ref(source, ENV_FIELDS, field)
    if name == "resourceFieldRef":
        return resource_ref(source, field)
    if name == "fileKeyRef":
        return _file_ref(source, field)
    found = complaints.all_invalid(f"{field}.name", source.get("name", ""), names.dns_subdomain(source.get("name", "")))
    if not source.get("key"):
        return [*found, complaints.required(f"{field}.key")]
    return found + complaints.all_invalid(f"{field}.key", source["key"], names.config_key(source["key"]))


def _file_ref(source: Document, field: str) -> list[Cause]:
    found = [complaints.required(f"{field}.{key}") for key in ("key", "volumeName", "path") if not source.get(key)]
    key, name, path = (source.get(part) or "" for part in ("key", "volumeName", "path"))
    found += complaints.all_invalid(f"{field}.key", key, relaxed_env_name(key))
    found += complaints.all_invalid(f"{field}.volumeName", name, names.dns_label(name) if name else [])
    if ".." in path.split("/"):
        found.append(complaints.invalid(f"{field}.path", path, "must not contain '..'"))
    return found


DOWNWARD = {
    *ENV_FIELDS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
}


def field_ref(reference: Document, allowed: tuple[str, ...], field: str) -> list[Cause]:
    """A field of the pod, as a variable or a file may show it."""
    path, version = reference.get("fieldPath") or "", reference.get("apiVersion") or ""
    if not version:
        return [complaints.required(f"{field}.apiVersion")]
    if not path:
        return [complaints.required(f"{field}.fieldPath")]
    if version != "v1":
        why = f"error converting fieldPath: unsupported pod version: {version}"
        return [complaints.invalid(f"{field}.fieldPath", path, why)]
    base, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        key = rest[:-2]
        if base not in ("metadata.annotations", "metadata.labels"):
            return [_unknown_field(field, path, "does not support subscript" if base in DOWNWARD else "not supported")]
        words = names.qualified_name(key.lower() if base == "metadata.annotations" else key)
        return complaints.all_invalid(field, key, words)
    if path not in DOWNWARD:
        return [_unknown_field(field, path)]
    return [] if path in allowed else [complaints.not_supported(f"{field}.fieldPath", path, sorted(allowed))]


def _unknown_field(field: str, path: str, what: str = "not supported") -> Cause:
    why = f"error converting fieldPath: field label {what}: {path}"
    return complaints.invalid(f"{field}.fieldPath", path, why)


def resource_ref(reference: Document, field: str, *, volume: bool = False) -> list[Cause]:
    name = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [complaints.required(f"{field}.containerName")]
    if not name:
        return [complaints.required(f"{field}.resource")]
    if name not in RESOURCE_FIELDS and not name.startswith(("limits.hugepages-", "requests.hugepages-")):
        return [complaints.not_supported(f"{field}.resource", name, RESOURCE_FIELDS)]
    divisor = quantity.canonical(reference.get("divisor") or "0")
    if name.endswith(".cpu") and divisor not in ("0", "1", "1m"):
        why = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [complaints.invalid(f"{field}.divisor", name, why)]
    if not name.endswith(".cpu") and divisor not in ("0", *DIVISORS):
        resource = name.partition(".")[2]
        resource = "hugepages" if resource.startswith("hugepages-") else resource
        resource = {"ephemeral-storage": "local ephemeral storage"}.get(resource, resource)
        why = f"only divisor's values {', '.join(DIVISORS)} are supported with the {resource} resource"
        return [complaints.invalid(f"{field}.divisor", name, why)]
    return []


def from_causes(sources: Documents, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            found += complaints.all_invalid(f"{field}[{index}].prefix", prefix, relaxed_env_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            found += _named(source[name].get("name") or "", f"{field}[{index}].{name}.name")
        if not given:
            found.append(complaints.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            found.append(complaints.invalid(field, "", "may not have more than one field specified at a time"))
    return found


def _named(name: str, field: str) -> list[Cause]:
    if not name:
        return [complaints.required(field)]
    return complaints.all_invalid(field, name, names.dns_subdomain(name))
