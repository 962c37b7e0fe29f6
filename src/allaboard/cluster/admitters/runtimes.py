"""What a RuntimeClass adds to the pods that name it: overhead, a node selector, tolerations."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document, Key, dig
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden_early


class RuntimeClasses:
    name = "RuntimeClass"
    prefix = False
    alike = True
    kinds = (kinds.POD,)
    operations = ("CREATE",)

    def mutate(self, request: Request, view: View) -> Document | None:
        pod = request.new or {}
        spec = dict(pod["spec"])
        name = spec.get("runtimeClassName")
        found = view.get(kinds.RUNTIME_CLASS, Key("", name)) if name else None
        if name and found is None:
            raise forbidden_early(request, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = dig(found, "overhead", "podFixed", default={})
        if spec.get("overhead") and spec["overhead"] != overhead:
            words = (
                "Pod's Overhead doesn't match RuntimeClass's defined Overhead" if found else "Pod Overhead set without"
            )
            why = (
                f"pod rejected: {words}"
                if found
                else f"pod rejected: {words} corresponding RuntimeClass defined Overhead"
            )
            raise forbidden_early(request, why)
        if found is None:
            return None
        if overhead:
            spec["overhead"] = overhead
        _placed(request, spec, found.get("scheduling") or {})
        return {**pod, "spec": spec}


def _placed(request: Request, spec: Document, scheduling: Document) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise forbidden_early(request, f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    given = spec.get("tolerations") or []
    more = [toleration for toleration in scheduling.get("tolerations") or () if toleration not in given]
    if more:
        spec["tolerations"] = [*given, *more]
