"""A pod's priority is its class's number; classes themselves are few and some belong to the system."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden, forbidden_early
from allaboard.cluster.kinds.priority import SYSTEM

LOWER = "PreemptLowerPriority"
COMPUTED = "must not be provided in pod spec; priority admission controller computed"


class Priorities:
    name = "Priority"
    prefix = False
    alike = True
    kinds = (kinds.POD,)
    operations = ("CREATE",)

    def __init__(self) -> None:
        self._settled: tuple[Documents, Document | None] = ([], None)  # what was listed last, and the default in it

    def mutate(self, request: Request, view: View) -> Document:
        pod = request.new or {}
        spec = pod["spec"]
        name, value, policy = self._class(request, spec.get("priorityClassName") or "", view)
        asked, wanted = spec.get("priority"), spec.get("preemptionPolicy")
        if asked is not None and asked != value:
            why = f"the integer value of priority ({asked}) {COMPUTED} {value} from the given PriorityClass name"
            raise forbidden_early(request, why)
        if wanted is not None and wanted != policy:
            why = (
                f"the string value of PreemptionPolicy ({wanted}) {COMPUTED} {policy} from the given PriorityClass name"
            )
            raise forbidden_early(request, why)
        settled = {"priority": value, "preemptionPolicy": policy} | ({"priorityClassName": name} if name else {})
        return {**pod, "spec": {**spec, **settled}}

    def _class(self, request: Request, name: str, view: View) -> tuple[str, int, str]:
        """The name, number and policy a pod gets: its own class's, the default class's, or none."""
        if name:
            found = view.get(kinds.PRIORITY_CLASS, Key("", name))
            if found is None:
                raise forbidden_early(request, f"no PriorityClass with name {name} was found")
        else:
            found = self._default(view.list(kinds.PRIORITY_CLASS))
        if found is None:
            return "", 0, LOWER
        return found["metadata"]["name"], found.get("value") or 0, found.get("preemptionPolicy") or LOWER

    def _default(self, classes: Documents) -> Document | None:
        if classes is not self._settled[0]:
            defaults = [c for c in classes if c.get("globalDefault")]
            lowest = min(defaults, key=lambda c: (c.get("value") or 0, c["metadata"]["name"]), default=None)
            self._settled = (classes, lowest)
        return self._settled[1]


class PriorityClasses:
    name = "Priority"
    prefix = False
    kinds = (kinds.PRIORITY_CLASS,)
    operations = ("CREATE", "UPDATE", "DELETE")

    def validate(self, request: Request, view: View) -> None:
        if request.operation == "DELETE":
            if request.key.name in SYSTEM:
                raise forbidden(request, "this is a system priority class and cannot be deleted")
            return
        if not (request.new or {}).get("globalDefault"):
            return
        for other in view.list(kinds.PRIORITY_CLASS):
            name = other["metadata"]["name"]
            if other.get("globalDefault") and name != request.key.name:
                why = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise forbidden(request, why)
