"""New nodes are not ready yet, and pods bear with a node in trouble for five minutes."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.cluster.admission import Request, View

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE = 300


class NewNodesWait:
    """A node is tainted until somebody has seen it ready."""

    name = "TaintNodesByCondition"
    prefix = False
    kinds = (kinds.NODE,)
    operations = ("CREATE",)

    def mutate(self, request: Request, view: View) -> Document | None:
        node = request.new or {}
        taints = (node.get("spec") or {}).get("taints") or []
        if any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            return None
        more = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
        return {**node, "spec": {**(node.get("spec") or {}), "taints": more}}


class Tolerations:
    name = "DefaultTolerationSeconds"
    prefix = False
    alike = True
    kinds = (kinds.POD,)
    operations = ("CREATE", "UPDATE")

    def mutate(self, request: Request, view: View) -> Document | None:
        pod = request.new or {}
        given = pod["spec"].get("tolerations") or []
        missing = [patient for patient in PATIENT if not any(_covers(t, patient["key"]) for t in given)]
        if not missing:
            return None
        more = [*given, *missing] if given else PATIENT
        return {**pod, "spec": {**pod["spec"], "tolerations": more}}


def _covers(toleration: Document, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


# What nearly every pod is given: one value serves them all.
PATIENT: Documents = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}
    for key in (NOT_READY, UNREACHABLE)
]
