"""What pods say of the system they run on: options of Windows, and what each system does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

NOT_ON_WINDOWS = "cannot be set for a windows pod"
NOT_ON_LINUX = "windows options cannot be set for a linux pod"
OF_PODS: tuple[str, ...] = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
)
OF_PODS += ("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy")
OF_CONTAINERS: tuple[str, ...] = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
)
OF_CONTAINERS += ("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup")
LONGEST_DOMAIN, LONGEST_USER, LONGEST_SPEC = 256, 104, 64
NET_BIOS = re.compile(r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}")
DOMAIN = re.compile(r"(?:[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.?)+")


def options(given: Document | None, field: str) -> list[Cause]:
    """The credentials and the user of a process on Windows."""
    if given is None:
        return []
    name, spec, user = (given.get(key) for key in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    found = complaints.all_invalid(f"{field}.gmsaCredentialSpecName", name, names.dns_subdomain(name) if name else [])
    if spec is not None and not 0 < len(spec.encode()) <= LONGEST_SPEC * 1024:
        why = f"size must be under {LONGEST_SPEC} KiB" if spec else "cannot be an empty string"
        found.append(complaints.invalid(f"{field}.gmsaCredentialSpec", spec, f"gmsaCredentialSpec {why}"))
    if user is not None:
        found += complaints.all_invalid(f"{field}.runAsUserName", user, [f"runAsUserName{why}" for why in _user(user)])
    return found


def _user(text: str) -> list[str]:
    if not text:
        return [" cannot be an empty string"]
    if re.search(r"[\x00-\x1f\x7f-\x9f]", text):
        return [" cannot contain control characters"]
    if text.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, mark, user = text.rpartition("\\")
    found: list[str] = []
    if len(domain) >= LONGEST_DOMAIN:
        found.append(f"'s Domain length must be under {LONGEST_DOMAIN} characters")
    if mark and not (NET_BIOS.fullmatch(domain) or DOMAIN.fullmatch(domain)):
        found.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        found.append("'s User cannot be empty")
    elif len(user) > LONGEST_USER:
        found.append(f"'s User length must not be longer than {LONGEST_USER} characters")
    if re.fullmatch(r"[. ]+", user):
        found.append("'s User cannot contain only periods or spaces")
    if re.search(r'["/\\:;|=,+*?<>@\[\]]', user):
        found.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return found


def containers_of(spec: Document, field: str) -> Iterator[tuple[Document, str]]:
    """Every container of a pod and where it stands."""
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield container, f"{field}.{part}[{index}]"


def rules(spec: Document, field: str) -> list[Cause]:
    """What does not go with the system a pod names, and the rules of processes that run on a host itself."""
    system = (spec.get("os") or {}).get("name")
    found = _on_windows(spec, field) if system == "windows" else []
    found += _on_linux(spec, field) if system == "linux" else []
    return found + _host_processes(spec, field)


def _on_linux(spec: Document, field: str) -> list[Cause]:
    contexts = [(spec, field), *containers_of(spec, field)]
    return [
        complaints.forbidden(f"{here}.securityContext.windowsOptions", NOT_ON_LINUX)
        for part, here in contexts
        if (part.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _on_windows(spec: Document, field: str) -> list[Cause]:
    wheres = [f"{field}.securityContext.{key}" for key in OF_PODS if _says(spec.get("securityContext"), key)]
    wheres += [f"{field}.{key}" for key in ("hostUsers", "shareProcessNamespace") if spec.get(key) is not None]
    wheres += [f"{field}.{key}" for key in ("hostPID", "hostIPC") if spec.get(key)]
    for part, here in containers_of(spec, field):
        wheres += [f"{here}.securityContext.{key}" for key in OF_CONTAINERS if _says(part.get("securityContext"), key)]
    return [complaints.forbidden(where, NOT_ON_WINDOWS) for where in wheres]


def _says(context: Document | None, key: str) -> bool:
    said = (context or {}).get(key)
    return bool(said) if key == "sysctls" else said is not None


def _host_processes(spec: Document, field: str) -> list[Cause]:
    of_pod = _host_process(spec)
    found, count, hosts = list[Cause](), 0, 0
    for container, here in containers_of(spec, field):
        own = _host_process(container)
        count += 1
        hosts += bool(of_pod if own is None else own)
        if None not in (of_pod, own) and of_pod != own:
            why = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            found.append(complaints.invalid(f"{here}.securityContext.windowsOptions.hostProcess", own, why))
    if hosts and hosts != count:
        why = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        found.append(complaints.invalid(field, "", why))
    if hosts and not spec.get("hostNetwork"):
        why = "hostNetwork must be true if pod contains any hostProcess containers"
        found.append(complaints.invalid(f"{field}.hostNetwork", bool(spec.get("hostNetwork")), why))
    return found


def _host_process(part: Document) -> bool | None:
    return ((part.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
