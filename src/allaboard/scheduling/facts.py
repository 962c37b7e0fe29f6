"""What a scheduling cycle knows of the cluster, as frozen values: nodes, queues, gangs with their tasks,
topologies, claims.

Units: cpu in milli-cores, memory in bytes, gpu in devices, moments in seconds since the epoch, durations in
seconds. Resource names are `cpu`, `memory`, `gpu`, `pods`; any other name is an extended resource (a MIG profile
keeps its full name).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

UNLIMITED = -1.0
NON_PREEMPTIBLE_FROM = 100
DEFAULT_POD_SET = "default"
GPU_DEVICE_CLASS = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"


class Status(IntEnum):
    """Where a task stands; the names are KAI's."""

    PENDING = 0
    GATED = 1
    ALLOCATED = 2
    PIPELINED = 3
    BINDING = 4
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    STUCK_RELEASING = 8
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty key with Exists tolerates every taint; an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label condition: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours:
    """An inter-pod (anti-)affinity term; no namespaces means the task's own. Only preferred ones have a weight."""

    topology_key: str
    selector: tuple[Requirement, ...]
    namespaces: tuple[str, ...] = ()
    anti: bool = False
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A machine; `capacity` is what is allocatable, `devices` what its ResourceSlices offer per device class."""

    name: str
    capacity: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unschedulable: bool = False
    gpu_memory: int = 100
    gpu_memory_known: bool = True
    mig: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """A queue's claim on one resource; -1 is unlimited, and a limit of 0 is nothing at all."""

    quota: float = 0.0
    limit: float = UNLIMITED
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    parent: str = ""
    priority: int = 100
    created: float = 0.0
    gpu: Share = Share()
    cpu: Share = Share(quota=UNLIMITED)
    memory: Share = Share(quota=UNLIMITED)
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    closed: bool = False
    """What runs goes on, nothing starts, here and below."""
    usage: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Decayed use as a fraction of the cluster: cpu, memory, gpu."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Where pods may stand: a topology and the levels (node label keys) to stay within; "" is no demand."""

    topology: str
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class PodSet:
    """A leaf of a gang's tree: pods of one role, of which `minimum` must run together."""

    name: str = DEFAULT_POD_SET
    minimum: int = 1
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class SubGroup:
    """An inner node of a gang's tree; `minimum` members are required, all of them when None."""

    name: str = ""
    groups: tuple[SubGroup, ...] = ()
    pod_sets: tuple[PodSet, ...] = ()
    constraint: Constraint | None = None
    minimum: int | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks for and where it may go: equal demands are one class and are answered once.

    `requests["gpu"]` counts whole devices; a share of devices is `portion` (0..1) or `gpu_memory` (MiB) of each of
    `gpu_devices`. `only_nodes` are names that volumes allow; `obstacle` is a defect no eviction can mend (a missing
    claim or config map).
    """

    requests: Mapping[str, float] = field(default_factory=dict)
    portion: float = 0.0
    gpu_memory: int = 0
    gpu_devices: int = 1
    claims: tuple[str, ...] = ()
    selector: tuple[Requirement, ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    preferred: tuple[Neighbours, ...] = ()
    only_nodes: tuple[str, ...] | None = None
    nominated: str = ""
    legacy_mig: bool = False
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A pod; `name` is unique in the cluster (namespace/name) and breaks ties."""

    name: str
    demand: Demand = Demand()
    status: Status = Status.PENDING
    node: str = ""
    pod_set: str = DEFAULT_POD_SET
    created: float = 0.0
    order: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_groups: tuple[str, ...] = ()
    namespace: str = ""

    def at(self, node: str, status: Status, gpu_groups: tuple[str, ...]) -> Task:
        """The same task in another place; `replace` would take three times as long, and every bind asks for this."""
        name, demand, pod_set, created = self.name, self.demand, self.pod_set, self.created
        return Task(name, demand, status, node, pod_set, created, self.order, self.labels, gpu_groups, self.namespace)


class Seat(NamedTuple):
    """A place on a node that was promised to a pod of this role."""

    node: str
    pod_set: str = DEFAULT_POD_SET


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGroup with its pods; `name` is unique in the cluster (namespace/name) and breaks ties."""

    name: str
    queue: str
    tasks: tuple[Task, ...] = ()
    tree: SubGroup = SubGroup(pod_sets=(PodSet(),))
    priority: int = 50
    preemptible: bool = True
    created: float = 0.0
    last_start: float | None = None
    stale_since: float | None = None
    stale_grace: float | None = None
    """Seconds this gang may stay below its minimum; None is the policy's, negative is for ever."""
    held: str = ""
    """Why it is not tried for a while, whatever room there is."""
    promised: tuple[Seat, ...] = ()
    """What cycles promised it and did not bind yet."""
    max_runtime: float | None = None
    """Declared longest run in seconds: lets a small gang run in the gap before a reservation."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Node label keys from the widest level to the narrowest."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim: `count` devices of one class; `node` when allocated; `consumers` are the pods it is reserved
    for."""

    name: str
    device_class: str
    count: int
    queue: str = ""
    node: str = ""
    consumers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class World:
    """Everything a cycle sees. `strangers` are running pods of other schedulers: never moved, only counted."""

    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    gangs: tuple[Gang, ...] = ()
    topologies: tuple[Topology, ...] = ()
    claims: tuple[Claim, ...] = ()
    strangers: tuple[Task, ...] = ()
