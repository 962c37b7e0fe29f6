"""Pod classes: pods that ask for the same thing are one class, and a class is answered once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from allaboard.scheduling.facts import GPU_DEVICE_CLASS, MIG_PREFIX, Claim, Demand

Column = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

CPU, MEMORY, GPU, PODS = range(4)
FIXED = ("cpu", "memory", "gpu", "pods")
QUOTA = ("cpu", "memory", "gpu")
# Up to so many classes are kept without asking who needs them.
MANY = 4096
_MIG_SLICES = re.compile(re.escape(MIG_PREFIX) + r"(\d+)g\.")
# Below these amounts a pod is best effort: it fits any node that has a pod slot.
_NOTHING = {"cpu": 10.0, "memory": 10.0 * 2**20}


def device_gpus(portion: float, devices: int) -> float:
    """GPUs of a share of several devices, rounded to hundredths as KAI does."""
    return round(portion * 100) * devices / 100


def mig_gpus(requests: dict[str, float]) -> float:
    """GPU quota units of MIG slices: a 3g slice counts three (quirk 10)."""
    found = ((_MIG_SLICES.match(name), count) for name, count in requests.items())
    return sum(int(match.group(1)) * count for match, count in found if match)


class PodClass:
    """A demand with its columns: `wants` per resource, `quota` as queues count it (cpu, memory, gpu)."""

    __slots__ = (
        "amounts", "asked", "best_effort", "claims", "columns", "cpu_only", "demand", "devices", "gpu_wish",
        "memory", "mig", "per_row", "plain", "portion", "quota", "rows", "shared", "static", "static_version", "wants",
    )  # fmt: skip

    def __init__(self, demand: Demand, claims: tuple[Claim, ...]) -> None:
        self.demand, self.claims = demand, claims
        self.memory, self.portion, self.devices = demand.gpu_memory, demand.portion, demand.gpu_devices
        self.shared = bool(self.memory) or self.portion > 0
        requests = dict(demand.requests)
        self.mig = any(name.startswith(MIG_PREFIX) for name in requests)
        whole = device_gpus(self.portion, self.devices) if self.portion else requests.get("gpu", 0.0)
        self.gpu_wish = 0.0 if self.memory else whole
        claimed = float(sum(claim.count for claim in claims if claim.device_class == GPU_DEVICE_CLASS))
        migs = 0.0 if demand.legacy_mig else mig_gpus(requests)
        self.quota = (requests.get("cpu", 0.0), requests.get("memory", 0.0), self.gpu_wish + claimed + migs)
        self.asked = {**requests, "gpu": 0.0 if self.shared else self.gpu_wish, "pods": 1.0}
        self.best_effort = not self.shared and _is_nothing(requests)
        self.cpu_only = not (self.shared or self.gpu_wish > 0 or claimed or self.mig)
        near = bool(demand.neighbours or demand.preferred or demand.ports)
        self.plain = not (self.shared or demand.claims or near or demand.legacy_mig)
        self.wants: Column = np.zeros(len(FIXED))
        # The resources asked for: as indexes, and the amounts as a column beside them.
        self.columns: tuple[int, ...] = ()
        self.amounts: tuple[tuple[int, float], ...] = ()
        self.rows = np.zeros(0, dtype=np.intp)
        self.per_row: Column = np.zeros((0, 1))
        self.static: Mask | None = None
        self.static_version = -1

    def lay_out(self, resources: dict[str, int]) -> None:
        """Place the request on the state's resource axis."""
        self.wants = np.zeros(len(resources))
        for name, amount in self.asked.items():
            self.wants[resources[name]] = amount
        self.rows = np.flatnonzero(self.wants > 0)
        self.per_row = self.wants[self.rows][:, None]
        self.columns = tuple(int(row) for row in self.rows)
        self.amounts = tuple((row, float(self.wants[row])) for row in self.columns)

    def portion_on(self, gpu_memory: int) -> float:
        """The part of one device of a node with this GPU memory."""
        return math.ceil(self.memory / gpu_memory * 100 - 1e-9) / 100 if self.memory else self.portion

    def memory_on(self, gpu_memory: int) -> int:
        """MiB on one device of a node with this GPU memory."""
        return self.memory if self.memory else int(self.portion * gpu_memory + 1e-9)

    def gpus_on(self, gpu_memory: int) -> float:
        """GPUs as accepted on a node: what an active pod counts in filters and in quota, claims and MIG left out."""
        return device_gpus(self.portion_on(gpu_memory), self.devices) if self.shared else self.gpu_wish

    def accepted(self, gpu_memory: int) -> tuple[float, float, float]:
        """What an active pod on such a node counts in its queue."""
        if not self.shared:
            return self.quota
        extra = self.quota[GPU] - self.gpu_wish
        return self.quota[CPU], self.quota[MEMORY], self.gpus_on(gpu_memory) + extra

    def asked_quota(self, smallest_memory: int) -> tuple[float, float, float]:
        """What a pending pod asks of its queue; a request in MiB counts against the smallest GPU."""
        if not self.memory:
            return self.quota
        return self.quota[CPU], self.quota[MEMORY], self.quota[GPU] + self.devices * self.memory / smallest_memory


class Catalogue:
    """All classes, by what is asked for: equal demands share one, and the same demand is looked up by identity.

    `grow` is called for a resource nobody asked for before, which is a new row of every node matrix.
    """

    def __init__(self, resources: dict[str, int], grow: Callable[[], None]) -> None:
        self.resources, self.grow = resources, grow
        self.claims: dict[str, Claim] = {}
        self._known: dict[object, PodClass] = {}
        self._interned: dict[int, tuple[Demand, PodClass]] = {}
        self._many = MANY

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_crowded(self) -> bool:
        """Whether so many came that it is time to see who is still needed."""
        return max(len(self._known), len(self._interned)) > self._many

    def keep_only(self, used: set[PodClass]) -> None:
        """Forget the others: jobs whose demands are like nobody else's come and go for as long as a cluster runs."""
        self._known = {key: known for key, known in self._known.items() if known in used}
        self._interned = {}
        self._many = MANY + 2 * len(self._known)

    def of(self, demand: Demand) -> PodClass:
        known = self._interned.get(id(demand))
        if known is not None and known[0] is demand:
            return known[1]
        key = demand_key(demand)
        if key not in self._known:
            self._known[key] = self._new(demand)
        self._interned[id(demand)] = (demand, self._known[key])
        return self._known[key]

    def _new(self, demand: Demand) -> PodClass:
        claims = tuple(self.claims[name] for name in demand.claims if name in self.claims)
        created = PodClass(demand, claims)
        for name in created.asked:
            self.add_resource(name)
        created.lay_out(self.resources)
        return created

    def add_resource(self, name: str) -> None:
        if name in self.resources:
            return
        self.resources[name] = len(self.resources)
        self.grow()
        for known in self:
            known.lay_out(self.resources)


def _is_nothing(requests: dict[str, float]) -> bool:
    return all(amount < _NOTHING.get(name, 10.0 / 1000) for name, amount in requests.items() if name != "pods")


def demand_key(demand: Demand) -> tuple[object, ...]:
    """What makes two demands the same class."""
    return (
        tuple(sorted(demand.requests.items())), demand.portion, demand.gpu_memory, demand.gpu_devices, demand.claims,
        demand.selector, demand.affinity, demand.tolerations, demand.ports, demand.neighbours, demand.preferred,
        demand.only_nodes,
        demand.nominated, demand.legacy_mig, demand.obstacle,
    )  # fmt: skip
