"""What an object counts for under a ResourceQuota, and which quotas are about it. Upstream: pkg/quota/v1/evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.quantity import NANO, Quantity, Resources, largest, resources, total

ONE, NONE = Quantity(NANO), Quantity(0)
# Names older than `count/…` for the same thing.
OLD_NAMES = {
    "configmaps": "count/configmaps",
    "persistentvolumeclaims": "count/persistentvolumeclaims",
    "replicationcontrollers": "count/replicationcontrollers",
    "resourcequotas": "count/resourcequotas",
    "secrets": "count/secrets",
    "services": "count/services",
}
BARE = ("cpu", "memory", "ephemeral-storage")
OF_PODS = frozenset({"pods", *BARE, *(f"{side}.{name}" for side in ("requests", "limits") for name in BARE)})
OF_SERVICES = frozenset({"services.nodeports", "services.loadbalancers"})
BY_CLASS = ".storageclass.storage.k8s.io/"
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
HUGE = "hugepages-"
OVER = ("Succeeded", "Failed")


def usage(resource: str, document: Document, now: datetime) -> Resources:
    """What one object counts for, itself included; `resource` is as `count/…` writes it: "pods", "jobs.batch"."""
    found = {f"count/{resource}": ONE}
    if resource == "pods":
        return found | pod_usage(document, now)
    if resource == "services":
        return found | service_usage(document)
    return found | claim_usage(document) if resource == "persistentvolumeclaims" else found


def is_counted(name: str, resource: str) -> bool:
    """Whether objects of a resource count for a limit of this name."""
    if OLD_NAMES.get(name, name) == f"count/{resource}":
        return True
    if resource == "pods":
        return name in OF_PODS or name.startswith((HUGE, f"requests.{HUGE}")) or _is_device(name)
    if resource == "services":
        return name in OF_SERVICES
    return resource == "persistentvolumeclaims" and (name == "requests.storage" or BY_CLASS in name)


def _is_device(name: str) -> bool:
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


# --- pods ---


def pod_usage(pod: Document, now: datetime) -> Resources:
    """What a pod counts for while it lives: itself, its requests and its limits."""
    if is_over(pod, now):
        return {}
    requests, limits = compute(pod, "requests"), compute(pod, "limits")
    named = {name: amount for name, amount in requests.items() if name in BARE or name.startswith(HUGE)}
    devices = {name: amount for name, amount in requests.items() if _is_device(f"requests.{name}")}
    return {
        "pods": ONE,
        **named,
        **{f"requests.{name}": amount for name, amount in (named | devices).items()},
        **{f"limits.{name}": amount for name, amount in limits.items() if name in BARE},
    }


def is_over(pod: Document, now: datetime) -> bool:
    """Whether a pod has ended, or should have gone by now: its deadline, and once more its grace, have passed."""
    if dig(pod, "status", "phase") in OVER:
        return True
    left, grace = pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("deletionGracePeriodSeconds")
    if not left or grace is None:
        return False
    return now > datetime.fromisoformat(str(left).replace("Z", "+00:00")) + timedelta(seconds=grace)


def compute(pod: Document, which: str) -> Resources:
    """The requests or limits of a pod: containers that run together, or the hungriest moment before; a pod that
    says what it needs as a whole needs that."""
    spec = pod.get("spec") or {}
    statuses = {one.get("name"): one for one in dig(pod, "status", "containerStatuses", default=())}

    def of(container: Document) -> Resources:
        told = dig(statuses.get(container.get("name")) or {}, "resources", which)
        asked = resources(dig(container, "resources", which))
        return largest([asked, resources(told)]) if told else asked

    beside, peaks = Resources(), list[Resources]()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # it goes on beside everything that follows
            beside = total([beside, of(container)])
        else:
            peaks.append(total([beside, of(container)]))
    found = largest([total([beside, *map(of, spec.get("containers") or ())]), *peaks])
    whole = resources(dig(spec, "resources", which))
    found |= {name: amount for name, amount in whole.items() if name in ("cpu", "memory") or name.startswith(HUGE)}
    return total([found, resources(spec.get("overhead"))]) if found or which == "requests" else found


def unspecified(pod: Document, hard: Iterable[str]) -> list[str]:
    """Under a quota of compute, every container says how much it needs, unless the pod does: what is missing, of whom.

    Upstream calls this a mistake that is kept.
    """
    spec = pod["spec"]
    if any(dig(spec, "resources", side) for side in ("requests", "limits")):
        return []
    listed: Documents = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    found = []
    for key in sorted(OF_PODS & set(hard) - {"pods"}):
        side, _, name = key.rpartition(".")
        if name != "ephemeral-storage":
            lacking = {
                str(c.get("name")) for c in listed if name not in dig(c, "resources", side or "requests", default={})
            }
            found += [f"{key} for: {','.join(sorted(lacking))}"] if lacking else []
    return found


# --- services and claims ---


def service_usage(service: Document) -> Resources:
    """The ports a service opens on every node, or means to, and the balancer it wants."""
    spec = service.get("spec") or {}
    kind, ports = spec.get("type") or "ClusterIP", spec.get("ports") or ()
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    opened = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    found = {"services.nodeports": Quantity(opened * NANO)}
    return found | ({"services.loadbalancers": ONE} if kind == "LoadBalancer" else {})


def claim_usage(claim: Document) -> Resources:
    """Storage a claim asks for, or was given already, in all and of its class."""
    name = class_of(claim)
    found = {f"{name}{BY_CLASS}persistentvolumeclaims": ONE} if name else {}
    asked = resources(dig(claim, "spec", "resources", "requests"))
    if "storage" in asked:
        given = resources(dig(claim, "status", "allocatedResources")).get("storage", NONE)
        found["requests.storage"] = most = max(asked["storage"], given)
        found |= {f"{name}{BY_CLASS}requests.storage": most} if name else {}
    return found


def class_of(claim: Document) -> str:
    old = (claim["metadata"].get("annotations") or {}).get(STORAGE_CLASS)
    return str(old if old is not None else dig(claim, "spec", "storageClassName") or "")


# --- scopes: a quota may be about some pods only ---


def in_scope(quota: Document, resource: str, document: Document) -> bool:
    """Whether a quota is about an object; one with scopes is about pods alone."""
    terms = list(_terms(quota.get("spec") or {}))
    return not terms or (resource == "pods" and all(_matches(term, document) for term in terms))


def _terms(spec: Document) -> Iterator[Document]:
    yield from ({"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ())
    yield from dig(spec, "scopeSelector", "matchExpressions", default=())


def _matches(term: Document, pod: Document) -> bool:
    name, spec = term["scopeName"], pod.get("spec") or {}
    if name in ("Terminating", "NotTerminating"):
        return is_ending(pod) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (dig(pod, "status", "qosClass") == "BestEffort") is (name == "BestEffort")
    if name == "PriorityClass":
        return _has_class(term, spec.get("priorityClassName") or "")
    return name == "CrossNamespacePodAffinity" and any(_looks_around(term) for term in _affinities(spec))


def is_ending(pod: Document) -> bool:
    """Whether a pod has a deadline; scopes call that terminating."""
    return dig(pod, "spec", "activeDeadlineSeconds") is not None


def _has_class(term: Document, name: str) -> bool:
    values = term.get("values") or ()
    answers = {"In": name in values, "NotIn": name not in values, "Exists": bool(name), "DoesNotExist": not name}
    return answers.get(term.get("operator", "Exists"), False)


def _affinities(spec: Document) -> Iterator[Document]:
    """Every term by which a pod wants to be near others, or far from them."""
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from dig(spec, "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution", default=())
        weighed = dig(spec, "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution", default=())
        yield from (one.get("podAffinityTerm") or {} for one in weighed)


def _looks_around(term: Document) -> bool:
    """Whether a term is about pods of other namespaces."""
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
