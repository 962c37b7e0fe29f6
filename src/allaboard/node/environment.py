"""The environment of a container: sources, references, `$(NAME)` expansion and service variables."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from allaboard.api import quantity
from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of, uid_of

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


class MissingSource(Exception):
    """A ConfigMap, Secret or key that must be there is not; Kubernetes says CreateContainerConfigError."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything an environment may draw on, already loaded. A missing object is None."""

    pod: Document
    config_maps: Mapping[str, Document | None] = field(default_factory=dict)
    secrets: Mapping[str, Document | None] = field(default_factory=dict)
    services: tuple[Document, ...] = ()
    address: str = ""
    host: str = ""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    api: tuple[str, int] = ("", 443)


def expand(text: str, known: Mapping[str, str]) -> str:
    """Upstream: `$(NAME)` of known names is replaced, `$$` is a dollar, everything else stays as it is."""

    def one(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return known.get(found[2], found[0])

    return _REFERENCE.sub(one, text)


def resolve(container: Document, sources: Sources) -> dict[str, str]:
    """The variables of one container, in the order that decides which wins."""
    variables = dict(service_variables(sources))
    for entry in container.get("envFrom") or []:
        variables |= _from(entry, sources)
    for entry in container.get("env") or []:
        value = _value(entry, container, sources, variables)
        if value is not None:
            variables[entry["name"]] = value
    return variables


def command_line(container: Document, variables: Mapping[str, str]) -> list[str]:
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [expand(word, variables) for word in words]


def _from(entry: Document, sources: Sources) -> dict[str, str]:
    prefix = entry.get("prefix", "")
    if "configMapRef" in entry:
        data = _object(entry["configMapRef"], sources.config_maps, "configmap")
        return {prefix + name: value for name, value in (data.get("data") or {}).items()}
    data = _object(entry.get("secretRef") or {}, sources.secrets, "secret")
    return {prefix + name: _text(value) for name, value in (data.get("data") or {}).items()}


def _object(reference: Document, known: Mapping[str, Document | None], word: str) -> Document:
    found = known.get(reference.get("name", ""))
    if found is None and not reference.get("optional"):
        raise MissingSource(f'{word} "{reference.get("name", "")}" not found')
    return found or {}


def _text(encoded: object) -> str:
    return decode(str(encoded)).decode(errors="surrogateescape")


def decode(encoded: str) -> bytes:
    """Base64, as Secrets carry it."""
    return b64decode(encoded)


def _value(entry: Document, container: Document, sources: Sources, known: Mapping[str, str]) -> str | None:
    source = entry.get("valueFrom")
    if entry.get("value") or not source:
        return expand(entry.get("value") or "", known)
    if "configMapKeyRef" in source:
        return _key(source["configMapKeyRef"], sources.config_maps, "configmap")
    if "secretKeyRef" in source:
        found = _key(source["secretKeyRef"], sources.secrets, "secret")
        return None if found is None else _text(found)
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], sources)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], container, sources)
    raise MissingSource(f'env "{entry["name"]}": unknown source {", ".join(source)}')


def _key(reference: Document, known: Mapping[str, Document | None], word: str) -> str | None:
    data = _object(reference, known, word)
    values: Document = data.get("data") or {}
    if reference["key"] in values:
        return str(values[reference["key"]])
    if reference.get("optional"):
        return None
    title = "ConfigMap" if word == "configmap" else "Secret"
    where = f"{namespace_of(data)}/{reference.get('name')}"
    raise MissingSource(f"couldn't find key {reference['key']} in {title} {where}")


def field_value(path: str, sources: Sources) -> str:
    """What the downward API says about the pod."""
    pod = sources.pod
    if found := _SUBSCRIPT.match(path):
        return str((labels_of(pod) if found[1] == "labels" else annotations_of(pod)).get(found[2], ""))
    simple = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": dig(pod, "spec", "nodeName", default=""),
        "spec.serviceAccountName": dig(pod, "spec", "serviceAccountName", default=""),
        "status.hostIP": sources.host,
        "status.hostIPs": sources.host,
        "status.podIP": sources.address,
        "status.podIPs": sources.address,
        "metadata.labels": _listing(labels_of(pod)),
        "metadata.annotations": _listing(annotations_of(pod)),
    }
    if path not in simple:
        raise MissingSource(f'unsupported fieldPath "{path}"')
    return str(simple[path])


def _listing(values: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={_quoted(values[name])}" for name in sorted(values))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def resource_value(reference: Document, container: Document, sources: Sources) -> str:
    """A limit or request in units of a divisor, rounded up; without a limit what the node can give."""
    which, _, name = str(reference["resource"]).partition(".")
    if reference.get("containerName"):
        everyone = [*sources.pod["spec"]["containers"], *(sources.pod["spec"].get("initContainers") or [])]
        container = next((c for c in everyone if c["name"] == reference["containerName"]), container)
    value = dig(container, "resources", which, name)
    if value is None and which == "limits":
        value = sources.allocatable.get(name)
    divisor = quantity.parse(reference.get("divisor") or "1").nanos or quantity.NANO
    return str(-(-quantity.parse(value or 0).nanos // divisor))


def service_variables(sources: Sources) -> Iterator[tuple[str, str]]:
    """Where services are, the old way: always the API server, and every service with an address of its own."""
    host, port = sources.api
    if host:
        yield from _links("KUBERNETES", host, [{"name": "https", "port": port, "protocol": "TCP"}])
    if dig(sources.pod, "spec", "enableServiceLinks", default=True):
        for service in sources.services:
            address = dig(service, "spec", "clusterIP")
            if address not in (None, "", "None") and name_of(service) != "kubernetes":
                name = name_of(service).upper().replace("-", "_")
                yield from _links(name, address, dig(service, "spec", "ports", default=[]))


def _links(name: str, host: str, ports: Iterable[Document]) -> Iterator[tuple[str, str]]:
    listed = list(ports)
    yield f"{name}_SERVICE_HOST", host
    for index, port in enumerate(listed):
        if index == 0:
            yield f"{name}_SERVICE_PORT", str(port["port"])
            yield f"{name}_PORT", f"{port.get('protocol', 'TCP').lower()}://{host}:{port['port']}"
        if port.get("name"):
            yield f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}", str(port["port"])
        protocol = port.get("protocol", "TCP")
        link = f"{name}_PORT_{port['port']}_{protocol}"
        yield link, f"{protocol.lower()}://{host}:{port['port']}"
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(port["port"])
        yield f"{link}_ADDR", host
