"""ResourceQuotas at work: what would exceed a namespace's share is refused."""

from __future__ import annotations

from allaboard.api import kinds, quantity
from allaboard.api.documents import Document, Documents, dig
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden
from allaboard.cluster.kinds.resources import is_native

Amounts = dict[str, quantity.Quantity]
ONE, ZERO = quantity.parse("1"), quantity.parse("0")
COMPUTE = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
OVER = ("Succeeded", "Failed")


class Quotas:
    name = "ResourceQuota"
    prefix = False
    operations = ("CREATE", "UPDATE")

    def validate(self, request: Request, view: View) -> None:
        if not request.kind.namespaced or request.subresource or request.kind == kinds.RESOURCE_QUOTA:
            return
        for quota in view.list(kinds.RESOURCE_QUOTA, request.key.namespace):
            hard = dig(quota, "status", "hard", default={})
            if hard and in_scope(quota, request.new or {}):
                _check(request, view, quota, hard)


def _check(request: Request, view: View, quota: Document, hard: Document) -> None:
    name, new = quota["metadata"]["name"], request.new or {}
    wanted = usage(request.kind.plural, request.kind.group, new)
    if request.operation == "UPDATE":
        before = usage(request.kind.plural, request.kind.group, request.old or {})
        wanted = {key: amount - before.get(key, ZERO) for key, amount in wanted.items()}
    wanted = {key: amount for key, amount in wanted.items() if key in hard and amount > ZERO}
    if request.kind == kinds.POD and request.operation == "CREATE" and (missing := _unspecified(new, hard)):
        raise forbidden(request, f"failed quota: {name}: must specify {'; '.join(missing)}")
    if not wanted:
        return
    used = _used(request, view, quota)
    exceeded = sorted(key for key in wanted if used.get(key, ZERO) + wanted[key] > quantity.parse(hard[key]))
    if exceeded:
        asked = ",".join(f"{key}={wanted[key]}" for key in exceeded)
        have = ",".join(f"{key}={used.get(key, ZERO)}" for key in exceeded)
        most = ",".join(f"{key}={quantity.parse(hard[key])}" for key in exceeded)
        raise forbidden(request, f"exceeded quota: {name}, requested: {asked}, used: {have}, limited: {most}")


def _unspecified(pod: Document, hard: Document) -> list[str]:
    """Under a quota of compute, every container says how much of it it needs."""
    found = []
    for key in sorted(set(COMPUTE) & hard.keys()):
        side, _, resource = key.rpartition(".")
        side, resource = side or "requests", resource or key
        spec = pod["spec"]
        listed: Documents = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        names = sorted({str(c.get("name")) for c in listed if resource not in (dig(c, "resources", side, default={}))})
        if names:
            found.append(f"{key} for: {','.join(names)}")
    return found


def in_scope(quota: Document, document: Document) -> bool:
    scopes = dig(quota, "spec", "scopes", default=[])
    if not scopes:
        return True
    spec, status = document.get("spec") or {}, document.get("status") or {}
    limited = spec.get("activeDeadlineSeconds") is not None
    effortless = status.get("qosClass") == "BestEffort"
    answers = {
        "Terminating": limited,
        "NotTerminating": not limited,
        "BestEffort": effortless,
        "NotBestEffort": not effortless,
        "PriorityClass": bool(spec.get("priorityClassName")),
    }
    return all(answers.get(scope, True) for scope in scopes)


def _used(request: Request, view: View, quota: Document) -> Amounts:
    """What this kind uses at this moment: the status lags behind, the store does not."""
    used: Amounts = {}
    for document in view.list(request.kind, request.key.namespace):
        if document["metadata"].get("name") == request.key.name or not in_scope(quota, document):
            continue
        for key, amount in _remembered(request.kind.plural, request.kind.group, document).items():
            used[key] = used.get(key, ZERO) + amount
    return used


_MEMORY: dict[tuple[str, str], Amounts] = {}
REMEMBERED = 50_000


def _remembered(plural: str, group: str, document: Document) -> Amounts:
    """What one object counts for, reckoned once for each of its revisions."""
    metadata = document["metadata"]
    key = (metadata.get("uid", ""), metadata.get("resourceVersion", ""))
    found = _MEMORY.get(key)
    if found is None or not all(key):
        if len(_MEMORY) > REMEMBERED:
            _MEMORY.clear()
        found = _MEMORY[key] = usage(plural, group, document)
    return found


def usage(plural: str, group: str, document: Document) -> Amounts:
    """What one object counts for."""
    counted = {f"count/{plural}.{group}" if group else f"count/{plural}": ONE}
    if group:
        return counted
    if plural == "pods":
        return counted | ({} if dig(document, "status", "phase") in OVER else pod_usage(document))
    if plural == "services":
        return counted | _service_usage(document)
    if plural == "persistentvolumeclaims":
        return counted | _claim_usage(document)
    return counted | {plural: ONE}


def pod_usage(pod: Document) -> Amounts:
    found: Amounts = {"pods": ONE}
    for side in ("requests", "limits"):
        for name, amount in _pod_total(pod.get("spec") or {}, side).items():
            found[f"{side}.{name}"] = amount
            if side == "requests" and is_native(name):
                found[name] = amount
    return found


def _pod_total(spec: Document, side: str) -> Amounts:
    together = quantity.total([quantity.resources(dig(c, "resources", side)) for c in spec.get("containers") or ()])
    before = [quantity.resources(dig(c, "resources", side)) for c in spec.get("initContainers") or ()]
    overhead = quantity.resources(spec.get("overhead")) if together or before else {}
    return quantity.total([quantity.largest([together, *before]), overhead])


def _service_usage(service: Document) -> Amounts:
    spec = service.get("spec") or {}
    ports = sum(1 for port in spec.get("ports") or () if port.get("nodePort"))
    found = {"services": ONE, "services.nodeports": quantity.parse(ports)}
    return found | ({"services.loadbalancers": ONE} if spec.get("type") == "LoadBalancer" else {})


def _claim_usage(claim: Document) -> Amounts:
    spec = claim.get("spec") or {}
    found = {"persistentvolumeclaims": ONE}
    amount = dig(spec, "resources", "requests", "storage")
    if amount is not None:
        found["requests.storage"] = quantity.parse(amount)
    if name := spec.get("storageClassName"):
        found[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = ONE
        if amount is not None:
            found[f"{name}.storageclass.storage.k8s.io/requests.storage"] = quantity.parse(amount)
    return found
