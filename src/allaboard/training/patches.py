"""Runtime patches: a strategic merge into the runtime's template, with the order rules of Kubernetes.

A patch can add and override but never remove: it comes from a typed object, where empty means absent.
"""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import AboardError

# Which member tells the items of a list apart; any other list is replaced as a whole.
LIST_KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}


class UnmergeablePatch(AboardError):
    """A patch or the template has a list item without the name that tells it apart."""


def merge(spec: Document, patches: Documents) -> Document:
    """A JobSet spec with the patches laid over it in list order; jobs stay in the runtime's order."""
    order = {job["name"]: index for index, job in enumerate(spec.get("replicatedJobs") or [])}
    for patch in patches:
        if change := template_of(patch).get("spec"):
            spec = _map(spec, change)
    if jobs := spec.get("replicatedJobs"):
        # A job the runtime does not have sorts in front; admission refuses it before it comes here.
        spec = {**spec, "replicatedJobs": sorted(jobs, key=lambda job: order.get(job["name"], 0))}
    return spec


def metadata(start: Document, patches: Documents, member: str) -> dict[str, str]:
    """The labels (or annotations) of the JobSet: the template's, overlaid by each patch."""
    found: dict[str, str] = dict(start.get(member) or {})
    for patch in patches:
        found |= (template_of(patch).get("metadata") or {}).get(member) or {}
    return found


def template_of(patch: Document) -> Document:
    return (patch.get("trainingRuntimeSpec") or {}).get("template") or {}


def jobs_of(patch: Document) -> Documents:
    return (template_of(patch).get("spec") or {}).get("replicatedJobs") or []


def _map(original: Document, patch: Document) -> Document:
    merged = dict(original)
    for name, value in patch.items():
        if value is None or value == [] or value == "":
            continue
        merged[name] = _value(name, original.get(name), value)
    return merged


def _value(name: str, original: object, value: object) -> object:
    if isinstance(value, dict):
        return _map(original if isinstance(original, dict) else {}, value)
    if isinstance(value, list) and name in LIST_KEYS:
        return _list(name, original if isinstance(original, list) else [], value)
    return value


def _list(name: str, original: Documents, patch: Documents) -> Documents:
    key = LIST_KEYS[name]
    old = {_key(name, item, key): item for item in original}
    new: dict[object, Document] = {}
    for item in patch:
        at = _key(name, item, key)
        new[at] = _map(new.get(at, old.get(at, {})), item)
    rest = [at for at in old if at not in new]
    return [new.get(at, old.get(at, {})) for at in _interleave(list(new), rest, list(old))]


def _key(name: str, item: Document, key: str) -> object:
    if not item.get(key):
        raise UnmergeablePatch(f'{name}: an item has no "{key}", so it cannot be merged; give each item its {key}')
    return item[key]


def _interleave(patched: list[object], rest: list[object], original: list[object]) -> Iterable[object]:
    """Patched items in patch order; an untouched one goes first only where the original list had it first."""
    place = {at: index for index, at in enumerate(original)}
    left, right = 0, 0
    while left < len(patched) and right < len(rest):
        if patched[left] in place and place[rest[right]] < place[patched[left]]:
            yield rest[right]
            right += 1
        else:
            yield patched[left]
            left += 1
    yield from patched[left:]
    yield from rest[right:]
