"""LimitRanges at work: requests and limits a pod leaves out are filled in, what is out of bounds is refused."""

from __future__ import annotations

from allaboard.api import kinds, quantity
from allaboard.api.documents import Document, Documents, dig
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden

ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanges:
    name = "LimitRanger"
    prefix = False
    alike = True
    kinds = (kinds.POD, kinds.CLAIM)
    operations = ("CREATE", "UPDATE")

    def mutate(self, request: Request, view: View) -> Document | None:
        if request.operation != "CREATE" or request.kind != kinds.POD:
            return None
        pod = request.new
        for found in view.list(kinds.LIMIT_RANGE, request.key.namespace):
            for limit in dig(found, "spec", "limits", default=[]):
                if limit.get("type") == "Container":
                    pod = filled(pod or {}, limit)
        return pod if pod is not request.new else None

    def validate(self, request: Request, view: View) -> None:
        if request.operation == "UPDATE" and request.kind == kinds.POD:
            return  # the resources of a pod change only through their own door
        for found in view.list(kinds.LIMIT_RANGE, request.key.namespace):
            words = [word for limit in dig(found, "spec", "limits", default=[]) for word in breaches(request, limit)]
            if words:
                raise forbidden(request, words[0] if len(words) == 1 else f"[{', '.join(words)}]")


def filled(pod: Document, limit: Document) -> Document:
    """The pod with the defaults of one limit, and a note of what was set."""
    spec, notes = dict(pod["spec"]), list[str]()
    for part, word in (("initContainers", "init container"), ("containers", "container")):
        if spec.get(part):
            spec[part] = [_container(container, limit, word, notes) for container in spec[part]]
    if not notes:
        return pod
    annotations = {
        **(pod["metadata"].get("annotations") or {}),
        ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}",
    }
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


def _container(container: Document, limit: Document, word: str, notes: list[str]) -> Document:
    asked = container.get("resources") or {}
    for key, source, what in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        given = asked.get(key) or {}
        missing = {name: amount for name, amount in (limit.get(source) or {}).items() if name not in given}
        if missing:
            asked = {**asked, key: {**given, **missing}}
            notes.append(f"{', '.join(sorted(missing))} {what} for {word} {container.get('name')}")
    return {**container, "resources": asked} if asked is not container.get("resources") else container


def breaches(request: Request, limit: Document) -> list[str]:
    """Every bound of one limit that a pod or claim breaks, as sentences."""
    document, kind = request.new or {}, limit.get("type")
    if request.kind == kinds.CLAIM:
        if kind != "PersistentVolumeClaim":
            return []
        return _bounds(kind, limit, dig(document, "spec", "resources", "requests", default={}), {})
    spec = document["spec"]
    listed: Documents = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if kind == "Container":
        asked = [container.get("resources") or {} for container in listed]
        return [w for a in asked for w in _bounds(kind, limit, a.get("requests") or {}, a.get("limits") or {})]
    if kind == "Pod":
        return _bounds(kind, limit, _sum(spec, "requests"), _sum(spec, "limits"))
    return []


def _sum(spec: Document, side: str) -> dict[str, str]:
    """What a whole pod asks for: its containers together, or its largest init container."""
    together = quantity.total([quantity.resources(dig(c, "resources", side)) for c in spec.get("containers") or ()])
    before = [quantity.resources(dig(c, "resources", side)) for c in spec.get("initContainers") or ()]
    return {name: str(amount) for name, amount in quantity.largest([together, *before]).items()}


def _bounds(kind: str, limit: Document, requests: Document, limits: Document) -> list[str]:
    found: list[str] = []
    for name, bound in (limit.get("min") or {}).items():
        found += _minimum(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in (limit.get("max") or {}).items():
        found += _maximum(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in (limit.get("maxLimitRequestRatio") or {}).items():
        found += _ratio(kind, name, bound, requests.get(name), limits.get(name))
    return found


def _minimum(kind: str, name: str, bound: str, request: str | None, limit: str | None) -> list[str]:
    words = f"minimum {name} usage per {kind} is {bound}"
    if request is None:
        return [f"{words}. No request is specified"]
    if quantity.parse(request) < quantity.parse(bound):
        return [f"{words}, but request is {request}"]
    if limit is not None and quantity.parse(limit) < quantity.parse(bound):
        return [f"{words}, but limit is {limit}"]
    return []


def _maximum(kind: str, name: str, bound: str, request: str | None, limit: str | None) -> list[str]:
    words = f"maximum {name} usage per {kind} is {bound}"
    if kind == "PersistentVolumeClaim":
        if request is not None and quantity.parse(request) > quantity.parse(bound):
            return [f"{words}, but request is {request}"]
        return []
    if limit is None:
        return [f"{words}. No limit is specified"]
    if quantity.parse(limit) > quantity.parse(bound):
        return [f"{words}, but limit is {limit}"]
    if request is not None and quantity.parse(request) > quantity.parse(bound):
        return [f"{words}, but request is {request}"]
    return []


def _ratio(kind: str, name: str, bound: str, request: str | None, limit: str | None) -> list[str]:
    words = f"{name} max limit to request ratio per {kind} is {bound}"
    if request is None or quantity.parse(request).nanos == 0:
        return [f"{words}, but no request is specified or request is 0"]
    if limit is None or quantity.parse(limit).nanos == 0:
        return [f"{words}, but no limit is specified or limit is 0"]
    ratio = float(quantity.parse(limit)) / float(quantity.parse(request))
    return [f"{words}, but provided ratio is {ratio:f}"] if ratio > float(quantity.parse(bound)) else []
