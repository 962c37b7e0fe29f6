"""Who is asking, and what they may do: users, and roles as RBAC reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import Forbidden
from allaboard.api.kinds import Kind
from allaboard.api.selectors import from_document


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking, as authentication found out."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def document(self) -> Document:
        """The user as reviews and webhooks are shown it."""
        info: Document = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        info |= {"extra": {name: list(values) for name, values in self.extra.items()}}
        return {name: value for name, value in info.items() if value}


MASTERS = "system:masters"
ACCOUNTS = "system:serviceaccounts"
AUTHENTICATED = "system:authenticated"
SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))
ACCOUNT = "system:serviceaccount:"
# Paths everyone who is known may read. Upstream: roles system:discovery and system:public-info-viewer.
PUBLIC = (
    "/api",
    "/apis",
    "/openapi",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
)


class Attributes(NamedTuple):
    """What somebody wants to do: a verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class View(Protocol):
    """Where roles and bindings are read."""

    def get(self, kind: Kind, key: Key) -> Document | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Documents: ...


EVERYTHING: Documents = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


class Allow:
    """Mode `allow`: people who are known may do everything; service accounts (so pods) what their roles say."""

    def __init__(self, view: View) -> None:
        self.roles = Rbac(view)

    def allows(self, user: User, wanted: Attributes) -> bool:
        return ACCOUNTS not in user.groups or self.roles.allows(user, wanted)

    def rules_for(self, user: User, namespace: str) -> Documents:
        return self.roles.rules_for(user, namespace) if ACCOUNTS in user.groups else EVERYTHING

    def why(self, user: User, wanted: Attributes) -> str:
        return self.roles.why(user, wanted) if ACCOUNTS in user.groups else ""


class Rbac:
    """Mode `rbac`: roles, bound to users, groups and service accounts."""

    def __init__(self, view: View) -> None:
        self.view = view

    def allows(self, user: User, wanted: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        if wanted.path and wanted.verb == "get" and AUTHENTICATED in user.groups and _is_public(wanted.path):
            return True
        if _reviews_itself(user, wanted):
            return True
        return any(covers(rule, wanted) for rule in self.rules_for(user, wanted.namespace))

    def rules_for(self, user: User, namespace: str) -> Documents:
        """Every rule that holds for a user in a namespace."""
        if MASTERS in user.groups:
            return EVERYTHING
        return list(self._rules(user, namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Document]:
        for binding, _, where in self._bindings(user, namespace):
            yield from self.role_rules(binding["roleRef"], where)

    def _bindings(self, user: User, namespace: str) -> Iterator[tuple[Document, Document, str]]:
        """Every binding that holds for a user in a namespace, with the subject that is the user, and where it lies."""
        for binding in self.view.list(kinds.CLUSTER_ROLE_BINDING):
            if subject := _subject(binding, user, ""):
                yield binding, subject, ""
        for binding in self.view.list(kinds.ROLE_BINDING, namespace) if namespace else ():
            if subject := _subject(binding, user, namespace):
                yield binding, subject, namespace

    def why(self, user: User, wanted: Attributes) -> str:
        """The binding that allows it, in Kubernetes' words; "" where it is allowed to everyone, or to nobody."""
        if MASTERS in user.groups:
            return ""
        for binding, subject, where in self._bindings(user, wanted.namespace):
            if any(covers(rule, wanted) for rule in self.role_rules(binding["roleRef"], where)):
                return _allowed_by(binding, subject, where)
        return ""

    def role_rules(self, reference: Document, namespace: str) -> Iterable[Document]:
        """What the role a binding names allows."""
        if reference.get("kind") == "Role":
            role = self.view.get(kinds.ROLE, Key(namespace, reference["name"]))
        else:
            role = self.view.get(kinds.CLUSTER_ROLE, Key("", reference["name"]))
        if role is None:
            return []
        return aggregated(role, self.view) if role.get("aggregationRule") else role.get("rules") or []


def aggregated(role: Document, view: View) -> Documents:
    """The rules of a role that is the sum of others, by their labels; those may be sums, too."""
    parts = sorted(view.list(kinds.CLUSTER_ROLE), key=lambda part: str(part["metadata"]["name"]))
    rules: Documents = []
    waiting, seen = [role], {role["metadata"]["name"]}
    while waiting:
        chooses = waiting.pop()["aggregationRule"].get("clusterRoleSelectors") or ()
        selectors = [from_document(each) for each in chooses]
        for part in parts:
            name = part["metadata"]["name"]
            if name not in seen and any(selector.matches_document(part) for selector in selectors):
                seen.add(name)
                if part.get("aggregationRule"):
                    waiting.append(part)
                rules += part.get("rules") or ()
    return rules


def _is_public(path: str) -> bool:
    return any(path == known or path.startswith(f"{known}/") for known in PUBLIC)


def _reviews_itself(user: User, wanted: Attributes) -> bool:
    """Upstream: system:basic-user lets everyone ask about themselves."""
    return wanted.verb == "create" and AUTHENTICATED in user.groups and wanted.resource.startswith("selfsubject")


def _subject(binding: Document, user: User, namespace: str) -> Document | None:
    return next((each for each in binding.get("subjects") or () if _is_subject(each, user, namespace)), None)


def _allowed_by(binding: Document, subject: Document, namespace: str) -> str:
    kind, role = ("RoleBinding" if namespace else "ClusterRoleBinding"), binding["roleRef"]
    name = "/".join(filter(None, (binding["metadata"]["name"], namespace)))
    whom = str(subject.get("name"))
    if subject.get("kind") == "ServiceAccount":
        whom = f"{whom}/{subject.get('namespace') or namespace}"
    of = f'of {role.get("kind")} "{role.get("name")}" to {subject.get("kind")} "{whom}"'
    return f'RBAC: allowed by {kind} "{name}" {of}'


def _is_subject(subject: Document, user: User, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return user.name == subject.get("name")
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            return user.name == f"{ACCOUNT}{subject.get('namespace') or namespace}:{subject.get('name')}"
    return False


def covers(rule: Document, wanted: Attributes) -> bool:
    """Whether a policy rule allows what is wanted."""
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_path_matches(url, wanted.path) for url in rule.get("nonResourceURLs") or ())
    if not _has(rule.get("apiGroups"), wanted.group) or not _resource_matches(rule.get("resources") or (), wanted):
        return False
    names = rule.get("resourceNames") or ()
    return not names or wanted.name in names


def _has(values: Iterable[str] | None, value: str) -> bool:
    return any(each in ("*", value) for each in values or ())


def _resource_matches(resources: Iterable[str], wanted: Attributes) -> bool:
    full = wanted.full_resource
    parts = {"*", full} | ({f"*/{wanted.subresource}"} if wanted.subresource else set())
    return any(resource in parts for resource in resources)


def _path_matches(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))


def forbidden(user: User, wanted: Attributes) -> Forbidden:
    """Who may not do what, in Kubernetes' words."""
    if wanted.path:
        return Forbidden(f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"', details={})
    title = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    subject = f'{title} "{wanted.name}"' if wanted.name else title
    what = f'cannot {wanted.verb} resource "{wanted.full_resource}" in API group "{wanted.group}" {where}'
    details = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    return Forbidden(
        f'{subject} is forbidden: User "{user.name}" {what}',
        details={name: value for name, value in details.items() if value},
    )
