"""LimitRange: what a container, pod or claim may ask for in a namespace, and gets when it does not ask."""

from __future__ import annotations

from dataclasses import replace

from allaboard.api import kinds, quantity
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import resources, shown
from allaboard.cluster.metadata import label_key
from allaboard.cluster.rules import Rules, built_in

KINDS = ("Pod", "Container", "PersistentVolumeClaim")
PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def default(document: Document) -> Document:
    """Limits default from maxima, requests from limits, else from minima. Containers only."""
    spec = document.get("spec") or {}
    filled = [_filled(limit) if limit.get("type") == "Container" else limit for limit in spec.get("limits") or ()]
    return {**document, "spec": {**spec, "limits": filled or spec.get("limits")}}


def _filled(limit: Document) -> Document:
    limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
    return {**limit} | ({"default": limits} if limits else {}) | ({"defaultRequest": requests} if requests else {})


def prepare(new: Document, old: Document | None, subresource: str) -> Document:
    """What is stored has no empty lists."""
    spec = new.get("spec") or {}
    return {**new, "spec": {**spec, "limits": None}} if spec.get("limits") == [] else new


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, limit in enumerate((new.get("spec") or {}).get("limits") or ()):
        here, kind = f"spec.limits[{index}]", limit.get("type") or ""
        if kind in seen:
            found.append(complaints.duplicate(f"{here}.type", kind))
        seen.add(kind)
        found += complaints.all_invalid(f"{here}.type", kind, _kind(kind))
        found += _limit(limit, kind, here)
    return found


def _kind(kind: str) -> list[str]:
    if kind in KINDS:
        return []
    words = list(label_key(kind))
    return words or ([] if "/" in kind else ["must be a standard limit type or fully qualified"])


def _limit(limit: Document, kind: str, here: str) -> list[Cause]:
    found: list[Cause] = []
    forbidden = ("default", "defaultRequest") if kind == "Pod" else ()
    for part in PARTS:
        if part in forbidden:
            if limit.get(part):
                found.append(complaints.forbidden(f"{here}.{part}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(part) or ():
            rule = resources.name_complaints if kind in ("Pod", "Container") else resources.pod_name_complaints
            found += complaints.all_invalid(f"{here}.{part}[{name}]", name, rule(name))
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(part) or {}) for part in ("min", "max")):
        why = "either minimum or maximum storage value is required, but neither was provided"
        found.append(complaints.required(f"{here}.limits", why))
    return found + _consistent(limit, here, forbidden)


# Which part must not exceed which: parts, the field blamed, the value shown, and the words.
ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _consistent(limit: Document, here: str, forbidden: tuple[str, ...]) -> list[Cause]:
    parts = {part: {} if part in forbidden else limit.get(part) or {} for part in PARTS}
    found: list[Cause] = []
    for name in sorted({name for part in parts.values() for name in part}):
        for low, high, blamed, value, words in ORDER:
            small, large = parts[low].get(name), parts[high].get(name)
            if small is not None and large is not None and quantity.parse(small) > quantity.parse(large):
                shown_value = parts[value][name]
                found.append(complaints.invalid(f"{here}.{blamed}[{name}]", shown_value, words.format(small, large)))
        ratio = parts["maxLimitRequestRatio"].get(name)
        if ratio is not None and quantity.parse(ratio) < quantity.parse("1"):
            where = f"{here}.maxLimitRequestRatio[{name}]"
            found.append(complaints.invalid(where, ratio, f"ratio {ratio} is less than 1"))
    return found


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.LIMIT_RANGE),
        default=default,
        prepare=prepare,
        check=check,
        columns=(shown.NAME, shown.CREATED_AT),
        row=shown.stamped_row,
    ),
)
