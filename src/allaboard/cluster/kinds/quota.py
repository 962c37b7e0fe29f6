"""ResourceQuota: how much of everything a namespace may hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names, quantity
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import resources, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

COUNTED = frozenset(
    [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
AMOUNTS = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ]
)
ONLY_THERE = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
OPPOSITES = (("Terminating", "NotTerminating"), ("BestEffort", "NotBestEffort"))
STANDARD = AMOUNTS - {"requests.storage"} | COUNTED
SCOPES = frozenset(
    [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
    ]
)


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if subresource == "status":
        status = new.get("status") or {}
        return [c for part in ("hard", "used") for c in _amounts(status.get(part) or {}, f"status.{part}")]
    spec, found = new.get("spec") or {}, list[Cause]()
    found += _amounts(spec.get("hard") or {}, "spec.hard")
    scopes = spec.get("scopes") or []
    if any(scope not in SCOPES for scope in scopes):
        found.append(complaints.invalid("spec.scopes", scopes, "unsupported scope"))
    if any(set(pair) <= set(scopes) for pair in OPPOSITES):
        found.append(complaints.invalid("spec.scopes", scopes, "conflicting scopes"))
    limited = [name for name in spec.get("hard") or () if name != "pods" and name in STANDARD]
    if "BestEffort" in scopes and limited:
        found += [complaints.invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in limited]
    found += _scope_selector(dig(spec, "scopeSelector", "matchExpressions", default=[]))
    if old is not None:
        found += complaints.immutable("spec.scopes", scopes or None, dig(old, "spec", "scopes"))
    return found


def _amounts(listed: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name, amount in listed.items():
        found += complaints.all_invalid(f"{field}[{name}]", name, _name(name))
        found += complaints.all_invalid(f"{field}[{name}]", str(amount), _amount(name, str(amount)))
    return found


def _scope_selector(expressions: Documents) -> list[Cause]:
    where, found = "spec.scopeSelector.matchExpressions", list[Cause]()
    for expression in expressions:
        scope, operator = expression.get("scopeName") or "", expression.get("operator") or ""
        values = expression.get("values") or []
        if scope not in SCOPES:
            found.append(complaints.invalid(f"{where}.scopeName", scope, "unsupported scope"))
        if scope in ONLY_THERE and operator != "Exists":
            why = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            found.append(complaints.invalid(f"{where}.operator", operator, why))
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                found.append(complaints.required(f"{where}.values", why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                found.append(complaints.invalid(f"{where}.values", values, why))
        else:
            found.append(complaints.invalid(f"{where}.operator", operator, "not a valid selector operator"))
    return found


def _name(name: str) -> list[str]:
    if words := names.qualified_name(name):
        return words
    huge = name.startswith(("hugepages-", "requests.hugepages-"))
    if "/" in name or name in COUNTED or name in AMOUNTS or huge:
        return []
    found = [] if name in resources.STANDARD else ["must be a standard resource type or fully qualified"]
    return ["must be a standard resource for quota", *found]


def _amount(name: str, amount: str) -> list[str]:
    value = quantity.parse(amount)
    if value.nanos < 0:
        return [complaints.NEGATIVE]
    counted = name in COUNTED or "/" in name
    return ["must be an integer"] if counted and value.milli_value() % 1000 else []


COLUMNS = (
    shown.NAME,
    column("Request", "How much is used and how much is allowed, of requests and of objects that are merely counted."),
    column("Limit", "How much is used and how much is allowed, of limits: what containers may use at the very most."),
    shown.AGE,
)


def row(document: Document, now: datetime) -> list[object]:
    hard, used = dig(document, "status", "hard", default={}), dig(document, "status", "used", default={})
    cells: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(hard):
        cells[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [shown.name_of(document), ", ".join(cells[False]), ", ".join(cells[True]), shown.age_of(document, now)]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.RESOURCE_QUOTA),
        generation=False,
        check=check,
        answers_object=True,
        columns=COLUMNS,
        row=row,
    ),
)
