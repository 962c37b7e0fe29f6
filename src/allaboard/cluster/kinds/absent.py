"""Kinds that nothing here runs: tools that look for them find none, and whoever wants one is told by name.

`kubectl apply --prune` and `kubectl get all` ask for them before anything else; a server without them fails both.
"""

from __future__ import annotations

from allaboard.api.kinds import Kind
from allaboard.cluster.rules import Rules

ALL = ("all",)
KINDS = (
    Kind("", "v1", "ReplicationController", "replicationcontrollers", short=("rc",), categories=ALL),
    Kind("apps", "v1", "DaemonSet", "daemonsets", short=("ds",), categories=ALL),
    Kind("apps", "v1", "Deployment", "deployments", short=("deploy",), categories=ALL),
    Kind("apps", "v1", "ReplicaSet", "replicasets", short=("rs",), categories=ALL),
    Kind("apps", "v1", "StatefulSet", "statefulsets", short=("sts",), categories=ALL),
    Kind("networking.k8s.io", "v1", "Ingress", "ingresses", short=("ing",)),
)
REMEDY = "train with a TrainJob, a JobSet or a Job"


def _rules(kind: Kind) -> Rules:
    resource = {
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "namespaced": True,
        "verbs": ["delete", "deletecollection", "get", "list", "watch"],
        "short": list(kind.short),
        "categories": list(kind.categories),
        "subresources": [],
    }
    words = f"nothing here runs {_plural(kind.kind)}; {REMEDY}"
    return Rules(kind, {"type": "object"}, resource, refusal=words)


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


RULES: tuple[Rules, ...] = tuple(_rules(kind) for kind in KINDS)
