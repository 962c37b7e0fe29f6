"""The roles every cluster has: who may do everything, and `admin`, `edit` and `view` for people in a namespace.

Upstream: the API server's own policy, for the kinds we serve; roles with the labels of aggregation may be added.
"""

from __future__ import annotations

from allaboard.api.documents import Document

GROUP = "rbac.authorization.k8s.io"
VERSION = f"{GROUP}/v1"
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
DEFAULTS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
Rule = tuple[list[str], list[str], list[str]]  # API groups, resources, verbs

VIEW: tuple[Rule, ...] = (
    (
        [""],
        ["configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods"]
        + ["serviceaccounts", "services", "services/status"],
        READ,
    ),
    (
        [""],
        ["bindings", "limitranges", "namespaces/status", "pods/log", "pods/status", "resourcequotas"]
        + ["resourcequotas/status"],
        READ,
    ),
    ([""], ["namespaces"], READ),
    (["", "events.k8s.io"], ["events"], READ),
    (["discovery.k8s.io"], ["endpointslices"], READ),
    (["batch"], ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
)
EDIT: tuple[Rule, ...] = (
    ([""], ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], READ),
    ([""], ["serviceaccounts"], ["impersonate"]),
    ([""], ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], WRITE),
    ([""], ["pods/eviction"], ["create"]),
    (
        [""],
        ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services", "services/proxy"],
        WRITE,
    ),
    ([""], ["serviceaccounts/token"], ["create"]),
    (["", "events.k8s.io"], ["events"], WRITE),
    (["batch"], ["cronjobs", "jobs"], WRITE),
    (["coordination.k8s.io"], ["leases"], READ + WRITE),
)
ADMIN: tuple[Rule, ...] = (
    (["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
    ([GROUP], ["rolebindings", "roles"], READ + WRITE),
)
# What people train with: the same people who may see and change pods.
TRAINING = (["trainer.kubeflow.org", "jobset.x-k8s.io", "kubeflow.org"], ["*"])
GANGS = (["scheduling.run.ai", "scheduling.x-k8s.io", "scheduling.volcano.sh"], ["*"])
DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]
PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"


def objects() -> list[Document]:
    """The roles, then who has them."""
    parts = {"view": VIEW, "edit": EDIT, "admin": ADMIN}
    return [
        _role("cluster-admin", [_rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
        *(
            _role(f"system:aggregate-to-{name}", [_rule(*rule) for rule in rules], name)
            for name, rules in parts.items()
        ),
        _role("aboard:aggregate-to-view", [_rule(*TRAINING, READ), _rule(*GANGS, READ)], "view"),
        _role("aboard:aggregate-to-edit", [_rule(*TRAINING, WRITE)], "edit"),
        *(_sum(name) for name in parts),
        _role("system:basic-user", _about_oneself()),
        _role("system:discovery", [{"nonResourceURLs": [*DISCOVERY, "/version", "/version/"], "verbs": ["get"]}]),
        _role("system:public-info-viewer", [{"nonResourceURLs": PUBLIC, "verbs": ["get"]}]),
        _binding("cluster-admin", "system:masters"),
        _binding("system:basic-user", AUTHENTICATED),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
    ]


def _about_oneself() -> list[Document]:
    asking = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    return [
        _rule(["authorization.k8s.io"], asking, ["create"]),
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Document:
    return {"apiGroups": groups, "resources": resources, "verbs": sorted(verbs)}


def _labels(into: str) -> dict[str, str]:
    return DEFAULTS | ({f"{GROUP}/aggregate-to-{into}": "true"} if into else {})


def _role(name: str, rules: list[Document], into: str = "") -> Document:
    return {"apiVersion": VERSION, "kind": "ClusterRole", "metadata": _named(name, into), "rules": rules}


def _named(name: str, into: str = "") -> Document:
    return {"name": name, "labels": _labels(into), "annotations": {f"{GROUP}/autoupdate": "true"}}


def _sum(name: str) -> Document:
    """A role that is the sum of others; `edit` includes `view`, and `admin` both."""
    into = {"view": "edit", "edit": "admin"}.get(name, "")
    chosen = [{"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}]
    body: Document = {"apiVersion": VERSION, "kind": "ClusterRole", "metadata": _named(name, into)}
    return {**body, "aggregationRule": {"clusterRoleSelectors": chosen}}


def _binding(role: str, *groups: str) -> Document:
    subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    body: Document = {"apiVersion": VERSION, "kind": "ClusterRoleBinding", "metadata": _named(role)}
    return {**body, "roleRef": reference, "subjects": subjects}
