"""Webhook configurations: whom the server asks before it writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Documents
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
SCOPES = ("*", "Cluster", "Namespaced")
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
    for index, version in enumerate(versions):
        whys = ["duplicate version"] if version in versions[:index] else names.dns_1035_label(version)
        found += complaints.all_invalid(f"{here}.admissionReviewVersions[{index}]", version, whys)
    found += _conditions(hook.get("matchConditions") or [], f"{here}.matchConditions")
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
    return found + client(hook.get("clientConfig") or {}, f"{here}.clientConfig")


def _conditions(listed: Documents, field: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, condition in enumerate(listed):
        name, here = condition.get("name") or "", f"{field}[{index}]"
        found += [] if (condition.get("expression") or "").strip() else [complaints.required(f"{here}.expression")]
        if not name:
            found.append(complaints.required(f"{here}.name"))
        else:
            found += complaints.all_invalid(f"{here}.name", name, names.qualified_name(name))
        found += [complaints.duplicate(f"{here}.name", name)] if name in seen else []
        seen.add(name)
    return found


WHOLE = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}


def _stars(rule: Document, here: str) -> list[Cause]:
    """What stands for everything stands alone; nothing is named by no name."""
    found: list[Cause] = []
    for key, what in WHOLE.items():
        listed = rule.get(key) or []
        if "*" in listed and len(listed) > 1:
            why = f"if '*' is present, must not specify other {what}"
            found.append(complaints.invalid(f"{here}.{key}", listed, why))
    for index, version in enumerate(rule.get("apiVersions") or ()):
        found += [] if version else [complaints.required(f"{here}.apiVersions[{index}]")]
    scope = rule.get("scope")
    if scope is not None and scope not in SCOPES:
        found.append(complaints.not_supported(f"{here}.scope", scope, SCOPES))
    return found + _resources(rule.get("resources") or [], f"{here}.resources")


def _resources(listed: list[str], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, name in enumerate(listed):
        resource, slash, part = name.partition("/")
        if not name:
            found.append(complaints.required(f"{field}[{index}]"))
        elif slash and part != "*" and f"{resource}/*" in listed:
            why = f"if '{resource}/*' is present, must not specify {name}"
            found.append(complaints.invalid(f"{field}[{index}]", name, why))
        elif slash and resource != "*" and f"*/{part}" in listed:
            why = f"if '*/{part}' is present, must not specify {name}"
            found.append(complaints.invalid(f"{field}[{index}]", name, why))
    if "*/*" in listed and len(listed) > 1:
        found.append(complaints.invalid(field, listed, "if '*/*' is present, must not specify other resources"))
    if "*" in listed and any("/" not in name for name in listed if name != "*"):
        why = "if '*' is present, must not specify other resources without subresources"
        found.append(complaints.invalid(field, listed, why))
    return found


def _rule(rule: Document, here: str) -> list[Cause]:
    found = [
        complaints.required(f"{here}.{key}")
        for key in ("operations", "apiGroups", "apiVersions", "resources")
        if not rule.get(key)
    ]
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in OPERATIONS:
            found.append(complaints.not_supported(f"{here}.operations[{index}]", operation, OPERATIONS))
    return found + _stars(rule, here)


def client(given: Document, here: str) -> list[Cause]:
    """Whom to ask: by a URL, or a service."""
    url, service = given.get("url"), given.get("service")
    if (url is None) == (service is None):
        return [complaints.required(here, "exactly one of url or service is required")]
    if url is not None:
        return _url(url, f"{here}.url")
    return _service(service or {}, f"{here}.service")


def _url(text: str, field: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as problem:
        return [complaints.required(field, f"url must be a valid URL: {problem}{form}")]
    user, _, host = url.netloc.rpartition("@")
    found: list[Cause] = []
    if url.scheme != "https":
        found.append(complaints.invalid(field, url.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not host:
        found.append(complaints.invalid(field, host, f"host must be specified{form}"))
    if user:
        found.append(complaints.invalid(field, user, "user information is not permitted in the URL"))
    if url.fragment:
        found.append(complaints.invalid(field, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        found.append(complaints.invalid(field, url.query, "query parameters are not permitted in the URL"))
    return found


def _service(service: Document, here: str) -> list[Cause]:
    found = [complaints.required(f"{here}.{key}") for key in ("name", "namespace") if not service.get(key)]
    port, path = service.get("port", 443), service.get("path") or ""
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(complaints.invalid(f"{here}.port", port, why))
    return found + _path(path, f"{here}.path")


def _path(path: str, field: str) -> list[Cause]:
    if path in ("", "/"):
        return []
    if path == "//":
        return [complaints.invalid(field, path, "segment[0] may not be empty")]
    whys = [] if path.startswith("/") else ["must start with a '/'"]
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            whys.append(f"segment[{index}] may not be empty")
        else:
            whys += [f"segment[{index}]: {why}" for why in names.dns_subdomain(step)]
    return complaints.all_invalid(field, path, whys)


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
        unconditional_update=False,
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
