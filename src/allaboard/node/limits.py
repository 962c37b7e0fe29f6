"""What a container may use: CPU, memory, processes; read from its resources, spoken in the kernel's units."""

from __future__ import annotations

from dataclasses import dataclass

from allaboard.api import quantity
from allaboard.api.documents import Document

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
        """What the init sets on the workload where no control group does it: a fence well behind the watchdog."""
        return {"data": 2 * self.memory + 2**30} if self.plain and self.memory else {}

    def variables(self) -> dict[str, str]:
        """A quota does not change what libraries see: tell them how many threads make sense."""
        return {"OMP_NUM_THREADS": str(max(1, int(self.cpu + 0.999)))} if self.cpu else {}

    def quota(self) -> str:
        """As cgroup v2's cpu.max wants it."""
        return f"{int(self.cpu * PERIOD)} {PERIOD}" if self.cpu else f"max {PERIOD}"


def limits_of(container: Document, *, plain: bool) -> Limits:
    """A container's own limits; `plain` where no control group will keep the memory limit."""
    resources = container.get("resources") or {}
    most, asked = resources.get("limits") or {}, resources.get("requests") or {}
    return Limits(
        cpu=float(quantity.parse(most.get("cpu", 0))),
        memory=int(float(quantity.parse(most.get("memory", 0)))),
        shares=float(quantity.parse(asked.get("cpu", 0))),
        plain=plain,
    )
