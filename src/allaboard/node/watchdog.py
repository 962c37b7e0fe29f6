"""Limits where no control group keeps them: looks at what pods use now and then, and ends those that take too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from allaboard.api import quantity
from allaboard.api.documents import Document, dig
from allaboard.kube.clock import Clock
from allaboard.node import volumes
from allaboard.node.cgroups import Groups
from allaboard.node.facts import Doom
from allaboard.node.families import family, resident
from allaboard.node.limits import limits_of
from allaboard.node.processes import Processes
from allaboard.node.tenants import Tenant, container_of

LOOKS = timedelta(milliseconds=500)
SLOW = 10  # looks between two measurements of directories


class Watchdog:
    """Memory and processes of containers, and the size of their empty directories."""

    def __init__(self, tenants: Mapping[str, Tenant], processes: Processes, groups: Groups) -> None:
        self.tenants, self.processes, self.groups = tenants, processes, groups

    async def run(self, clock: Clock, due: Callable[[str], None]) -> None:
        look = 0
        while True:
            await clock.sleep_until(clock.now() + LOOKS)
            look += 1
            self._look_at_processes()
            if look % SLOW == 0:
                for tenant in list(self.tenants.values()):
                    if self._outgrown(tenant):
                        due(tenant.uid)

    def _look_at_processes(self) -> None:
        """Everything is read from one picture of the process table."""
        watched = [
            (tenant, attempt)
            for tenant in self.tenants.values()
            for attempt in tenant.living()
            if attempt.pid and not (self.groups.keeps("memory") and self.groups.keeps("pids"))
        ]
        if not watched:
            return
        tree = family()
        for tenant, attempt in watched:
            limits = limits_of(container_of(tenant.document, attempt.container), plain=True)
            pids = tree.below(attempt.pid)
            if not self.groups.keeps("pids") and len(pids) > self.groups.processes:
                attempt.message = f"more than {self.groups.processes} processes"
                self.processes.kill(attempt)
            elif limits.memory and not self.groups.keeps("memory") and _used(pids) > limits.memory:
                attempt.reason = "OOMKilled"
                self.processes.kill(attempt)

    def _outgrown(self, tenant: Tenant) -> bool:
        """Upstream: a pod whose emptyDir is larger than its limit is evicted."""
        if tenant.doom or not tenant.living():
            return False
        for volume in dig(tenant.document, "spec", "volumes", default=[]):
            limit = dig(volume, "emptyDir", "sizeLimit")
            root = tenant.roots.get(volume["name"])
            if dig(volume, "emptyDir", "medium") == "Memory" and self.processes.level != "D":
                continue  # the kernel keeps its size
            if limit and root and volumes.size_of(Path(root)) > _bytes(limit):
                words = f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
                tenant.doom = Doom("Evicted", words)
                tenant.remember()
                return True
        return False


def _used(pids: list[int]) -> int:
    return sum(resident(pid) for pid in pids)


def _bytes(amount: Document | str) -> int:
    return int(float(quantity.parse(str(amount))))
