"""Webhook configurations: whom the server asks before it writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, placement, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

DEFAULTS = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


def default_mutating(document: Document) -> Document:
    return _defaulted(document, {**DEFAULTS, "reinvocationPolicy": "Never"})


def default_validating(document: Document) -> Document:
    return _defaulted(document, DEFAULTS)


def _defaulted(document: Document, defaults: Document) -> Document:
    hooks = document.get("webhooks")
    return {**document, "webhooks": [_hook({**defaults, **hook}) for hook in hooks]} if hooks else document


def _hook(hook: Document) -> Document:
    filled = dict(hook)
    if rules := hook.get("rules"):
        filled["rules"] = [{"scope": "*", **rule} for rule in rules]
    service = (hook.get("clientConfig") or {}).get("service")
    if service:
        filled["clientConfig"] = {**hook["clientConfig"], "service": {"port": 443, **service}}
    return filled


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, hook in enumerate(new.get("webhooks") or ()):
        here, name = f"webhooks[{index}]", hook.get("name") or ""
        found += _name(name, f"{here}.name")
        if name in seen:
            found.append(complaints.duplicate(f"{here}.name", name))
        seen.add(name)
        found += _hook_causes(hook, here)
    return found


def _name(name: str, field: str) -> list[Cause]:
    if not name:
        return [complaints.required(field)]
    found = complaints.all_invalid(field, name, names.dns_subdomain(name))
    if not found and name.count(".") < 2:
        found.append(
            complaints.invalid(field, name, "should be a domain with at least three segments separated by dots")
        )
    return found


def _hook_causes(hook: Document, here: str) -> list[Cause]:
    versions, found = hook.get("admissionReviewVersions") or [], list[Cause]()
    if not versions:
        why = "must specify one of v1, v1beta1"
        found.append(complaints.required(f"{here}.admissionReviewVersions", why))
    elif not set(versions) & {"v1", "v1beta1"}:
        why = "must include at least one of v1, v1beta1"
        found.append(complaints.invalid(f"{here}.admissionReviewVersions", versions, why))
    for index, rule in enumerate(hook.get("rules") or ()):
        found += _rule(rule, f"{here}.rules[{index}]")
    found += containers.one_of(hook, "failurePolicy", ("Fail", "Ignore"), here)
    found += containers.one_of(hook, "matchPolicy", ("Equivalent", "Exact"), here)
    effects = hook.get("sideEffects")
    if effects is None:
        why = "must specify one of None, NoneOnDryRun"
        found.append(complaints.required(f"{here}.sideEffects", why))
    elif effects not in ("None", "NoneOnDryRun"):
        found.append(complaints.not_supported(f"{here}.sideEffects", effects, ("None", "NoneOnDryRun")))
    seconds = hook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        found.append(complaints.invalid(f"{here}.timeoutSeconds", seconds, why))
    for part in ("namespaceSelector", "objectSelector"):
        found += placement.selector(hook.get(part), f"{here}.{part}")
    return found + _client(hook.get("clientConfig") or {}, f"{here}.clientConfig")


def _rule(rule: Document, here: str) -> list[Cause]:
    found = [
        complaints.required(f"{here}.{key}")
        for key in ("operations", "apiGroups", "apiVersions", "resources")
        if not rule.get(key)
    ]
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in OPERATIONS:
            found.append(complaints.not_supported(f"{here}.operations[{index}]", operation, OPERATIONS))
    return found


def _client(client: Document, here: str) -> list[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [complaints.required(here, "exactly one of url or service is required")]
    if url is not None and not url.startswith("https://"):
        why = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [complaints.invalid(f"{here}.url", url.partition("://")[0], why)]
    return [
        complaints.required(f"{here}.service.{key}")
        for key in ("namespace", "name")
        if service and not service.get(key)
    ]


def changed(new: Document, old: Document) -> bool:
    return bool(new.get("webhooks") != old.get("webhooks"))


def row(document: Document, now: datetime) -> list[object]:
    return [shown.name_of(document), len(document.get("webhooks") or ()), shown.age_of(document, now)]


COLUMNS = (
    shown.NAME,
    column(
        "Webhooks",
        "How many webhooks this configuration defines; each of them is asked about its own kinds.",
        type="integer",
    ),
    shown.AGE,
)

RULES: tuple[Rules, ...] = tuple(
    replace(
        built_in(kind),
        generation=True,
        default=default,
        check=check,
        spec_changed=changed,
        columns=COLUMNS,
        row=row,
    )
    for kind, default in (
        (kinds.MUTATING_WEBHOOK, default_mutating),
        (kinds.VALIDATING_WEBHOOK, default_validating),
    )
)
