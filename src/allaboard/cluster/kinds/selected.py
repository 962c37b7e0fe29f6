"""Selectors that take a pod's own labels in: `matchLabelKeys` become expressions when the pod is created."""

from __future__ import annotations

from allaboard.api.documents import Document, dig

REQUIRED, PREFERRED = (f"{mode}DuringSchedulingIgnoredDuringExecution" for mode in ("required", "preferred"))


def merged(pod: Document) -> Document:
    """The pod with the labels that its affinity and its spreading ask for written into their selectors."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    if not labels or not (spec.get("affinity") or spec.get("topologySpreadConstraints")):
        return pod
    if spread := spec.get("topologySpreadConstraints"):
        spec = {**spec, "topologySpreadConstraints": [_selected(one, labels) for one in spread]}
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name):
            affinity = {**affinity, name: _terms(affinity[name], labels)}
    return {**pod, "spec": {**spec, "affinity": affinity} if affinity else spec}


def _terms(affinity: Document, labels: Document) -> Document:
    found = dict(affinity)
    if affinity.get(REQUIRED):
        found[REQUIRED] = [_selected(term, labels) for term in affinity[REQUIRED]]
    if affinity.get(PREFERRED):
        found[PREFERRED] = [
            {**term, "podAffinityTerm": _selected(term.get("podAffinityTerm") or {}, labels)}
            for term in affinity[PREFERRED]
        ]
    return found


def _selected(term: Document, labels: Document) -> Document:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for part, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(part) or ()
        if key in labels
    ]
    if not more:
        return term
    before = dig(selector, "matchExpressions", default=[])
    return {**term, "labelSelector": {**selector, "matchExpressions": [*before, *more]}}
