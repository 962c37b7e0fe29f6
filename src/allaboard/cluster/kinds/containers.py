"""The containers of a pod: their defaults and every rule one of them can break."""

from __future__ import annotations

import re
from functools import lru_cache

from allaboard.api import names
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.api.twins import made_once
from allaboard.cluster import complaints
from allaboard.cluster.kinds import environment, mounts, probes, resources, security

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9])(?::\d+)?/)?"
REFERENCE = re.compile(rf"{_DOMAIN}{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?")
DEFAULTS = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
GROWN_UP = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
RESTART_ACTIONS = ("Restart", "RestartAllContainers")
SIDECAR_ONLY = "may not be set for init containers without restartPolicy=Always"
# Defaults


@made_once
def default_all(listed: Documents) -> Documents:
    return [default(container) for container in listed]


@made_once
def default_of_pod(listed: Documents) -> Documents:
    """Containers of a pod ask for what they are limited to; in a template that is left open."""
    return [requests_from_limits(container) for container in listed]


def default(container: Document) -> Document:
    filled = {**DEFAULTS, **container}
    if not filled.get("imagePullPolicy"):
        filled["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for probe in probes.PROBES:
        if container.get(probe) is not None:
            filled[probe] = probes.default_probe(container[probe])
    if container.get("resources"):
        filled["resources"] = resources.in_milli(container["resources"])
    if container.get("lifecycle") is not None:
        filled["lifecycle"] = probes.default_lifecycle(container["lifecycle"])
    if env := container.get("env"):
        filled["env"] = [environment.default(variable) if "valueFrom" in variable else variable for variable in env]
    return filled


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """Images that can change under their name are pulled every time; a name that is none is not pulled at all."""
    name, _, digest = image.partition("@")
    if not REFERENCE.fullmatch(name):
        return "IfNotPresent"
    tag = name.rpartition("/")[2].partition(":")[2]
    latest = tag == "latest" or (not tag and not digest and bool(image))
    return "Always" if latest else "IfNotPresent"


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
    seen, found = set[str](), list[Cause]()
    for index, container in enumerate(listed):
        here = f"{field}[{index}]"
        found += shared(container, spec, volumes, here)
        found += _fresh_name(container, seen, here)
        found += probes.container(container, spec, here)
        found += _restart(container, here)
    return found + host_ports(listed, field)


def initial(spec: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    found: list[Cause] = []
    seen = {container.get("name") or "" for container in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        here = f"{field}[{index}]"
        found += shared(container, spec, volumes, here)
        found += _restart(container, here)
        found += _fresh_name(container, seen, here)
        found += host_ports([container], field)
        if container.get("restartPolicy") == "Always":
            found += probes.container(container, spec, here)
        else:
            given = [part for part in ("lifecycle", *probes.PROBES) if container.get(part) is not None]
            found += [complaints.forbidden(f"{here}.{part}", SIDECAR_ONLY) for part in given]
    return found


def ephemeral(spec: Document, volumes: dict[str, Document], field: str) -> list[Cause]:
    """Containers for a closer look, put into a pod that runs."""
    parts = [container for part in ("containers", "initContainers") for container in spec.get(part) or ()]
    others, found = {container.get("name") or "" for container in parts}, list[Cause]()
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, target = f"{field}[{index}]", container.get("targetContainerName")
        found += shared(container, spec, volumes, here)
        found += _fresh_name(container, seen, here)
        if target and target not in others:
            found.append(complaints.not_found(f"{here}.targetContainerName", target))
        found += [complaints.forbidden(f"{here}.{key}", NOT_EPHEMERAL) for key in GROWN_UP if container.get(key)]
        for place, mount in enumerate(container.get("volumeMounts") or ()):
            given = [key for key in ("subPath", "subPathExpr") if mount.get(key)]
            found += [complaints.forbidden(f"{here}.volumeMounts[{place}].{key}", NOT_EPHEMERAL) for key in given]
    return found


def _fresh_name(container: Document, seen: set[str], here: str) -> list[Cause]:
    name = container.get("name") or ""
    if name in seen:
        return [complaints.duplicate(f"{here}.name", name)]
    if name:
        seen.add(name)
    return []


def shared(container: Document, spec: Document, volumes: dict[str, Document], here: str) -> list[Cause]:
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
        found += environment.causes(env, f"{here}.env")
    if sources := container.get("envFrom"):
        found += environment.from_causes(sources, f"{here}.envFrom")
    if mounted := container.get("volumeMounts"):
        found += mounts.causes(mounted, container, volumes, f"{here}.volumeMounts")
    if devices := container.get("volumeDevices"):
        found += mounts.device_causes(devices, mounted or [], volumes, f"{here}.volumeDevices")
    if asked := container.get("resources"):
        found += resources.requirements(asked, f"{here}.resources")
        found += resources.claims(asked.get("claims") or [], spec, f"{here}.resources.claims")
    if policies := container.get("resizePolicy"):
        found += _resizing(policies, spec.get("restartPolicy"), f"{here}.resizePolicy")
    if context := container.get("securityContext"):
        host_users = spec.get("hostUsers") in (None, True)
        found += security.container(context, f"{here}.securityContext", host_users=host_users)
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
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    found: list[Cause] = []
    if policy is None:
        if not rules:
            return []
        why = "must specify restartPolicy when restart rules are used"
        found.append(complaints.required(f"{here}.restartPolicy", why))
        if ".initContainers[" in here:
            return found
    elif policy not in RESTART_POLICIES:
        found.append(complaints.not_supported(f"{here}.restartPolicy", policy, RESTART_POLICIES))
    elif policy == "Always" and rules and ".initContainers[" in here:
        why = "restartPolicyRules are not allowed for init containers with restart policy Always"
        return [complaints.forbidden(f"{here}.restartPolicyRules", why)]
    for index, rule in enumerate(rules):
        found += _restart_rule(rule, f"{here}.restartPolicyRules[{index}]")
    return found


def _restart_rule(rule: Document, here: str) -> list[Cause]:
    found: list[Cause] = []
    if rule.get("action") not in RESTART_ACTIONS:
        found.append(complaints.not_supported(f"{here}.action", rule.get("action") or "", RESTART_ACTIONS))
    codes = rule.get("exitCodes")
    if codes is None:
        return [*found, complaints.required(f"{here}.exitCodes", "must be specified")]
    operator = codes.get("operator") or ""
    if operator not in ("In", "NotIn"):
        found.append(complaints.not_supported(f"{here}.exitCodes.operator", operator, ("In", "NotIn")))
    return found


def _resizing(policies: Documents, restart: str | None, field: str) -> list[Cause]:
    """What a change of resources means for a running container."""
    seen, found = set[str](), list[Cause]()
    for index, policy in enumerate(policies):
        name, wanted = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            found.append(complaints.duplicate(f"{field}[{index}]", name))
        seen.add(name)
        for value, choices in ((name, ("cpu", "memory")), (wanted, ("NotRequired", "RestartContainer"))):
            if not value:
                found.append(complaints.required(field))
            elif value not in choices:
                found.append(complaints.not_supported(field, value, choices))
        if restart == "Never" and wanted != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(complaints.invalid(field, wanted, why))
    return found


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
