"""Pods as demands: what a pod document asks for and where it may go, read once into a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from allaboard.api import labels
from allaboard.api.documents import Document, Documents
from allaboard.api.meta import annotations_of, labels_of
from allaboard.api.quantity import BadQuantity, parse
from allaboard.scheduling.facts import Demand, Neighbours, Requirement, Toleration

GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
# How field terms of a node affinity are asked: every node carries its own name under this key.
NODE_NAME = "metadata.name"
REMEMBERED = 4096
UNREADABLE = "the pod cannot be read"

Amounts = dict[str, float]


def amounts(resources: Mapping[str, str | int | float] | None) -> Amounts:
    """A resource list in the scheduler's units: cpu in milli-cores, all kinds of GPU devices as `gpu`."""
    found: Amounts = {}
    for name, value in (resources or {}).items():
        quantity = parse(value)
        if name == "cpu":
            found["cpu"] = float(quantity.milli_value())
        else:
            kept = "gpu" if name in GPUS else name
            found[kept] = found.get(kept, 0.0) + float(quantity)
    return found


def requests_of(pod: Document) -> Amounts:
    """What the pod needs at its hungriest moment: its containers together, or one init container with its sidecars."""
    spec = pod["spec"]
    running: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        needs = _needs(container)
        if container.get("restartPolicy") == "Always":
            running = _sum(running, needs)
            needs = {}
        peak = _most(peak, _sum(running, needs))
    for container in spec.get("containers") or ():
        running = _sum(running, _needs(container))
    total = _most(running, peak) | amounts((spec.get("resources") or {}).get("requests"))
    return _sum(total, amounts(spec.get("overhead")))


def _needs(container: Document) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {**left, **{name: left.get(name, 0.0) + amount for name, amount in right.items()}}


def _most(left: Amounts, right: Amounts) -> Amounts:
    return {**left, **{name: max(left.get(name, 0.0), amount) for name, amount in right.items()}}


@dataclass(frozen=True, slots=True)
class Storage:
    """What the pod's volumes allow: the nodes they can reach (None is all), or why no node will do."""

    only_nodes: tuple[str, ...] | None = None
    obstacle: str = ""


ANYWHERE = Storage()


# What a demand depends on besides the containers: these parts of a pod's spec, and annotations that ask for a share of
# a GPU.
PARTS = ("nodeSelector", "affinity", "tolerations", "overhead", "resources", "hostNetwork", "resourceClaims")
SHARES = (labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES)


class Demands:
    """Reads demands; pods that say the same share one value, so their class is found by identity."""

    def __init__(self) -> None:
        self._known: dict[str, Demand] = {}
        self._last: tuple[object, Demand | None] = (None, None)

    def of(self, pod: Document, storage: Storage = ANYWHERE) -> Demand:
        """The demand of a pod; the next pod of a template says the very same, which is told without making a text."""
        parts = _parts(pod, storage)
        last, demand = self._last
        if demand is None or parts != last:
            demand = self._by_face(pod, storage, repr(parts))
            self._last = (parts, demand)
        return demand

    def _by_face(self, pod: Document, storage: Storage, face: str) -> Demand:
        if (known := self._known.get(face)) is not None:
            return known
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        demand = self._known[face] = read(pod, storage)
        return demand


def _parts(pod: Document, storage: Storage) -> tuple[object, ...]:
    """All that a demand depends on."""
    spec = pod["spec"]
    neighbourly = labels_of(pod) if spec.get("affinity") and "matchLabelKeys" in str(spec["affinity"]) else None
    helpers = spec.get("initContainers")
    return (
        _wishes(spec.get("containers"), "ports"),
        _wishes(helpers, "restartPolicy") if helpers else None,
        *map(spec.get, PARTS),
        *map(annotations_of(pod).get, SHARES),
        neighbourly,
        (pod.get("status") or {}).get("nominatedNodeName"),
        storage,
    )


def _wishes(containers: Documents | None, further: str) -> list[tuple[object, object]]:
    """What containers ask for, the same for every pod of a template."""
    return [(container.get("resources"), container.get(further)) for container in containers or ()]


def read(pod: Document, storage: Storage = ANYWHERE) -> Demand:
    """The demand of one pod; a document that cannot be read becomes an obstacle, so that others go on."""
    try:
        return _read(pod, storage)
    except (BadQuantity, ValueError) as error:
        return Demand(obstacle=f"{UNREADABLE}: {error}")


def _read(pod: Document, storage: Storage) -> Demand:
    spec = pod["spec"]
    if spec.get("resourceClaims"):
        raise ValueError(
            "spec.resourceClaims: claims of devices (resource.k8s.io) are not placed here; "
            "ask for them in resources, such as nvidia.com/gpu, or name another scheduler"
        )
    affinity = spec.get("affinity") or {}
    terms = ((affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    )
    demand = Demand(
        requests=requests_of(pod),
        selector=tuple(Requirement(k, "In", (v,)) for k, v in sorted((spec.get("nodeSelector") or {}).items())),
        affinity=tuple(_term(term) for term in terms or ()),
        tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
        ports=tuple(sorted(_host_ports(spec))),
        neighbours=tuple(_neighbours(affinity, pod)),
        preferred=tuple(_preferred(affinity, pod)),
        only_nodes=storage.only_nodes,
        nominated=(pod.get("status") or {}).get("nominatedNodeName") or "",
        obstacle=storage.obstacle,
    )
    return _with_share(demand, annotations_of(pod))


def _with_share(demand: Demand, said: Mapping[str, str]) -> Demand:
    """A share of GPUs, where the annotations ask for one."""
    if labels.GPU_FRACTION not in said and labels.GPU_MEMORY not in said:
        return demand
    try:
        devices = int(said.get(labels.GPU_FRACTION_DEVICES, "1"))
        portion, memory = float(said.get(labels.GPU_FRACTION, "0")), int(said.get(labels.GPU_MEMORY, "0"))
    except ValueError:
        devices = portion = memory = 0
    if not (0 <= portion <= 1 and memory >= 0 and devices >= 1 and (portion or memory)):
        asked = (labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES)
        words = ", ".join(f'{key} "{said[key]}"' for key in asked if key in said)
        raise ValueError(f"metadata.annotations: {words} is no share of a GPU")
    return replace(demand, portion=portion, gpu_memory=memory, gpu_devices=devices)


def _term(term: Document) -> tuple[Requirement, ...]:
    """One alternative of a node affinity; its field expressions ask for the node's name."""
    both = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return tuple(_requirement(expression) for expression in both)


def _requirement(expression: Document) -> Requirement:
    return Requirement(expression["key"], expression["operator"], tuple(expression.get("values") or ()))


def _toleration(document: Document) -> Toleration:
    names = ("key", "operator", "value", "effect")
    return Toleration(*(document.get(name) or ("Equal" if name == "operator" else "") for name in names))


def _host_ports(spec: Document) -> Iterable[tuple[str, int]]:
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            if number := port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0):
                yield port.get("protocol") or "TCP", number


def _neighbours(affinity: Document, pod: Document) -> Iterable[Neighbours]:
    for name, anti in (("podAffinity", False), ("podAntiAffinity", True)):
        for term in (affinity.get(name) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            yield _near(name, term, pod, anti=anti)


def _preferred(affinity: Document, pod: Document) -> Iterable[Neighbours]:
    for name, anti in (("podAffinity", False), ("podAntiAffinity", True)):
        for wish in (affinity.get(name) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield replace(_near(name, wish["podAffinityTerm"], pod, anti=anti), weight=int(wish["weight"]))


def _near(field: str, term: Document, pod: Document, *, anti: bool) -> Neighbours:
    if term.get("namespaceSelector") is not None:
        raise ValueError(f"spec.affinity.{field}: namespaceSelector is not supported; name the namespaces")
    selector = (*selector_of(term.get("labelSelector")), *_same_labels(term, pod))
    return Neighbours(term["topologyKey"], selector, tuple(term.get("namespaces") or ()), anti=anti)


def _same_labels(term: Document, pod: Document) -> Iterable[Requirement]:
    """`matchLabelKeys`: neighbours must (or must not) wear the pod's own value of these labels."""
    worn = labels_of(pod)
    for names, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(names) or ():
            if key in worn:
                yield Requirement(key, operator, (worn[key],))


def selector_of(selector: Document | None) -> tuple[Requirement, ...]:
    """A label selector as conditions that must all hold."""
    if not selector:
        return ()
    equal = (Requirement(k, "In", (v,)) for k, v in sorted((selector.get("matchLabels") or {}).items()))
    return (*equal, *(_requirement(expression) for expression in selector.get("matchExpressions") or ()))
