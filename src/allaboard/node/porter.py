"""What the node's server asks of the agent: find a pod, run a command in it, reach a port of it, say what it uses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from datetime import datetime

from allaboard.api.documents import Document, Key
from allaboard.api.meta import key_of
from allaboard.kube.clock import Clock
from allaboard.node import usage
from allaboard.node.families import family
from allaboard.node.logs import Logs
from allaboard.node.processes import Attempt, Processes
from allaboard.node.streams import Command
from allaboard.node.tenants import Tenant


class Porter:
    """Stands between callers from outside and the tenants."""

    def __init__(self, tenants: Mapping[str, Tenant], processes: Processes, logs: Logs, clock: Clock) -> None:
        self.tenants, self.processes, self.logs, self.clock = tenants, processes, logs, clock

    def now(self) -> datetime:
        return self.clock.now()

    def tenant(self, namespace: str, name: str) -> Tenant | None:
        """The pod of that name; of two (one leaving, one new) the younger."""
        key = Key(namespace, name)
        found = [tenant for tenant in self.tenants.values() if key_of(tenant.document) == key]
        return found[-1] if found else None

    async def execute(self, attempt: Attempt, command: Command, descriptors: list[int]) -> None:
        """Run a command beside the workload; stdin, stdout, stderr and the place for the result are handed over."""
        request = {"do": "exec", "dir": str(attempt.place), "pid": attempt.pid, "argv": command.argv}
        pod = attempt.place.parent.name
        await self.processes.ask(request | {"tty": command.tty, "pod": pod}, descriptors)

    async def resize(self, attempt: Attempt, rows: int, columns: int) -> None:
        """The window of a workload's terminal: its first, so the container's number 0."""
        if attempt.spec.get("tty"):
            with contextlib.suppress(OSError):
                size = {"rows": rows, "columns": columns}
                await self.processes.ask({"do": "window", "pid": attempt.pid, **size})

    async def connect(self, tenant: Tenant, port: int) -> socket.socket:
        """A connection to a port of the pod, also one that listens on its loopback only."""
        if self.processes.level in "AB":
            _, given = await self.processes.ask({"do": "socket", "pod": tenant.uid})
            return await connected(socket.socket(fileno=given[0]), "127.0.0.1", port)
        try:
            return await connected(socket.socket(), tenant.address, port)
        except OSError:
            return await connected(socket.socket(), "127.0.0.1", port)

    def summary(self) -> Document:
        """CPU and memory of every pod that runs, for `top`."""
        pods, tree = [], family()
        for tenant in list(self.tenants.values()):
            containers = [usage.of_container(attempt, tree) for attempt in tenant.living()]
            key = key_of(tenant.document)
            pods.append(
                {"podRef": {"name": key.name, "namespace": key.namespace, "uid": tenant.uid}}
                | {"containers": containers}
            )
        return {"pods": pods, "node": usage.of_machine()}


async def connected(link: socket.socket, host: str, port: int) -> socket.socket:
    link.settimeout(0)
    try:
        await asyncio.get_running_loop().sock_connect(link, (host, port))
    except OSError:
        link.close()
        raise
    return link
