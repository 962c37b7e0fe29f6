"""Nothing is created in a namespace that is missing or leaving, and some namespaces never leave."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Cause
from allaboard.cluster import refusals
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden, forbidden_early

IMMORTAL = ("default", "kube-system", "kube-public")
# A review asks about a namespace without putting anything into it.
ASKING = "authorization.k8s.io"


class NamespaceLifecycle:
    name = "NamespaceLifecycle"
    prefix = False
    alike = True
    operations = ("CREATE", "DELETE")

    def mutate(self, request: Request, view: View) -> None:
        kind = request.kind
        if request.operation == "DELETE":
            if kind == kinds.NAMESPACE and request.key.name in IMMORTAL:
                raise forbidden(request, "this namespace may not be deleted")
            return
        if not kind.namespaced or request.subresource or kind.group == ASKING:
            return
        space = request.key.namespace
        found = view.get(kinds.NAMESPACE, Key("", space))
        if found is None:
            raise refusals.not_found(kinds.NAMESPACE, space)
        if found["metadata"].get("deletionTimestamp"):
            cause = Cause("NamespaceTerminating", "metadata.namespace", f"namespace {space} is being terminated")
            why = f"unable to create new content in namespace {space} because it is being terminated"
            raise forbidden_early(request, why, [cause])

    def validate(self, request: Request, view: View) -> None:
        """Deletions pass no mutating admission."""
        if request.operation == "DELETE":
            self.mutate(request, view)
