"""Security contexts of pods and containers: which identities and profiles they may name."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

ID_RANGE = "must be between 0 and 2147483647, inclusive"
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
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


def profile(context: Document, name: str, field: str) -> list[Cause]:
    """A seccomp or AppArmor profile: named by type, and by file only where it is local."""
    given = context.get(name)
    if given is None:
        return []
    kind, local = given.get("type") or "", given.get("localhostProfile")
    if not kind:
        return [complaints.required(f"{field}.{name}.type", f"type is required when {name} is set")]
    if kind not in PROFILES:
        return [complaints.not_supported(f"{field}.{name}.type", kind, PROFILES)]
    if kind == "Localhost" and not local:
        why = f"must be set when {'seccomp' if name == 'seccompProfile' else 'AppArmor'} type is Localhost"
        return [complaints.required(f"{field}.{name}.localhostProfile", why)]
    if kind != "Localhost" and local:
        why = f"can only be set when {'seccomp' if name == 'seccompProfile' else 'AppArmor'} type is Localhost"
        return [complaints.invalid(f"{field}.{name}.localhostProfile", local, why)]
    return []


def pod(context: Document, spec: Document, field: str) -> list[Cause]:
    found = identities(context, field)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(complaints.invalid(f"{field}.shareProcessNamespace", spec["shareProcessNamespace"], why))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in ("Always", "OnRootMismatch"):
        found.append(complaints.not_supported(f"{field}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    groups = context.get("supplementalGroupsPolicy")
    if groups is not None and groups not in ("Merge", "Strict"):
        found.append(complaints.not_supported(f"{field}.supplementalGroupsPolicy", groups, ("Merge", "Strict")))
    return found + profile(context, "seccompProfile", field) + profile(context, "appArmorProfile", field)


def container(context: Document, field: str) -> list[Cause]:
    found = identities(context, field)
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        found.append(complaints.not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            found.append(complaints.invalid(field, context, why))
        if "SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(complaints.invalid(field, context, why))
    return found + profile(context, "seccompProfile", field) + profile(context, "appArmorProfile", field)
