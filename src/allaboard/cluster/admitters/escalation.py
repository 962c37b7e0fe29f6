"""Nobody gives away more than they have: who writes a role or binds one must hold what it allows, or be told they may.

Only where roles are asked (mode `rbac`); main hands it in then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.cluster.access import MASTERS, Attributes, Rbac, covers
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden

ROLES, BINDINGS = (kinds.ROLE, kinds.CLUSTER_ROLE), (kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING)
WATCHED = dict.fromkeys(ROLES, ("rules", "aggregationRule")) | dict.fromkeys(BINDINGS, ("roleRef", "subjects"))


class NoEscalation:
    name = "NoEscalation"
    prefix = False
    kinds = (*ROLES, *BINDINGS)
    operations = ("CREATE", "UPDATE")

    def validate(self, request: Request, view: View) -> None:
        new, old = request.new or {}, request.old or {}
        changed = any(new.get(name) != old.get(name) for name in WATCHED[request.kind])
        if MASTERS in request.user.groups or not changed:
            return
        access = Rbac(view)
        if access.allows(request.user, _permission(request, new)):
            return
        held = access.rules_for(request.user, request.key.namespace)
        missing = [rule for rule in _given(request, new, access) if not _held(rule, held)]
        if missing:
            raise forbidden(request, _words(request, missing))


def _permission(request: Request, new: Document) -> Attributes:
    """The right to do it all the same: to escalate a role, or to bind the one that is named."""
    key = request.key
    if request.kind in ROLES:
        return Attributes("escalate", request.kind.group, request.kind.plural, "", *key)
    plural = "roles" if new["roleRef"].get("kind") == "Role" else "clusterroles"
    return Attributes("bind", request.kind.group, plural, "", key.namespace, new["roleRef"]["name"])


def _given(request: Request, new: Document, access: Rbac) -> Iterable[Document]:
    if request.kind in BINDINGS:
        return access.role_rules(new["roleRef"], request.key.namespace)
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}  # the sum of roles nobody knows yet
    return [*(new.get("rules") or ()), *([everything] if new.get("aggregationRule") else [])]


def _held(rule: Document, held: Documents) -> bool:
    """Whether every single thing a rule allows is allowed by some rule that is held."""
    return all(any(covers(mine, single) for mine in held) for single in _singles(rule))


def _singles(rule: Document) -> Iterable[Attributes]:
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=url)
        for group in rule.get("apiGroups") or ():
            for full in rule.get("resources") or ():
                resource, _, subresource = full.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield Attributes(verb, group, resource, subresource, "", name)


def _words(request: Request, missing: Documents) -> str:
    user = request.user
    who = f'user "{user.name}" (groups={json.dumps(list(user.groups))})'
    return f"{who} is attempting to grant RBAC permissions not currently held:\n" + "\n".join(map(_told, missing))


def _told(rule: Document) -> str:
    names = {"apiGroups": "APIGroups", "resources": "Resources", "resourceNames": "ResourceNames"}
    names |= {"nonResourceURLs": "NonResourceURLs", "verbs": "Verbs"}
    return "{" + ", ".join(f"{names[key]}:{json.dumps(rule[key])}" for key in names if rule.get(key)) + "}"
