"""Which webhooks want to be asked about a request: by rules, selectors and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import Forbidden
from allaboard.api.selectors import from_document
from allaboard.cluster import refusals
from allaboard.cluster.admission import Request, View
from allaboard.cluster.rules import Rules
from allaboard.schema.cel.compiler import CelCompileError, Program, compile_rule
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.types import DYN
from allaboard.schema.cel.values import CelError

# The rules of a kind in every version it is served in.
Equivalents = Callable[[Rules], Sequence[Rules]]


def concerned(hook: Document, request: Request, view: View, equivalents: Equivalents) -> Rules | None:
    """The kind a webhook wants to be asked about, in the version it names; None where it does not mind."""
    if not _selects(hook, request, view):
        return None
    if any(_rule_matches(rule, request) for rule in hook.get("rules") or ()):
        return request.rules
    if hook.get("matchPolicy", "Equivalent") != "Equivalent":
        return None
    others = [rules for rules in equivalents(request.rules) if rules is not request.rules]
    for rule in hook.get("rules") or ():
        for rules in others:
            if _rule_matches(rule, replace(request, rules=rules)):
                return rules
    return None


def _selects(hook: Document, request: Request, view: View) -> bool:
    objects = from_document(hook.get("objectSelector") or {})
    if objects.requirements and not any(d and objects.matches_document(d) for d in (request.new, request.old)):
        return False
    spaces = from_document(hook.get("namespaceSelector") or {})
    if not spaces.requirements:
        return True
    if request.kind == kinds.NAMESPACE:
        return spaces.matches_document(request.new or request.old or {})
    if not request.key.namespace:
        return True
    space = view.get(kinds.NAMESPACE, Key("", request.key.namespace))
    if space is None:  # Upstream: whoever would be asked cannot be told from where
        raise refusals.not_found(kinds.NAMESPACE, request.key.namespace)
    return spaces.matches_document(space)


def _rule_matches(rule: Document, request: Request) -> bool:
    kind = request.kind
    resource = f"{kind.plural}/{request.subresource}" if request.subresource else kind.plural
    scope = rule.get("scope") or "*"
    return (
        _among(rule.get("operations"), request.operation)
        and _among(rule.get("apiGroups"), kind.group)
        and _among(rule.get("apiVersions"), kind.version)
        and any(_resource_matches(each, resource) for each in rule.get("resources") or ())
        and scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _among(values: Sequence[str] | None, value: str) -> bool:
    return any(each in ("*", value) for each in values or ())


def _resource_matches(wanted: str, resource: str) -> bool:
    name, _, part = resource.partition("/")
    wanted_name, _, wanted_part = wanted.partition("/")
    return wanted_name in ("*", name) and (wanted_part in ("*", part) if part else wanted_part in ("", "*"))


def meets(hook: Document, request: Document) -> bool:
    """Whether a request meets every condition of a webhook; one that cannot be judged refuses, or is passed over."""
    scope = Scope({"object": request["object"], "oldObject": request["oldObject"], "request": request})
    faults = []
    for condition in hook.get("matchConditions") or ():
        try:
            if _condition(condition["expression"]).run(scope) is False:
                return False
        except (CelError, CelCompileError) as problem:
            faults.append(f"expression '{condition['expression']}' resulted in error: {problem}")
    if faults and hook.get("failurePolicy") != "Ignore":
        raise _unjudged(request, faults)
    return not faults


def _unjudged(request: Document, faults: Sequence[str]) -> Forbidden:
    resource, name = request["resource"], request.get("name") or ""
    words = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    named = ".".join(filter(None, (resource["resource"], resource["group"])))
    about = {"name": name} if name else {}
    about |= {"group": resource["group"]} if resource["group"] else {}
    return Forbidden(f'{named} "{name}" is forbidden: {words}', details=about | {"kind": resource["resource"]})


@lru_cache(maxsize=256)
def _condition(text: str) -> Program:
    return compile_rule(text, {"object": DYN, "oldObject": DYN, "request": DYN})
