"""The containers of a pod: their defaults and every rule one of them can break."""

from __future__ import annotations

from functools import lru_cache

from allaboard.api import names, quantity
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import probes, resources, security

DEFAULTS = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
SIDECAR_ONLY = "may not be set for init containers without restartPolicy=Always"
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
ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


# Defaults


def default_all(listed: Documents) -> Documents:
    return [default(container) for container in listed]


def default(container: Document) -> Document:
    filled = {**DEFAULTS, **container}
    if not filled.get("imagePullPolicy"):
        filled["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for probe in probes.PROBES:
        if container.get(probe) is not None:
            filled[probe] = probes.default_probe(container[probe])
    if container.get("lifecycle") is not None:
        filled["lifecycle"] = probes.default_lifecycle(container["lifecycle"])
    if env := container.get("env"):
        filled["env"] = [default_env(variable) if "valueFrom" in variable else variable for variable in env]
    return filled


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """Images that can change under their name are pulled every time."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    latest = tag == "latest" or (not tag and not digest and bool(image))
    return "Always" if latest else "IfNotPresent"


def default_env(variable: Document) -> Document:
    source = variable["valueFrom"] or {}
    if source.get("fieldRef") is not None:
        source = {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}
    if source.get("resourceFieldRef") is not None:
        source = {**source, "resourceFieldRef": {"divisor": "0", **source["resourceFieldRef"]}}
    return {**variable, "valueFrom": source}


def requests_from_limits(container: Document) -> Document:
    """What a container is limited to it also asks for, unless it says otherwise. Pods only, not templates."""
    asked = container.get("resources") or {}
    limits = asked.get("limits")
    if not limits:
        return container
    return {**container, "resources": {**asked, "requests": {**limits, **(asked.get("requests") or {})}}}


# Rules


def regular(spec: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    listed = spec.get("containers") or []
    if not listed:
        return [complaints.required(field)]
    grace, seen, found = spec.get("terminationGracePeriodSeconds") or 0, set[str](), list[Cause]()
    for index, container in enumerate(listed):
        here = f"{field}[{index}]"
        found += shared(container, volumes, here)
        found += _fresh_name(container, seen, here)
        found += probes.container(container, here, grace)
        found += _restart(container, here)
    return found + host_ports(listed, field)


def initial(spec: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    grace, found = spec.get("terminationGracePeriodSeconds") or 0, list[Cause]()
    seen = {container.get("name") or "" for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        here = f"{field}[{index}]"
        found += shared(container, volumes, here)
        found += _restart(container, here)
        found += _fresh_name(container, seen, here)
        found += host_ports([container], field)
        if container.get("restartPolicy") == "Always":
            found += probes.container(container, here, grace)
        else:
            given = [part for part in ("lifecycle", *probes.PROBES) if container.get(part) is not None]
            found += [complaints.forbidden(f"{here}.{part}", SIDECAR_ONLY) for part in given]
    return found


def _fresh_name(container: Document, seen: set[str], here: str) -> list[Cause]:
    name = container.get("name") or ""
    if name in seen:
        return [complaints.duplicate(f"{here}.name", name)]
    if name:
        seen.add(name)
    return []


def shared(container: Document, volumes: dict[str, Document], here: str) -> list[Cause]:
    """The rules every container keeps, whatever its place in the pod."""
    found: list[Cause] = []
    name = container.get("name") or ""
    if not name:
        found.append(complaints.required(f"{here}.name"))
    elif words := label(name):
        found += complaints.all_invalid(f"{here}.name", name, words)
    if not container.get("image"):
        found.append(complaints.required(f"{here}.image"))
    found += one_of(container, "terminationMessagePolicy", MESSAGE_POLICIES, here)
    found += one_of(container, "imagePullPolicy", PULL_POLICIES, here)
    if ports := container.get("ports"):
        found += _ports(ports, f"{here}.ports")
    if env := container.get("env"):
        found += _env(env, f"{here}.env")
    if sources := container.get("envFrom"):
        found += _env_from(sources, f"{here}.envFrom")
    if mounts := container.get("volumeMounts"):
        found += _mounts(mounts, container, volumes, f"{here}.volumeMounts")
    if devices := container.get("volumeDevices"):
        found += _devices(devices, volumes, f"{here}.volumeDevices")
    if asked := container.get("resources"):
        found += resources.requirements(asked, f"{here}.resources")
    if context := container.get("securityContext"):
        found += security.container(context, f"{here}.securityContext")
    return found


@lru_cache(maxsize=4096)
def label(name: str) -> tuple[str, ...]:
    return tuple(names.dns_label(name))


def one_of(document: Document, key: str, choices: tuple[str, ...], here: str) -> list[Cause]:
    """A word that must be given and be one of a few."""
    value = document.get(key) or ""
    if value in choices:
        return []
    where = f"{here}.{key}" if here else key
    return [complaints.not_supported(where, value, choices)] if value else [complaints.required(where)]


def _restart(container: Document, here: str) -> list[Cause]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        why = "must specify restartPolicy when restart rules are used"
        return [complaints.required(f"{here}.restartPolicy", why)] if rules else []
    if policy not in RESTART_POLICIES:
        return [complaints.not_supported(f"{here}.restartPolicy", policy, RESTART_POLICIES)]
    return []


def _ports(ports: Documents, field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    for index, port in enumerate(ports):
        here = f"{field}[{index}]"
        if name := port.get("name"):
            words = names.port_name(name)
            found += complaints.all_invalid(f"{here}.name", name, words)
            if name in seen:
                found.append(complaints.duplicate(f"{here}.name", name))
            elif not words:
                seen.add(name)
        if not port.get("containerPort"):
            found.append(complaints.required(f"{here}.containerPort"))
        else:
            found += probes.port_causes(port["containerPort"], f"{here}.containerPort")
        if port.get("hostPort"):
            found += probes.port_causes(port["hostPort"], f"{here}.hostPort")
        found += one_of(port, "protocol", PROTOCOLS, here)
    return found


def host_ports(listed: Documents, field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    for index, container in enumerate(listed):
        for place, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if text in seen:
                    found.append(complaints.duplicate(f"{field}[{index}].ports[{place}].hostPort", text))
                seen.add(text)
    return found


@lru_cache(maxsize=4096)
def _env_words(name: str) -> tuple[str, ...]:
    return tuple(relaxed_env_name(name))


def relaxed_env_name(name: str) -> list[str]:
    """Any printable ASCII but `=` makes a variable's name."""
    if all(" " <= letter <= "~" and letter != "=" for letter in name):
        return []
    words = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [words]


def _env(variables: Documents, field: str) -> list[Cause]:
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
        return [complaints.required(f"{field}.{key}") for key in ("key", "volumeName", "path") if not source.get(key)]
    found = complaints.all_invalid(f"{field}.name", source.get("name", ""), names.dns_subdomain(source.get("name", "")))
    if not source.get("key"):
        return [*found, complaints.required(f"{field}.key")]
    return found + complaints.all_invalid(f"{field}.key", source["key"], names.config_key(source["key"]))


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
    path = reference.get("fieldPath") or ""
    if not path:
        return [complaints.required(f"{field}.fieldPath")]
    base, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        key = rest[:-2]
        if base not in ("metadata.annotations", "metadata.labels"):
            return [_unknown_field(field, path)]
        words = names.qualified_name(key.lower() if base == "metadata.annotations" else key)
        return complaints.all_invalid(field, key, words)
    if path not in DOWNWARD:
        return [_unknown_field(field, path)]
    return [] if path in allowed else [complaints.not_supported(f"{field}.fieldPath", path, sorted(allowed))]


def _unknown_field(field: str, path: str) -> Cause:
    why = f"error converting fieldPath: field label not supported: {path}"
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
    return []


def _env_from(sources: Documents, field: str) -> list[Cause]:
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


def _mounts(mounts: Documents, container: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    devices = container.get("volumeDevices") or ()
    for index, mount in enumerate(mounts):
        here, name, path = f"{field}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.append(complaints.required(f"{here}.name"))
        if name not in volumes:
            found.append(complaints.not_found(f"{here}.name", name))
        if not path:
            found.append(complaints.required(f"{here}.mountPath"))
        if path in seen:
            found.append(complaints.invalid(f"{here}.mountPath", path, "must be unique"))
        seen.add(path)
        if any(device.get("name") == name for device in devices):
            found.append(complaints.invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
        if len(mount) > 2:
            found += _mount_details(mount, container, field, here)
    return found


def _mount_details(mount: Document, container: Document, field: str, here: str) -> list[Cause]:
    found: list[Cause] = []
    for part in ("subPath", "subPathExpr"):
        if mount.get(part):
            found += descending(mount[part], f"{field}.{part}")
    if mount.get("subPath") and mount.get("subPathExpr"):
        why = "subPathExpr and subPath are mutually exclusive"
        found.append(complaints.invalid(f"{here}.subPathExpr", mount["subPathExpr"], why))
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in ("Bidirectional", "HostToContainer", "None"):
        choices = ("Bidirectional", "HostToContainer", "None")
        found.append(complaints.not_supported(f"{field}.mountPropagation", propagation, choices))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        found.append(complaints.forbidden(f"{field}.mountPropagation", why))
    return found


def descending(path: str, field: str) -> list[Cause]:
    """A path that stays inside the directory it starts from."""
    found = [complaints.invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + no_backsteps(path, field)


def no_backsteps(path: str, field: str) -> list[Cause]:
    return [complaints.invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def _devices(devices: Documents, volumes: dict[str, Document], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, device in enumerate(devices):
        here, name = f"{field}[{index}]", device.get("name") or ""
        if not name:
            found.append(complaints.required(f"{here}.name"))
        volume = volumes.get(name)
        if volume is None:
            found.append(complaints.not_found(f"{here}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(complaints.invalid(f"{here}.name", name, why))
        if not device.get("devicePath"):
            found.append(complaints.required(f"{here}.devicePath"))
    return found
