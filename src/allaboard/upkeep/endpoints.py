"""Endpoints: who stands behind a service, kept as an EndpointSlice and as the older Endpoints object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import ENDPOINT_SLICE, ENDPOINTS, NODE, POD, SERVICE, Kind
from allaboard.api.meta import (
    annotations_of,
    condition_of,
    is_leaving,
    is_true,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.plan import NOTHING, Create, Delete, Plan, Update

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
CONTROLLER = "endpointslice-controller.k8s.io"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
ZONE = "topology.kubernetes.io/zone"

NOWHERE: Mapping[str, str] = {}
Pair = tuple[str, str, str]  # namespace, label, value


def selects(service: Document, pod: Document) -> bool:
    selector = dig(service, "spec", "selector", default={})
    return bool(selector) and selector.items() <= labels_of(pod).items()


def stands_behind(service: Document, pod: Document) -> bool:
    """Whether a pod has an address and a life; the end of either takes it out."""
    alive = dig(pod, "status", "phase") not in ("Succeeded", "Failed")
    return alive and bool(dig(pod, "status", "podIP")) and selects(service, pod)


def is_headless(service: Document) -> bool:
    return bool(dig(service, "spec", "clusterIP") == "None")


def _is_ready(service: Document, pod: Document) -> bool:
    early = bool(dig(service, "spec", "publishNotReadyAddresses"))
    return early or (is_true(pod, "Ready") and not is_leaving(pod))


def slice_name(service: Document) -> str:
    """One slice a service, so its name can be told beforehand."""
    return f"{name_of(service)}-{uid_of(service)[:5]}"


def slice_of(service: Document, pods: Sequence[Document], zones: Mapping[str, str] = NOWHERE) -> Document:
    """The EndpointSlice this service should have; `zones` says where nodes are."""
    worn = {**labels_of(service), SERVICE_NAME: name_of(service), MANAGED_BY: CONTROLLER}
    if is_headless(service):
        worn[HEADLESS] = ""
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": {
            "name": slice_name(service),
            "generateName": f"{name_of(service)}-",
            "namespace": namespace_of(service),
            "labels": worn,
            "ownerReferences": [owner_reference({"apiVersion": "v1", "kind": "Service", **service})],
        },
        "addressType": "IPv4",
        "endpoints": [_endpoint(service, pod, zones) for pod in pods],
        "ports": [_port(port, pods) for port in dig(service, "spec", "ports", default=())],
    }


def _port(port: Document, pods: Sequence[Document]) -> Document:
    found = {"name": port.get("name") or "", "port": _target(port, pods), "protocol": port.get("protocol") or "TCP"}
    return found | ({"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {})


def _endpoint(service: Document, pod: Document, zones: Mapping[str, str]) -> Document:
    ready, leaving, node = _is_ready(service, pod), is_leaving(pod), pod["spec"].get("nodeName")
    endpoint: Document = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": is_true(pod, "Ready"), "terminating": leaving},
        "targetRef": _target_reference(pod),
    }
    if hostname := _hostname(service, pod):
        endpoint["hostname"] = hostname
    if node:
        endpoint["nodeName"] = node
    return endpoint | ({"zone": zones[node]} if node in zones else {})


def _target_reference(pod: Document) -> Document:
    return {"kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)}


def _hostname(service: Document, pod: Document) -> str:
    """A pod that says it belongs to this service has a name of its own under it."""
    spec = pod["spec"]
    return str(spec.get("hostname") or "") if spec.get("subdomain") == name_of(service) else ""


def _target(port: Document, pods: Sequence[Document]) -> int | None:
    """The port pods listen on; a name is looked up in the first pod that has it."""
    target = port.get("targetPort", port.get("port"))
    if not isinstance(target, str):
        return int(target or port["port"])
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for offered in container.get("ports") or ():
                if offered.get("name") == target:
                    return int(offered["containerPort"])
    return None


def endpoints_of(service: Document, pods: Sequence[Document]) -> Document:
    """The Endpoints object this service should have; who is leaving is in it only if everybody is."""
    if not dig(service, "spec", "publishNotReadyAddresses"):
        pods = [pod for pod in pods if not is_leaving(pod)]
    ready = [pod for pod in pods if _is_ready(service, pod)]
    waiting = [pod for pod in pods if not _is_ready(service, pod)]
    worn = {**labels_of(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    if is_headless(service):
        worn[HEADLESS] = ""
    document: Document = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name_of(service), "namespace": namespace_of(service), "labels": worn},
    }
    subset: Document = {}
    if ready:
        subset["addresses"] = [_address(service, pod) for pod in ready]
    if waiting:
        subset["notReadyAddresses"] = [_address(service, pod) for pod in waiting]
    ports = [port for port in slice_of(service, pods)["ports"] if port["port"] is not None]
    named = [{key: value for key, value in port.items() if value != ""} for port in ports]
    return document | ({"subsets": [subset | ({"ports": named} if named else {})]} if subset else {})


def _address(service: Document, pod: Document) -> Document:
    address: Document = {"ip": pod["status"]["podIP"], "targetRef": _target_reference(pod)}
    if hostname := _hostname(service, pod):
        address["hostname"] = hostname
    return address | ({"nodeName": pod["spec"]["nodeName"]} if pod["spec"].get("nodeName") else {})


def _write(kind: Kind, wanted: Document, existing: Document | None, trigger: str) -> Plan:
    """Create it, change what differs, or leave it; what is written says when its cause happened, if that is known."""
    if existing is None:
        metadata = {**wanted["metadata"], "annotations": {TRIGGER: trigger}} if trigger else wanted["metadata"]
        return Plan(create=(Create(kind, {**wanted, "metadata": metadata}),))
    body = {name: value for name, value in wanted.items() if name not in ("metadata", "apiVersion", "kind")}
    same = all((existing.get(name) or []) == (value or []) for name, value in body.items())
    if "subsets" not in wanted and existing.get("subsets"):
        same = False
    if same and labels_of(existing) == labels_of(wanted):
        return NOTHING
    rest = {name: value for name, value in existing.items() if name != "subsets"}
    noted = {key: value for key, value in annotations_of(existing).items() if key != TRIGGER}
    noted |= {TRIGGER: trigger} if trigger else {}
    metadata = {name: value for name, value in existing["metadata"].items() if name != "annotations"}
    metadata |= {"labels": labels_of(wanted), **({"annotations": noted} if noted else {})}
    return Plan(update=(Update(kind, {**rest, **body, "metadata": metadata}),))


class Cause(NamedTuple):
    """Why a service is looked at: when that happened ("" where nobody knows), and where nodes are."""

    trigger: str = ""
    zones: Mapping[str, str] = NOWHERE


def decide(
    service: Document,
    pods: Sequence[Document],
    kept: tuple[Document | None, Document | None],
    cause: Cause = Cause(),  # noqa: B008 - a value
) -> Plan:
    """`kept` are the slice and the Endpoints there are. A service without a selector minds its own endpoints."""
    if not dig(service, "spec", "selector") or is_leaving(service):
        return NOTHING
    behind = [pod for pod in pods if stands_behind(service, pod)]
    wanted = slice_of(service, behind, cause.zones), endpoints_of(service, behind)
    slices = _write(ENDPOINT_SLICE, wanted[0], kept[0], cause.trigger)
    return slices + _write(ENDPOINTS, wanted[1], kept[1], cause.trigger)


def moments(service: Document, pods: Sequence[Document]) -> dict[str, str]:
    """When the things happened that endpoints tell of: a service was made, a pod became ready or ceased to be."""
    found = {"": str(service["metadata"].get("creationTimestamp") or "")}
    for pod in pods:
        if moment := (condition_of(pod, "Ready") or {}).get("lastTransitionTime"):
            found[name_of(pod)] = str(moment)
    return found


def trigger_of(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The first of the moments that are new; nothing tells when a pod ceased to be."""
    return min((moment for name, moment in now.items() if moment and before.get(name) != moment), default="")


class Endpoints:
    """Keeps both objects of every service with a selector."""

    name = "endpointslice-controller"
    manager = "kube-controller-manager"

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock
        self.watches = (
            Watch(SERVICE),
            Watch(POD, self._services_of),
            Watch(ENDPOINT_SLICE, _service_of_slice),
            Watch(ENDPOINTS),
            Watch(NODE, nobody),  # where a node is does not change
        )
        self._moments: dict[Key, dict[str, str]] = {}
        self._services, self._pods = Shelf(_first_pair), Shelf(_pairs)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        """Services by one pair of their selector, pods by every pair they wear: neither has to search the other."""
        if kind == SERVICE:
            self._services.file(old, new)
        elif kind == POD:
            self._pods.file(old, new)
        return True

    async def reconcile(self, key: Key) -> Plan:
        service = await self.reader.get(SERVICE, key)
        if service is None:
            self._moments.pop(key, None)
            return await self._orphan(key)
        pods = self._pods.under(_first_pair(service))
        slice_ = await self.reader.get(ENDPOINT_SLICE, Key(key.namespace, slice_name(service)))
        kept = slice_, await self.reader.get(ENDPOINTS, key)
        return decide(service, pods, kept, await self._cause(key, service, pods))

    async def _cause(self, key: Key, service: Document, pods: Sequence[Document]) -> Cause:
        behind = [pod for pod in pods if stands_behind(service, pod)]
        now = moments(service, behind)
        trigger = trigger_of(self._moments.get(key, {}), now)
        self._moments[key] = now
        names = {str(pod["spec"].get("nodeName") or "") for pod in behind}
        nodes = {name: await self.reader.get(NODE, Key("", name)) for name in sorted(names - {""})}
        zones = {name: labels_of(node)[ZONE] for name, node in nodes.items() if node and ZONE in labels_of(node)}
        return Cause(trigger, zones)

    async def _orphan(self, key: Key) -> Plan:
        """Endpoints of a service that is gone; the slice goes with its owner."""
        kept = await self.reader.get(ENDPOINTS, key)
        managed = kept is not None and "endpoints.kubernetes.io/managed-by" in labels_of(kept)
        return Plan(delete=(Delete(ENDPOINTS, key),)) if managed else NOTHING

    def _services_of(self, pod: Document) -> Iterable[Key]:
        return [key_of(service) for service in self._services.under(_pairs(pod)) if selects(service, pod)]


class Shelf:
    """Documents that can be found by pairs of labels; one that keeps its labels is only exchanged."""

    def __init__(self, pairs: Callable[[Document], list[Pair]]) -> None:
        self._pairs = pairs
        self._documents: dict[Key, Document] = {}
        self._keys: dict[Pair, set[Key]] = {}

    def file(self, old: Document | None, new: Document | None) -> None:
        before = set(self._pairs(old)) if old is not None else set()
        after = set(self._pairs(new)) if new is not None else set()
        key = key_of(new or old or {})
        if new is not None:
            self._documents[key] = new
        else:
            self._documents.pop(key, None)
        for pair in before - after:
            self._keys.get(pair, set()).discard(key)
            if not self._keys.get(pair):
                self._keys.pop(pair, None)
        for pair in after - before:
            self._keys.setdefault(pair, set()).add(key)

    def under(self, pairs: Iterable[Pair]) -> list[Document]:
        """The documents filed under any of these pairs, in order."""
        keys = set().union(*(self._keys.get(pair, ()) for pair in pairs))
        return [self._documents[key] for key in sorted(keys)]


def _pairs(document: Document) -> list[Pair]:
    namespace = namespace_of(document)
    return [(namespace, key, value) for key, value in labels_of(document).items()]


def _first_pair(service: Document) -> list[Pair]:
    """The pair a service is filed under; any one of its selector will do."""
    selector = dig(service, "spec", "selector", default={})
    return [(namespace_of(service), *pair) for pair in sorted(selector.items())[:1]]


def _service_of_slice(document: Document) -> Iterable[Key]:
    name = labels_of(document).get(SERVICE_NAME)
    return (Key(namespace_of(document), name),) if name else ()
