"""What a Job may ask for, and what it may still change its mind about."""

from __future__ import annotations

from allaboard.api import names, selectors
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import placement, podspec
from allaboard.cluster.kinds.indexes import Malformed, count_indexes
from allaboard.cluster.metadata import label_key

COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
FIXED = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
MODES = ("NonIndexed", "Indexed")
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
REPLACEMENTS = ("Failed", "TerminatingOrFailed")
STATUSES = ("False", "True", "Unknown")
INDEXED_PODS, MANY, MANY_PODS = 100_000, 100_000, 10_000
# Upstream: no selector selects nothing.
NOTHING = {"key": "a", "operator": "In", "values": [""]}
NOT_GENERATED = "`selector` not auto-generated"
NEEDS_INDEXED = "requires indexed completion mode"


def on_create(job: Document) -> list[Cause]:
    spec = job["spec"]
    found = _generated(job) + causes(spec, "spec")
    completions, name = spec.get("completions"), job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and completions and completions > 0:
        last = f"{name}-{completions - 1}"
        if names.dns_label(last):
            why = f"will not able to create pod with invalid DNS label: {last}"
            found.append(complaints.invalid("metadata.name", name, why))
    return found


def _generated(job: Document) -> list[Cause]:
    """The labels and the selector must be those the server makes, unless the author makes them by hand."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = dig(spec, "template", "metadata", "labels", default={})
    wanted = {
        "controller-uid": metadata.get("uid", ""),
        "job-name": metadata.get("name", ""),
        "batch.kubernetes.io/controller-uid": metadata.get("uid", ""),
        "batch.kubernetes.io/job-name": metadata.get("name", ""),
    }
    found = []
    for key, value in wanted.items():
        where, why = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            found.append(complaints.required(where, why))
        elif labels[key] != value:
            found.append(complaints.invalid(where, labels, why))
    sensible = not placement.selector(spec["selector"], "")
    if sensible and not selectors.from_document(spec["selector"]).matches(wanted):
        found.append(complaints.invalid("spec.selector", printed("selector", spec["selector"]), NOT_GENERATED))
    return found


def causes(spec: Document, field: str) -> list[Cause]:
    """Every breach in the spec of a Job that exists or shall exist."""
    found = template_free(spec, field)
    template = spec.get("template") or {}
    found += podspec.template_causes(template, f"{field}.template")
    found += restart_policy(spec, f"{field}.template.spec.restartPolicy")
    selector = spec.get("selector")
    if selector is None:
        found.append(complaints.required(f"{field}.selector"))
        selector = {"matchExpressions": [NOTHING]}
    broken = placement.selector(selector, f"{field}.selector")
    found += broken
    labels = dig(template, "metadata", "labels")
    if not broken and not selectors.from_document(selector).matches(labels or {}):
        why = "`selector` does not match template `labels`"
        found.append(complaints.invalid(f"{field}.template.metadata.labels", labels, why))
    return found


def template_free(spec: Document, field: str) -> list[Cause]:
    """The rules that need no selector: those of a Job's template in a CronJob too."""
    found = [cause for key in COUNTS for cause in complaints.not_negative(f"{field}.{key}", spec.get(key))]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(complaints.required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        found += _managed_by(spec["managedBy"], f"{field}.managedBy")
    mode = spec.get("completionMode")
    if mode is not None and mode not in MODES:
        found.append(complaints.not_supported(f"{field}.completionMode", mode, MODES))
    found += _indexed(spec, field) if mode == "Indexed" else _not_indexed(spec, field)
    if policy := spec.get("podFailurePolicy"):
        found += _failure_policy(policy, spec, f"{field}.podFailurePolicy.rules")
    return found + _success_policy(spec, f"{field}.successPolicy") + _replacement(spec, f"{field}.podReplacementPolicy")


def _managed_by(value: str, field: str) -> list[Cause]:
    found = []
    for cause in names.domain_prefixed_path(value, field):
        accused = names.accused(value, cause.message)
        found.append(complaints.invalid(field, accused, cause.message) if value else complaints.required(field))
    return [*found, complaints.too_long(field, 63)] if len(value.encode()) > 63 else found


def _indexed(spec: Document, field: str) -> list[Cause]:
    completions, parallel = spec.get("completions"), spec.get("parallelism") or 0
    failed, found = spec.get("maxFailedIndexes"), list[Cause]()
    if completions is None:
        found.append(complaints.required(f"{field}.completions", "when completion mode is Indexed"))
    if parallel > INDEXED_PODS:
        why = f"must be less than or equal to {INDEXED_PODS} when completion mode is Indexed"
        found.append(complaints.invalid(f"{field}.parallelism", parallel, why))
    if completions is not None and failed is not None and failed > completions:
        found.append(
            complaints.invalid(f"{field}.maxFailedIndexes", failed, "must be less than or equal to completions")
        )
    if failed is not None and failed > MANY:
        found.append(complaints.invalid(f"{field}.maxFailedIndexes", failed, f"must be less than or equal to {MANY}"))
    if completions is None or completions <= MANY or spec.get("backoffLimitPerIndex") is None:
        return found
    above = f"when completions are above {MANY} and used with backoff limit per index"
    if failed is None:
        why = f"must be specified when completions is above {MANY}"
        found.append(complaints.required(f"{field}.maxFailedIndexes", why))
    for key, value in (("parallelism", parallel), ("maxFailedIndexes", failed or 0)):
        if value > MANY_PODS:
            found.append(
                complaints.invalid(f"{field}.{key}", value, f"must be less than or equal to {MANY_PODS} {above}")
            )
    return found


def _not_indexed(spec: Document, field: str) -> list[Cause]:
    keys = ("backoffLimitPerIndex", "maxFailedIndexes")
    if spec.get("completionMode") not in (None, "NonIndexed"):
        return []
    given = [key for key in keys if spec.get(key) is not None]
    return [complaints.invalid(f"{field}.{key}", spec[key], NEEDS_INDEXED) for key in given]


def _failure_policy(policy: Document, spec: Document, field: str) -> list[Cause]:
    rules = policy.get("rules") or []
    found = [complaints.too_many(field, len(rules), 20)] if len(rules) > 20 else []
    template = dig(spec, "template", "spec", default={})
    listed = [*(template.get("containers") or ()), *(template.get("initContainers") or ())]
    containers = {container.get("name") for container in listed}
    for index, rule in enumerate(rules):
        here = f"{field}[{index}]"
        found += _action(rule.get("action") or "", spec, f"{here}.action")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            found += _exit_codes(codes, containers, f"{here}.onExitCodes")
        found += _pod_conditions(conditions, f"{here}.onPodConditions")
        if codes is not None and conditions:
            why = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.append(complaints.invalid(here, complaints.OMITTED, why))
        elif codes is None and not conditions:
            why = "specifying one of OnExitCodes and OnPodConditions is required"
            found.append(complaints.invalid(here, complaints.OMITTED, why))
    return found


def _go_list(words: tuple[str, ...]) -> str:
    return f"[{' '.join(complaints.quoted(word) for word in words)}]"


def _action(action: str, spec: Document, field: str) -> list[Cause]:
    if not action:
        return [complaints.required(field, f"valid values: {_go_list(ACTIONS)}")]
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        return [complaints.invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return [] if action in ACTIONS else [complaints.not_supported(field, action, ACTIONS)]


def _pod_conditions(conditions: Documents, field: str) -> list[Cause]:
    found = [complaints.too_many(field, len(conditions), 20)] if len(conditions) > 20 else []
    for index, pattern in enumerate(conditions):
        here, status = f"{field}[{index}]", pattern.get("status") or ""
        found += complaints.all_invalid(f"{here}.type", pattern.get("type", ""), label_key(pattern.get("type") or ""))
        if not status:
            found.append(complaints.required(f"{here}.status", f"valid values: {_go_list(STATUSES)}"))
        elif status not in STATUSES:
            found.append(complaints.not_supported(f"{here}.status", status, STATUSES))
    return found


def _exit_codes(codes: Document, containers: set[object], field: str) -> list[Cause]:
    operator, values, found = codes.get("operator") or "", codes.get("values") or [], list[Cause]()
    if not operator:
        found.append(complaints.required(f"{field}.operator", f"valid values: {_go_list(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        found.append(complaints.not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        found.append(complaints.invalid(f"{field}.containerName", name, why))
    if not values:
        found.append(complaints.invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > 255:
        found.append(complaints.too_many(f"{field}.values", len(values), 255))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(complaints.invalid(f"{field}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            found.append(complaints.duplicate(f"{field}.values[{index}]", value))
    if values != sorted(values):
        found.append(complaints.invalid(f"{field}.values", values, "must be ordered"))
    return found


def _success_policy(spec: Document, field: str) -> list[Cause]:
    policy = spec.get("successPolicy")
    if policy is None:
        return []
    rules = policy.get("rules") or []
    if spec.get("completionMode") != "Indexed":
        return [complaints.invalid(field, printed("successPolicy", policy), NEEDS_INDEXED)]
    found: list[Cause] = []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        found.append(complaints.required(f"{field}.rules", why))
    if len(rules) > 20:
        found.append(complaints.too_many(f"{field}.rules", len(rules), 20))
    for index, rule in enumerate(rules):
        found += _success_rule(rule, spec.get("completions") or 0, f"{field}.rules[{index}]")
    return found


def _success_rule(rule: Document, completions: int, here: str) -> list[Cause]:
    count, indexes, found = rule.get("succeededCount"), rule.get("succeededIndexes"), list[Cause]()
    if count is None and indexes is None:
        return [complaints.required(here, "at least one of succeededCount or succeededIndexes must be specified")]
    total = 0
    if indexes is not None:
        try:
            total = count_indexes(indexes, completions)
        except Malformed as error:
            why = f"error parsing succeededIndexes: {error}"
            found.append(complaints.invalid(f"{here}.succeededIndexes", indexes, why))
    if count is None:
        return found
    found += complaints.not_negative(f"{here}.succeededCount", count)
    if count > completions:
        why = f"must be less than or equal to {completions} (the number of specified completions)"
        found.append(complaints.invalid(f"{here}.succeededCount", count, why))
    if indexes is not None and count > total:
        tail = "(the number of indexes in the specified succeededIndexes field)"
        found.append(
            complaints.invalid(f"{here}.succeededCount", count, f"must be less than or equal to {total} {tail}")
        )
    return found


def _replacement(spec: Document, field: str) -> list[Cause]:
    policy = spec.get("podReplacementPolicy")
    choices = ("Failed",) if spec.get("podFailurePolicy") else REPLACEMENTS
    return [] if policy is None or policy in choices else [complaints.not_supported(field, policy, choices)]


def restart_policy(spec: Document, field: str) -> list[Cause]:
    policy = dig(spec, "template", "spec", "restartPolicy", default="")
    if policy in ("", "Always"):
        return [complaints.required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [complaints.not_supported(field, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        return [complaints.invalid(field, policy, why)]
    return []


# Changes


def on_update(new: Document, old: Document) -> list[Cause]:
    after, before = new["spec"], old["spec"]
    found = causes(after, "spec") + _completions(after, before)
    for key in FIXED:
        if after.get(key) != before.get(key):
            found.append(complaints.invalid(f"spec.{key}", printed(key, after.get(key)), complaints.IMMUTABLE))
    then, now = before.get("template") or {}, after.get("template") or {}
    where, what = "spec.template", "template"
    if _may_move(old):  # of the metadata, everything may change
        now = now.get("spec") or {}
        then = _as_now(then.get("spec") or {}, now)
        where, what = "spec.template.spec", "spec"
    if complaints.same(now, then):
        return found
    return [*found, complaints.invalid(where, printed(what, now), complaints.IMMUTABLE)]


def _completions(after: Document, before: Document) -> list[Cause]:
    now, then = after.get("completions"), before.get("completions")
    if now == then:
        return []
    if after.get("completionMode") != "Indexed" or now is None or then is None:
        return [complaints.invalid("spec.completions", now, complaints.IMMUTABLE)]
    if now != after.get("parallelism"):
        return [complaints.invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism")]
    return []


def _may_move(old: Document) -> bool:
    """A suspended Job without pods may still be told where to go and what to ask for."""
    if not old["spec"].get("suspend"):
        return False
    status = old.get("status") or {}
    suspended = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in status.get("conditions") or ())
    return status.get("startTime") is None or (suspended and not status.get("active"))


def _as_now(then: Document, now: Document) -> Document:
    """The old pod spec with everything new that a suspended Job may change."""
    spec = dict(then)
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        _take(spec, now, key)
    affinity = dict(spec.get("affinity") or {})
    _take(affinity, now.get("affinity") or {}, "nodeAffinity")
    spec.pop("affinity", None)
    if affinity or now.get("affinity") is not None:
        spec["affinity"] = affinity
    for part in ("containers", "initContainers"):
        if spec.get(part) and len(spec[part]) == len(now.get(part) or ()):
            pairs = zip(spec[part], now[part], strict=True)
            spec[part] = [_with_resources(old, new) for old, new in pairs]
    return spec


def _with_resources(old: Document, new: Document) -> Document:
    return {**old, "resources": new.get("resources")} if old.get("name") == new.get("name") else old


def _take(target: Document, source: Document, key: str) -> None:
    target.pop(key, None)
    if key in source:
        target[key] = source[key]


# How upstream prints what may not change: its own structs, by Go's names and in Go's order


STRUCTS = {
    "template": "core.PodTemplateSpec",
    "spec": "core.PodSpec",
    "successPolicy": "batch.SuccessPolicy",
    "podFailurePolicy": "batch.PodFailurePolicy",
}


def printed(key: str, value: object) -> object:
    if not isinstance(value, dict):
        return value
    if key == "selector":
        return complaints.Ordered(_in_order(value))
    if key in STRUCTS:
        return complaints.struct(STRUCTS[key], value)
    return value


def _in_order(selector: Document) -> Document:
    labels = selector.get("matchLabels")
    found: Document = {"matchLabels": dict(sorted(labels.items()))} if labels else {}
    expressions = selector.get("matchExpressions")
    return found | ({"matchExpressions": [_expression(e) for e in expressions]} if expressions else {})


def _expression(expression: Document) -> Document:
    return {part: expression[part] for part in ("key", "operator", "values") if part in expression}
