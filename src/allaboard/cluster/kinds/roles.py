"""Roles and their bindings: what may be done, and who may do it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import placement, shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import path_segment
from allaboard.cluster.rules import Column, Rules, built_in

GROUP = "rbac.authorization.k8s.io"
SUBJECTS = ("ServiceAccount", "User", "Group")


def check_role(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    return [c for i, rule in enumerate(new.get("rules") or ()) for c in _rule(rule, f"rules[{i}]", namespaced=True)]


def check_cluster_role(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    rules = new.get("rules") or []
    found = [cause for i, rule in enumerate(rules) for cause in _rule(rule, f"rules[{i}]", namespaced=False)]
    if (aggregation := new.get("aggregationRule")) is not None:
        selectors = aggregation.get("clusterRoleSelectors") or []
        where = "aggregationRule.clusterRoleSelectors"
        if not selectors:
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(complaints.required(where, why))
        for index, selector in enumerate(selectors):
            found += placement.selector(selector, f"{where}[{index}]")
    return found


def _rule(rule: Document, here: str, *, namespaced: bool) -> list[Cause]:
    found: list[Cause] = []
    if not rule.get("verbs"):
        found.append(complaints.required(f"{here}.verbs"))
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            found.append(complaints.invalid(f"{here}.nonResourceURLs", urls, why))
        if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(complaints.invalid(f"{here}.nonResourceURLs", urls, why))
        return found
    if not rule.get("apiGroups"):
        found.append(complaints.required(f"{here}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(complaints.required(f"{here}.resources", "resource rules must supply at least one resource"))
    return found


def prepare_role(new: Document, old: Document | None, subresource: str) -> Document:
    """What is stored has no empty lists."""
    return {**new, "rules": None} if new.get("rules") == [] else new


def default_binding(binding: Document) -> Document:
    reference = {"apiGroup": GROUP, **(binding.get("roleRef") or {})}
    filled = {**binding, "roleRef": reference | {"apiGroup": reference["apiGroup"] or GROUP}}
    if subjects := binding.get("subjects"):
        filled["subjects"] = [_subject(subject) for subject in subjects]
    return filled


def _subject(subject: Document) -> Document:
    known = subject.get("kind") in ("User", "Group")
    return {**subject, "apiGroup": GROUP} if known and not subject.get("apiGroup") else subject


def check_binding(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    return _binding(new, old, ("Role", "ClusterRole"))


def check_cluster_binding(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    return _binding(new, old, ("ClusterRole",))


def _binding(new: Document, old: Document | None, choices: tuple[str, ...]) -> list[Cause]:
    reference, found = new.get("roleRef") or {}, list[Cause]()
    if reference.get("apiGroup") != GROUP:
        found.append(complaints.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,)))
    if reference.get("kind") not in choices:
        found.append(complaints.not_supported("roleRef.kind", reference.get("kind", ""), choices))
    if not reference.get("name"):
        found.append(complaints.required("roleRef.name"))
    else:
        found += complaints.all_invalid("roleRef.name", reference["name"], path_segment(reference["name"]))
    for index, subject in enumerate(new.get("subjects") or ()):
        found += _subject_causes(subject, f"subjects[{index}]", namespaced=len(choices) > 1)
    if old is not None and reference != old.get("roleRef"):
        found.append(complaints.invalid("roleRef", complaints.struct("rbac.RoleRef", reference), complaints.IMMUTABLE))
    return found


def _subject_causes(subject: Document, here: str, *, namespaced: bool) -> list[Cause]:
    kind, found = subject.get("kind") or "", list[Cause]()
    if not subject.get("name"):
        found.append(complaints.required(f"{here}.name"))
    elif kind == "ServiceAccount":
        found += complaints.all_invalid(f"{here}.name", subject["name"], names.dns_subdomain(subject["name"]))
    if kind not in SUBJECTS:
        return [*found, complaints.not_supported(f"{here}.kind", kind, SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else GROUP
    if (subject.get("apiGroup") or "") != wanted:
        found.append(complaints.not_supported(f"{here}.apiGroup", subject.get("apiGroup", ""), (wanted,)))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        found.append(complaints.required(f"{here}.namespace"))
    return found


def binding_row(binding: Document, now: datetime) -> list[object]:
    reference, subjects = binding.get("roleRef") or {}, binding.get("subjects") or []
    return [
        shown.name_of(binding),
        f"{reference.get('kind')}/{reference.get('name')}",
        shown.age_of(binding, now),
        ", ".join(s["name"] for s in subjects if s.get("kind") == "User"),
        ", ".join(s["name"] for s in subjects if s.get("kind") == "Group"),
        ", ".join(_account(s) for s in subjects if s.get("kind") == "ServiceAccount"),
    ]


def _account(subject: Document) -> str:
    return f"{subject['namespace']}/{subject['name']}" if subject.get("namespace") else f"/{subject['name']}"


def _columns(kind: str) -> tuple[Column, ...]:
    return (
        shown.NAME,
        column("Role", "The role that is given: one of the same namespace, or one of the cluster; it never changes."),
        shown.AGE,
        *(column(who, f"{who} in the {kind}", wide=True) for who in ("Users", "Groups", "ServiceAccounts")),
    )


_ROLE = replace(
    built_in(kinds.ROLE),
    names=path_segment,
    prepare=prepare_role,
    columns=(shown.NAME, shown.CREATED_AT),
    row=shown.stamped_row,
)
_BINDING = replace(built_in(kinds.ROLE_BINDING), names=path_segment, default=default_binding, row=binding_row)
RULES: tuple[Rules, ...] = (
    replace(_ROLE, check=check_role),
    replace(
        built_in(kinds.CLUSTER_ROLE),
        names=path_segment,
        prepare=prepare_role,
        check=check_cluster_role,
        columns=(shown.NAME, shown.CREATED_AT),
        row=shown.stamped_row,
    ),
    replace(_BINDING, check=check_binding, columns=_columns("roleBinding")),
    replace(
        built_in(kinds.CLUSTER_ROLE_BINDING),
        names=path_segment,
        default=default_binding,
        check=check_cluster_binding,
        columns=_columns("clusterRoleBinding"),
        row=binding_row,
    ),
)
