"""Who calls a node of a real cluster, and what the cluster is asked about him."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allaboard.api.documents import Document, dig

TOKEN_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TRUST_SECONDS = 60.0
# Upstream: a kubelet asks about the verb of the request's method, on the node's subresource "proxy".
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and his groups."""

    name: str
    groups: tuple[str, ...] = ()


def of_certificate(certificate: Mapping[str, object] | None) -> Caller | None:
    """The user a verified client certificate names: its common name; its organisations are the groups."""
    subject = (certificate or {}).get("subject")
    if not isinstance(subject, tuple):
        return None
    pairs = [pair for part in subject for pair in part]
    name = next((value for key, value in pairs if key == "commonName"), "")
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return Caller(name, groups) if name else None


def token_review(token: str) -> Document:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def of_review(review: Document) -> Caller | None:
    """The user the cluster found behind a token; None where there is none."""
    if not dig(review, "status", "authenticated"):
        return None
    user = dig(review, "status", "user", default={})
    return Caller(str(user.get("username", "")), tuple(user.get("groups") or ()))


def access_review(caller: Caller, node: str, method: str) -> Document:
    """Whether he may reach through this node."""
    about = {"verb": VERBS.get(method, method.lower()), "resource": "nodes", "subresource": "proxy", "name": node}
    spec: Document = {"user": caller.name, "groups": list(caller.groups), "resourceAttributes": about}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
