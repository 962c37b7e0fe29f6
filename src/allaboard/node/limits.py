"""What a container may use: CPU, memory, processes; read from its resources, spoken in the kernel's units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from allaboard.api import quantity
from allaboard.api.documents import Document, dig

PERIOD = 100_000  # microseconds
MOST_PROCESSES = 32768


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one container, or of a pod as their sum. 0 means none."""

    cpu: float = 0.0  # cores
    memory: int = 0  # bytes
    shares: float = 0.0  # cores asked for
    plain: bool = False  # no control groups: the process itself must keep to them

    def document(self) -> Document:
        """What the init sets on the workload where no control group does it."""
        return {"data": self.memory} if self.plain and self.memory else {}

    def variables(self) -> dict[str, str]:
        """A quota does not change what libraries see: tell them how many threads make sense."""
        return {"OMP_NUM_THREADS": str(max(1, int(self.cpu + 0.999)))} if self.cpu else {}

    def quota(self) -> str:
        """As cgroup v2's cpu.max wants it."""
        return f"{int(self.cpu * PERIOD)} {PERIOD}" if self.cpu else f"max {PERIOD}"


def limits_of(container: Document, *, plain: bool) -> Limits:
    resources = container.get("resources") or {}
    most, asked = resources.get("limits") or {}, resources.get("requests") or {}
    return Limits(
        cpu=float(quantity.parse(most.get("cpu", 0))),
        memory=int(float(quantity.parse(most.get("memory", 0)))),
        shares=float(quantity.parse(asked.get("cpu", 0))),
        plain=plain,
    )


def pod_limits(pod: Document, *, plain: bool) -> Limits:
    """A pod's limits: the sum over its containers, where every one has the limit."""
    every = [limits_of(container, plain=plain) for container in dig(pod, "spec", "containers", default=[])]
    return Limits(
        cpu=sum(one.cpu for one in every) if all(one.cpu for one in every) else 0.0,
        memory=sum(one.memory for one in every) if all(one.memory for one in every) else 0,
        shares=sum(one.shares for one in every),
        plain=plain,
    )


def over_memory(used: Mapping[str, int], limits: Mapping[str, int]) -> Iterable[str]:
    """Who uses more memory than allowed: what the watchdog ends where no control group would."""
    return [name for name, amount in used.items() if limits.get(name) and amount > limits[name]]
