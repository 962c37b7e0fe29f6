"""ResourceQuota status: what a namespace may use at most, and what its objects use now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.kinds import CLAIM, CONFIG_MAP, POD, RESOURCE_QUOTA, SECRET, SERVICE, Kind
from allaboard.api.meta import key_of, namespace_of
from allaboard.api.quantity import NANO, Quantity, Resources, largest, parse, resource_list, resources, total
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.pauses import Pauses
from allaboard.kube.plan import NOTHING, Plan, Status

PAUSE, RECOUNT = timedelta(milliseconds=50), timedelta(minutes=5)
# Names older than `count/…` for the same thing.
OLD_NAMES = {
    "configmaps": "count/configmaps",
    "persistentvolumeclaims": "count/persistentvolumeclaims",
    "replicationcontrollers": "count/replicationcontrollers",
    "resourcequotas": "count/resourcequotas",
    "secrets": "count/secrets",
    "services": "count/services",
}
BARE = {"cpu", "memory", "ephemeral-storage"}
FOLLOWED = (POD, SERVICE, CLAIM, CONFIG_MAP, SECRET)

Objects = Mapping[str, Documents]  # by resource, as `count/…` writes it: "pods", "jobs.batch"


def used(quota: Document, objects: Objects) -> Document:
    """The amount of each limited thing that is in use."""
    pods = [pod for pod in objects.get("pods", ()) if in_scope(quota, pod)]
    sums = total([*(pod_usage(pod) for pod in pods), *map(claim_usage, objects.get("persistentvolumeclaims", ()))])
    sums = total([sums, *map(service_usage, objects.get("services", ()))])
    for resource, documents in objects.items():
        counted = len(pods) if resource == "pods" else len(documents)
        sums[f"count/{resource}"] = Quantity(counted * NANO)
    hard = dig(quota, "spec", "hard", default={})
    return resource_list({name: sums.get(OLD_NAMES.get(name, name), Quantity(0)) for name in hard})


def is_over(pod: Document) -> bool:
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def pod_usage(pod: Document) -> Resources:
    """What a pod that is not over counts for: itself, its requests and its limits."""
    if is_over(pod):
        return {}
    requests, limits = compute(pod, "requests"), compute(pod, "limits")
    named = {name: amount for name, amount in requests.items() if name in BARE or name.startswith("hugepages-")}
    named |= {f"requests.{name}": amount for name, amount in requests.items()}
    named |= {f"limits.{name}": amount for name, amount in limits.items()}
    return {"pods": Quantity(NANO), **named}


def compute(pod: Document, which: str) -> Resources:
    """The requests or limits of a pod: its containers together, or its hungriest init container."""
    spec = pod["spec"]

    def of(containers: str) -> list[Resources]:
        return [resources(dig(container, "resources", which)) for container in spec.get(containers) or ()]

    return total([largest([total(of("containers")), *of("initContainers")]), resources(spec.get("overhead"))])


def claim_usage(claim: Document) -> Resources:
    """Storage a claim asks for, in all and of its class."""
    asked = resources(dig(claim, "spec", "resources", "requests")).get("storage", Quantity(0))
    found = {"requests.storage": asked}
    if name := dig(claim, "spec", "storageClassName"):
        prefix = f"{name}.storageclass.storage.k8s.io"
        found |= {f"{prefix}/requests.storage": asked, f"{prefix}/persistentvolumeclaims": Quantity(NANO)}
    return found


def service_usage(service: Document) -> Resources:
    kind, ports = dig(service, "spec", "type", default="ClusterIP"), dig(service, "spec", "ports", default=())
    outward = kind in ("NodePort", "LoadBalancer")
    found = {"services.nodeports": Quantity(len(ports) * NANO)} if outward else {}
    return found | ({"services.loadbalancers": Quantity(NANO)} if kind == "LoadBalancer" else {})


# --- scopes: a quota may be about some pods only ---


def in_scope(quota: Document, pod: Document) -> bool:
    spec = quota.get("spec") or {}
    plain = ({"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ())
    terms = [*plain, *dig(spec, "scopeSelector", "matchExpressions", default=())]
    return all(_matches(term, pod) for term in terms)


def _matches(term: Document, pod: Document) -> bool:
    name, spec = term["scopeName"], pod["spec"]
    ends = spec.get("activeDeadlineSeconds") is not None
    if name in ("Terminating", "NotTerminating"):
        return ends is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (dig(pod, "status", "qosClass") == "BestEffort") is (name == "BestEffort")
    if name == "PriorityClass":
        return _has_class(term, spec.get("priorityClassName") or "")
    return name == "CrossNamespacePodAffinity" and "namespaces" in str(spec.get("affinity") or "")


def _has_class(term: Document, name: str) -> bool:
    values = term.get("values") or ()
    answers = {"In": name in values, "NotIn": name not in values, "Exists": bool(name), "DoesNotExist": not name}
    return answers.get(term.get("operator", "Exists"), False)


def counted_resources(quotas: Sequence[Document]) -> set[str]:
    """Which resources have to be listed to know what is used."""
    names = {OLD_NAMES.get(name, name) for quota in quotas for name in dig(quota, "spec", "hard", default={})}
    wanted = {name.removeprefix("count/") for name in names if name.startswith("count/")}
    about_storage = any("storage" in name for name in names)
    about_services = any(name.startswith("services.") for name in names)
    extra = {"persistentvolumeclaims"} if about_storage else set()
    return wanted | extra | ({"services"} if about_services else set()) | {"pods"}


def grew(quota: Document, status: Document) -> bool:
    """Whether a quota that was counted before uses more now."""
    old, new = quota.get("status") or {}, status
    same = old.get("hard") == new["hard"] and (old.get("used") or {}).keys() == new["used"].keys()
    return same and any(parse(amount) > parse(old["used"][name]) for name, amount in new["used"].items())


class Quotas:
    """Counts again whenever something in a namespace with a quota changed, and every five minutes."""

    name = "resourcequota-controller"
    manager = "kube-controller-manager"

    def __init__(self, reader: Reader, clock: Clock, live: Reader, kinds: Callable[[], Sequence[Kind]]) -> None:
        self.reader, self.clock, self.live, self.kinds = reader, clock, live, kinds
        self.watches = (Watch(RESOURCE_QUOTA), *(Watch(kind, self._quotas_of) for kind in FOLLOWED))
        self._quotas: dict[str, set[Key]] = {}
        self._pauses = Pauses(PAUSE)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        if kind != RESOURCE_QUOTA:
            return
        document = new or old or {}
        keys = self._quotas.setdefault(namespace_of(document), set())
        keys.add(key_of(document)) if new is not None else keys.discard(key_of(document))

    def _quotas_of(self, document: Document) -> Iterable[Key]:
        return [key for key in sorted(self._quotas.get(namespace_of(document), ())) if not self._pauses.waits(key)]

    async def reconcile(self, key: Key) -> Plan:
        now = self.clock.now()
        if (due := self._pauses.until(key, now)) is not None:
            return Plan(again=due)
        if (quota := await self.reader.get(RESOURCE_QUOTA, key)) is None:
            return NOTHING
        counts = used(quota, await self._objects(key.namespace, counted_resources([quota])))
        status = {"hard": dig(quota, "spec", "hard", default={}), "used": counts}
        mine = quota.get("status") != status and self.is_mine(quota, status)
        return Plan(status=(Status(RESOURCE_QUOTA, {**quota, "status": status}),) if mine else (), again=now + RECOUNT)

    def is_mine(self, quota: Document, status: Document) -> bool:
        """The controller sets what is new and what shrank; what grew was admitted, and admission says so."""
        return not grew(quota, status)

    async def _objects(self, namespace: str, wanted: set[str]) -> Objects:
        """The objects to count; what no watch follows is asked for."""
        inside = Select(namespace=namespace)
        found: dict[str, Documents] = {}
        for kind in self.kinds():
            if kind.resource in wanted:
                source = self.reader if kind in FOLLOWED else self.live
                found[kind.resource] = await source.list(kind, inside)
        return found


class QuotaUse(Quotas):
    """Writes what grew in the name of the API server, whose admission does it on a real cluster."""

    name = "resourcequota-admission"
    manager = "kube-apiserver"

    def is_mine(self, quota: Document, status: Document) -> bool:
        return grew(quota, status)
