"""Requests and limits: which resource names and amounts a container may ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from allaboard.api import names, quantity
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

HUGE_PAGES = "hugepages-"
FOR_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
NATIVE = "kubernetes.io/"
COUNTED = frozenset(
    ["pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"]
)
STANDARD = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
)


def in_milli(asked: Document) -> Document:
    """Requests and limits rounded up to what the server keeps: thousandths."""
    sides = {side: listed for side in ("limits", "requests") if (listed := asked.get(side))}
    rounded = {side: {name: _milli(amount) for name, amount in listed.items()} for side, listed in sides.items()}
    return asked if all(rounded[side] == sides[side] for side in sides) else {**asked, **rounded}


@lru_cache(maxsize=4096)
def _milli(amount: str) -> str:
    value = quantity.parse(amount)
    return amount if value.nanos % 1_000_000 == 0 else quantity.canonical(f"{value.milli_value()}m")


Named = Callable[[str], tuple[str, ...]]


def is_huge(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    return "/" not in name or NATIVE in name


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge(name)


def is_extended(name: str) -> bool:
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


@lru_cache(maxsize=1024)
def name_complaints(name: str) -> tuple[str, ...]:
    """What is wrong with a resource name of a container."""
    if found := names.qualified_name(name):
        return (*found, "must be a standard resource for containers") if "/" not in name else tuple(found)
    if "/" not in name:
        known = name in FOR_CONTAINERS or is_huge(name)
        typed = () if name in STANDARD or is_huge(name) else ("must be a standard resource type or fully qualified",)
        return typed if known else (*typed, "must be a standard resource for containers")
    return () if is_native(name) or is_extended(name) else ("doesn't follow extended resource name standard",)


def pod_name_complaints(name: str) -> tuple[str, ...]:
    """What is wrong with a resource name of a whole pod, but for its not being one of the few."""
    if found := names.qualified_name(name):
        return tuple(found)
    return (
        ()
        if "/" in name or name in STANDARD or is_huge(name)
        else ("must be a standard resource type or fully qualified",)
    )


@lru_cache(maxsize=4096)
def amount_complaints(name: str, amount: str) -> tuple[str, ...]:
    """What is wrong with an amount of a resource."""
    value = quantity.parse(amount)
    found = [complaints.NEGATIVE] if value.nanos < 0 else []
    whole_only = not is_native(name) or name in COUNTED
    if whole_only and value.milli_value() % 1000:
        found.append("must be an integer")
    if is_huge(name):
        found += _pages(name, value)
    return tuple(found)


def _pages(name: str, value: quantity.Quantity) -> list[str]:
    """Huge pages come whole."""
    try:
        page = quantity.parse(name.removeprefix(HUGE_PAGES))
    except quantity.BadQuantity:
        return [f"{value} is not positive integer multiple of {name}"]
    whole = value.nanos > 0 and value.nanos % page.nanos == 0
    return [] if whole or value.nanos == 0 else [f"{value} is not positive integer multiple of {name}"]


def requirements(resources: Document, field: str, named: Named = name_complaints) -> list[Cause]:
    """Every breach in the `resources` of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return []
    found = amounts(limits, f"{field}.limits", named) + amounts(requests, f"{field}.requests", named)
    asked = limits.keys() | requests.keys()
    # Upstream: huge pages back cpu and memory with pages; they cannot be the only thing asked for.
    if any(is_huge(name) for name in asked) and not asked & {"cpu", "memory"}:
        found.append(complaints.forbidden(field, "HugePages require cpu or memory"))
    for name, amount in requests.items():
        found += _against_limit(name, amount, limits, field)
    return found


FOR_PODS = ("cpu", "hugepages-", "memory")


def whole_pod(spec: Document, field: str) -> list[Cause]:
    """What a pod asks for as a whole: of little, and never less than its containers together."""
    asked, found = spec["resources"], list[Cause]()
    if asked.get("claims"):
        found.append(complaints.forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level"))
        found += claims(asked["claims"], spec, f"{field}.claims")
    found += requirements(asked, field, pod_name_complaints)
    listed = spec.get("containers") or []
    sums = quantity.total([quantity.resources((c.get("resources") or {}).get("requests")) for c in listed])
    for name, limit in (asked.get("limits") or {}).items():
        for index, container in enumerate(listed):
            amount = ((container.get("resources") or {}).get("limits") or {}).get(name)
            if amount is not None and quantity.parse(amount) > quantity.parse(limit):
                why = f"must be less than or equal to pod limits of {limit}"
                found.append(complaints.invalid(f"{field}.containers[{index}][{name}].limits", amount, why))
    for name, amount in sums.items():
        own = (asked.get("requests") or {}).get(name)
        if own is not None and amount > quantity.parse(own):
            why = f"must be greater than or equal to aggregate container requests of {amount}"
            found.append(complaints.invalid(f"{field}.requests[{name}]", own, why))
    return found


def claims(listed: Documents, spec: Document, field: str) -> list[Cause]:
    """The devices a container wants of those its pod claims."""
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen, found = set[str](), list[Cause]()
    for index, claim in enumerate(listed):
        name, request, here = claim.get("name") or "", claim.get("request") or "", f"{field}[{index}]"
        if not name:
            found.append(complaints.required(here))
            continue
        if request:
            found += complaints.all_invalid(f"{here}.request", request, names.dns_label(request))
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen:
            found.append(complaints.duplicate(here, key if name not in seen else name))
        seen.add(key)
        if name not in known:
            listing = f": {', '.join(sorted(str(n) for n in known))}" if known else " which is empty"
            words = f"Not found: {complaints.shown(name)}: must be one of the names in pod.spec.resourceClaims{listing}"
            found.append(Cause("FieldValueNotFound", here, words))
    return found


def amounts(listed: Document, field: str, named: Named = name_complaints) -> list[Cause]:
    found: list[Cause] = []
    for name, amount in listed.items():
        wrong = named(name)
        for why in wrong:
            found.append(complaints.invalid(f"{field}[{name}]", name, why))
        if not wrong and named is pod_name_complaints and name not in FOR_PODS and not is_huge(name):
            found.append(complaints.not_supported(f"{field}[{name}]", name, FOR_PODS))
        for why in amount_complaints(name, str(amount)):
            found.append(complaints.invalid(f"{field}[{name}]", str(amount), why))
    return found


def _against_limit(name: str, amount: str, limits: Document, field: str) -> list[Cause]:
    limit = limits.get(name)
    if limit is None:
        if may_overcommit(name):
            return []
        return [complaints.required(f"{field}.limits", "Limit must be set for non overcommitable resources")]
    if amount == limit:
        return []
    asked, allowed = quantity.parse(amount), quantity.parse(limit)
    if asked != allowed and not may_overcommit(name):
        return [complaints.invalid(f"{field}.requests", str(amount), f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        why = f"must be less than or equal to {name} limit of {limit}"
        return [complaints.invalid(f"{field}.requests", str(amount), why)]
    return []
