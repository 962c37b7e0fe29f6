"""How a real API server is told about our hooks: its two webhook configurations, as documents."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document, Documents
from allaboard.api.kinds import MUTATING_WEBHOOK, VALIDATING_WEBHOOK, Kind
from allaboard.kube.admission import Hook

NAME = "aboard.dev"
SECONDS = 10  # how long the API server waits for an answer
POINTS = ((MUTATING_WEBHOOK, "mutate"), (VALIDATING_WEBHOOK, "validate"))


@dataclass(frozen=True, slots=True)
class Door:
    """Where the API server finds our hooks, and whose certificate it must see there: a URL, or a Service."""

    authority: bytes
    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443

    def client(self, path: str) -> Document:
        bundle = base64.b64encode(self.authority).decode()
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}", "caBundle": bundle}
        service = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}
        return {"service": service, "caBundle": bundle}


def configurations(hooks: Sequence[Hook], door: Door) -> Documents:
    """One configuration for what changes documents and one for what checks them, hooks in their order."""
    found: Documents = []
    for kind, point in POINTS:
        webhooks = [_webhook(hook, point, door) for hook in hooks if hasattr(hook, point)]
        if webhooks:
            metadata = {"name": NAME}
            found.append(
                {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "webhooks": webhooks}
            )
    return found


def _webhook(hook: Hook, point: str, door: Door) -> Document:
    document: Document = {
        "name": hook.name,
        "clientConfig": door.client(f"/{point}/{hook.name}"),
        "rules": list(_rules(hook)),
        # A courtesy may be left out when nobody answers; a rule may not.
        "failurePolicy": "Ignore" if getattr(hook, "is_courtesy", False) else "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": SECONDS,
    }
    if selector := getattr(hook, "selector", None):
        document["objectSelector"] = selector
    if condition := getattr(hook, "condition", ""):
        document["matchConditions"] = [{"name": "meant", "expression": condition}]
    return document


def _rules(hook: Hook) -> Iterable[Document]:
    for kind in hook.kinds:
        yield {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "resources": [_resource(kind, subresource) for subresource in hook.subresources],
            "operations": list(hook.operations),
        }


def _resource(kind: Kind, subresource: str) -> str:
    return f"{kind.plural}/{subresource}" if subresource else kind.plural
