"""What is served, as clients ask for it: group by group, or all at once."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from allaboard.api.documents import Document, Documents
from allaboard.cluster.rules import Rules

VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
# Upstream's order of its own groups: of two kinds with one short name, clients take that of the earlier group.
ORDER = ("apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "batch", "networking.k8s.io") + (
    "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
    "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io",
)  # fmt: skip


def api_versions() -> Document:
    """The page at /api."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def groups(served: Sequence[Rules]) -> Document:
    """The page at /apis."""
    names = group_names(served)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(served, name) for name in names]}


def group_names(served: Sequence[Rules]) -> list[str]:
    """Every group but the core: Kubernetes' own in its order, then others by their first version and name."""
    names = {rules.kind.group for rules in served if rules.kind.group}
    others = [name for name in names if name not in ORDER]
    others.sort(key=lambda name: f"{versions_of(served, name)[0]}.{name}")
    return [*(name for name in ORDER if name in names), *others]


def group(served: Sequence[Rules], name: str) -> Document:
    """The page at /apis/<group>."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(served, name)}


def _group(served: Sequence[Rules], name: str) -> Document:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions_of(served, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def versions_of(served: Iterable[Rules], group: str) -> list[str]:
    """The versions of a group, the most stable and newest first."""
    found = {rules.kind.version for rules in served if rules.kind.group == group}
    return sorted(found, key=_rank, reverse=True)


def _rank(version: str) -> tuple[int, int, int, str]:
    match = VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0, version
    stability = {None: 2, "beta": 1, "alpha": 0}[match.group(2)]
    return stability, int(match.group(1)), int(match.group(3) or 0), version


# Group by group


def resource_list(served: Sequence[Rules], group_version: str) -> Document:
    """The page at /api/v1 or /apis/<group>/<version>."""
    chosen = [rules for rules in served if rules.kind.api_version == group_version]
    resources = [entry for rules in sorted(chosen, key=lambda r: r.kind.plural) for entry in _entries(rules)]
    body: Document = {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
    return body if group_version == "v1" else {"apiVersion": "v1", **body}


def _entries(rules: Rules) -> Documents:
    facts, kind = rules.resource, rules.kind
    main: Document = {
        "name": kind.plural,
        "singularName": facts["singular"],
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": facts["verbs"],
    }
    main |= {"shortNames": facts["short"]} if facts["short"] else {}
    main |= {"categories": facts["categories"]} if facts["categories"] else {}
    if "list" in facts["verbs"]:
        main["storageVersionHash"] = storage_hash(rules)
    return [main, *(_sub_entry(rules, sub) for sub in facts["subresources"])]


def _sub_entry(rules: Rules, sub: Document) -> Document:
    kind = rules.kind
    entry: Document = {"name": f"{kind.plural}/{sub['name']}", "singularName": "", "namespaced": kind.namespaced}
    if (sub["group"], sub["version"]) != (kind.group, kind.version):
        entry |= {"group": sub["group"], "version": sub["version"]}
    return entry | {"kind": sub["kind"], "verbs": sub["verbs"]}


# Upstream keeps these in another version than the one it shows.
_KEPT_AS = {
    "events": "/v1/Event",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/v1beta1/CustomResourceDefinition",
}


def storage_hash(rules: Rules) -> str:
    """A fingerprint of the stored form, by which clients see that two groups share it."""
    kind = rules.kind
    stored = _KEPT_AS.get(rules.store or kind.resource) or f"{kind.group}/{kind.version}/{kind.kind}"
    return base64.b64encode(sha256(stored.encode()).digest()[:8]).decode()


# All at once


def aggregated(served: Sequence[Rules], *, core: bool) -> Document:
    """The page at /api (the core group) or /apis (all others) for clients that ask for everything at once."""
    names = [""] if core else group_names(served)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(served, name) for name in names],
    }


def _aggregated_group(served: Sequence[Rules], name: str) -> Document:
    versions = []
    for version in versions_of(served, name):
        chosen = [r for r in served if (r.kind.group, r.kind.version) == (name, version)]
        resources = [_aggregated(rules) for rules in sorted(chosen, key=lambda r: r.kind.plural)]
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated(rules: Rules) -> Document:
    facts, kind = rules.resource, rules.kind
    entry: Document = {
        "resource": kind.plural,
        "responseKind": _response(rules, kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": facts["singular"],
        "verbs": facts["verbs"],
    }
    entry |= {"shortNames": facts["short"]} if facts["short"] else {}
    entry |= {"categories": facts["categories"]} if facts["categories"] else {}
    subresources = [
        {
            "subresource": sub["name"],
            "responseKind": _response(rules, sub["group"], sub["version"], sub["kind"]),
            "verbs": sub["verbs"],
        }
        for sub in facts["subresources"]
    ]
    return entry | ({"subresources": subresources} if subresources else {})


def _response(rules: Rules, group: str, version: str, kind: str) -> Document:
    """Built-in kinds leave out what the group and version around them already say."""
    here = not rules.custom and (group, version) == (rules.kind.group, rules.kind.version)
    return {"group": "" if here else group, "version": "" if here else version, "kind": kind}
