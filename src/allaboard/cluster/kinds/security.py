"""Security contexts of pods and containers: which identities and profiles they may name."""

from __future__ import annotations

import re

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import windows
from allaboard.cluster.kinds.mounts import descending

ID_RANGE = "must be between 0 and 2147483647, inclusive"
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
PATH_LIMIT = 4095
SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
IDENTITIES = ("runAsUser", "runAsGroup", "fsGroup")


def identities(context: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name in IDENTITIES:
        value = context.get(name)
        if value is not None and not 0 <= value <= 2147483647:
            found.append(complaints.invalid(f"{field}.{name}", value, ID_RANGE))
    for index, value in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= value <= 2147483647:
            found.append(complaints.invalid(f"{field}.supplementalGroups[{index}]", value, ID_RANGE))
    return found


def seccomp(context: Document, field: str) -> list[Cause]:
    given, here = context.get("seccompProfile"), f"{field}.seccompProfile"
    if given is None:
        return []
    kind, local, found = given.get("type") or "", given.get("localhostProfile"), list[Cause]()
    if not kind:
        found.append(complaints.required(f"{here}.type", "type is required when seccompProfile is set"))
    elif kind not in PROFILES:
        found.append(complaints.not_supported(f"{here}.type", kind, PROFILES))
    if kind == "Localhost":
        if local is None:
            why = "must be set when seccomp type is Localhost"
            return [*found, complaints.required(f"{here}.localhostProfile", why)]
        return found + descending(local, f"{here}.localhostProfile")
    if local is not None:
        value = complaints.struct("core.SeccompProfile", given)
        why = "can only be set when seccomp type is Localhost"
        found.append(complaints.invalid(f"{here}.localhostProfile", value, why))
    return found


def armor(context: Document, field: str) -> list[Cause]:
    given, here = context.get("appArmorProfile"), f"{field}.appArmorProfile"
    if given is None:
        return []
    kind, local, where = given.get("type") or "", given.get("localhostProfile"), f"{here}.localhostProfile"
    if kind == "Localhost":
        if not (local or "").strip() and (local or "") == (local or "").strip():
            return [complaints.required(where, "must be set when AppArmor type is Localhost")]
        if local != local.strip():
            return [complaints.invalid(where, local, "must not be padded with whitespace")]
        return [complaints.too_long(where, PATH_LIMIT)] if len(local) > PATH_LIMIT else []
    if not kind:
        return [complaints.required(f"{here}.type", "type is required when appArmorProfile is set")]
    if kind not in PROFILES:
        return [complaints.not_supported(f"{here}.type", kind, PROFILES)]
    if local is None:
        return []
    return [complaints.invalid(where, local, "can only be set when AppArmor type is Localhost")]


CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def pod(context: Document, spec: Document, field: str) -> list[Cause]:
    """The context of a whole pod, and what it shares with its host."""
    above = field.removesuffix(".securityContext")
    found = identities(context, field) + _sysctls(context.get("sysctls") or [], f"{field}.sysctls")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(complaints.invalid(f"{above}.shareProcessNamespace", spec["shareProcessNamespace"], why))
    for key, choices in CHOICES.items():
        if context.get(key) is not None and context[key] not in choices:
            found.append(complaints.not_supported(f"{field}.{key}", context[key], choices))
    found += seccomp(context, field) + windows.options(context.get("windowsOptions"), f"{field}.windowsOptions")
    return found + armor(context, field) + _host_users(spec, above) + windows.rules(spec, above)


def _sysctls(listed: Documents, field: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, entry in enumerate(listed):
        name, where = entry.get("name") or "", f"{field}[{index}].name"
        if not name:
            found.append(complaints.required(where))
        elif len(name) > 253 or not re.fullmatch(SYSCTL, name):
            why = f"must have at most 253 characters and match regex ^{SYSCTL}$"
            found.append(complaints.invalid(where, name, why))
        elif name in seen:
            found.append(complaints.duplicate(where, name))
        seen.add(name)
    return found


def _host_users(spec: Document, field: str) -> list[Cause]:
    """Upstream spells two of the fields as Go does."""
    if spec.get("hostUsers") in (None, True):
        return []
    spellings = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    why = "when `hostUsers` is false"
    return [complaints.forbidden(f"{field}.{said}", why) for key, said in spellings.items() if spec.get(key)]


def container(context: Document, field: str, *, host_users: bool = True) -> list[Cause]:
    found = identities(context, field)
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        found.append(complaints.not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    if mount == "Unmasked" and host_users:
        found.append(complaints.invalid(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    if context.get("allowPrivilegeEscalation") is False:
        value, whys = complaints.struct("core.SecurityContext", context), list[str]()
        if context.get("privileged"):
            whys.append("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            whys.append("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
        found += complaints.all_invalid(field, value, whys)
    found += windows.options(context.get("windowsOptions"), f"{field}.windowsOptions")
    return found + seccomp(context, field) + armor(context, field)
