"""ResourceQuotas at work: what would exceed a namespace's share is refused."""

from __future__ import annotations

from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.api.quantity import Resources, parse
from allaboard.api.usage import NONE, OLD_NAMES, in_scope, is_ending, unspecified, usage
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden


class Quotas:
    name = "ResourceQuota"
    prefix = False
    operations = ("CREATE", "UPDATE")

    def validate(self, request: Request, view: View) -> None:
        quotas = view.list(kinds.RESOURCE_QUOTA, request.key.namespace)  # first: mostly there are none
        if not quotas or not request.kind.namespaced or not _is_weighed(request):
            return
        for quota in quotas:
            hard = dig(quota, "status", "hard", default={})
            if hard and in_scope(quota, request.kind.resource, request.new or {}):
                _check(request, view, quota, hard)


def _is_weighed(request: Request) -> bool:
    """Upstream: of a pod its creation, its resizing, and that it begins or ceases to have a deadline."""
    if request.kind == kinds.POD and request.operation == "UPDATE":
        if request.subresource == "resize":
            return True
        return not request.subresource and is_ending(request.new or {}) != is_ending(request.old or {})
    return not request.subresource and request.kind != kinds.RESOURCE_QUOTA


def _check(request: Request, view: View, quota: Document, hard: Document) -> None:
    name, new, now = quota["metadata"]["name"], request.new or {}, _moment(request)
    wanted = _named(usage(request.kind.resource, new, now), hard)
    if request.operation == "UPDATE" and in_scope(quota, request.kind.resource, request.old or {}):
        before = _named(usage(request.kind.resource, request.old or {}, now), hard)
        wanted = {key: amount - before.get(key, NONE) for key, amount in wanted.items()}
    wanted = {key: amount for key, amount in wanted.items() if amount > NONE}
    if request.kind == kinds.POD and request.operation == "CREATE" and (missing := unspecified(new, hard)):
        raise forbidden(request, f"failed quota: {name}: must specify {'; '.join(missing)}")
    if not wanted:
        return
    used = _used(request, view, quota, hard)
    exceeded = sorted(key for key in wanted if used.get(key, NONE) + wanted[key] > parse(hard[key]))
    if exceeded:
        asked = ",".join(f"{key}={wanted[key]}" for key in exceeded)
        have = ",".join(f"{key}={used.get(key, NONE)}" for key in exceeded)
        most = ",".join(f"{key}={parse(hard[key])}" for key in exceeded)
        raise forbidden(request, f"exceeded quota: {name}, requested: {asked}, used: {have}, limited: {most}")


def _moment(request: Request) -> datetime:
    """When something new was made is now; of a change that matters only to what is leaving, and then a little."""
    return datetime.fromisoformat((request.new or {})["metadata"]["creationTimestamp"].replace("Z", "+00:00"))


def _named(amounts: Resources, hard: Document) -> Resources:
    """The amounts by the names under which they are limited; a thing may be limited under its old name, too."""
    return {key: amounts[OLD_NAMES.get(key, key)] for key in hard if OLD_NAMES.get(key, key) in amounts}


def _used(request: Request, view: View, quota: Document, hard: Document) -> Resources:
    """What this kind uses at this moment: the status lags behind, the store does not."""
    resource, now, used = request.kind.resource, _moment(request), Resources()
    for document in view.list(request.kind, request.key.namespace):
        if document["metadata"].get("name") == request.key.name or not in_scope(quota, resource, document):
            continue
        for key, amount in _remembered(resource, document, now).items():
            used[key] = used.get(key, NONE) + amount
    return _named(used, hard)


_MEMORY: dict[tuple[str, str], Resources] = {}
REMEMBERED = 50_000


def _remembered(resource: str, document: Document, now: datetime) -> Resources:
    """What one object counts for, reckoned once for each of its revisions; what is leaving counts by the clock."""
    metadata = document["metadata"]
    key = (metadata.get("uid", ""), metadata.get("resourceVersion", ""))
    found = _MEMORY.get(key)
    if found is None or not all(key) or metadata.get("deletionTimestamp"):
        if len(_MEMORY) > REMEMBERED:
            _MEMORY.clear()
        found = _MEMORY[key] = usage(resource, document, now)
    return found
