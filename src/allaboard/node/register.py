"""The nodes of this machine, as objects: registered once, kept alive by leases, taken away at the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from allaboard.api.documents import Document, Key
from allaboard.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from allaboard.api.kinds import LEASE, NODE
from allaboard.api.meta import stamp, uid_of
from allaboard.kube.client import Client, PatchType
from allaboard.kube.clock import Clock
from allaboard.node import devices, levels, nodes
from allaboard.node.cgroups import Groups
from allaboard.node.config import Config
from allaboard.node.devices import Device
from allaboard.node.nodes import Claim, Machine

log = logging.getLogger(__name__)

MANAGER = "kubelet"
TRIES = 5
LIFTED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Register:
    """Says what this machine has, and that it is alive."""

    def __init__(self, client: Client, config: Config, clock: Clock) -> None:
        self.client, self.config, self.clock = client, config, clock
        self.machine = Machine()
        self.address, self.port, self.known = "127.0.0.1", 0, True
        self.resources: dict[str, str] = {}
        self.devices: Sequence[Device] = ()
        self.conditions: dict[str, tuple[bool, str, str]] = {}

    def open(self, level: str, machine: Machine, groups: Groups) -> None:
        """What every node of this machine will announce."""
        self.machine = machine
        self.resources = {**machine.resources, **self.config.capacity}
        sandboxed = (level != "D", f"Level{level}", levels.LEVELS[level])
        limited = (groups.kind != "none", f"Cgroup{groups.kind.capitalize()}", groups.words)
        self.conditions = {**nodes.HEALTHY, "PodsIsolated": sandboxed, "LimitsEnforced": limited}

    async def run(self) -> None:
        """Announce every node, then keep saying that it lives."""
        unknown = set(self.config.nodes)
        while True:
            for name in self.config.nodes:
                try:
                    await self._announce(name)
                except (ApiError, OSError, TimeoutError) as problem:
                    log.warning("node %s: %s", name, problem)
                    continue
                if unknown == {name}:
                    self.config.announced()
                unknown.discard(name)
            await self.clock.sleep_until(self.clock.now() + self.config.heartbeat)

    def claim(self, name: str) -> Claim:
        resources = {**self.resources, **devices.capacity(self.devices, name)}
        return Claim(name, resources, self.config.labels, self.address, self.port, self.conditions, self.known)

    async def _announce(self, name: str) -> None:
        """Lease, status, taints, in this order: whoever watches must see that we live before he sees us untainted."""
        await self._lease(await self._node(name))
        for _ in range(TRIES):
            if await self._status(await self._node(name)):
                break
        await self._lift(await self._node(name))

    async def _node(self, name: str) -> Document:
        node = await self.client.get(NODE, Key("", name))
        if node is not None:
            return node
        fresh = nodes.node_document(self.claim(name), self.machine)
        try:
            return await self.client.create(NODE, fresh, manager=MANAGER)
        except AlreadyExists:
            return await self.client.get(NODE, Key("", name)) or fresh

    async def _lift(self, node: Document) -> None:
        """Admission marks every new node as not ready, the node lifecycle one it has not heard from; we are here."""
        taints = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") not in LIFTED]
        if len(kept) != len(taints):
            body = {"spec": {"taints": kept or None}}
            key = Key("", node["metadata"]["name"])
            await self.client.patch(NODE, key, body, type=PatchType.MERGE, manager=MANAGER)

    async def _status(self, node: Document) -> bool:
        """Written when something changed; the lease alone says that we live. False where somebody else wrote first."""
        now = self.clock.now()
        old = node.get("status") or {}
        new = nodes.node_status(self.claim(node["metadata"]["name"]), self.machine, old, now)
        if _lasting(new) == _lasting(old):
            return True
        try:
            await self.client.update(NODE, {**node, "status": new}, manager=MANAGER, subresource="status")
        except Conflict:
            return False
        return True

    async def _lease(self, node: Document) -> None:
        lease = nodes.lease_document(node["metadata"]["name"], uid_of(node), self.clock.now())
        key = Key(nodes.LEASES, node["metadata"]["name"])
        body = {"spec": lease["spec"]}
        try:
            await self.client.patch(LEASE, key, body, type=PatchType.MERGE, manager=MANAGER)
        except NotFound:
            await self.client.create(LEASE, lease, manager=MANAGER)

    async def leave(self) -> None:
        """The nodes are not ready any more: said once, at the end."""
        now = self.clock.now()
        self.conditions["Ready"] = (False, "KubeletStopped", f"the agent stopped at {stamp(now)}")
        for name in self.config.nodes:
            node = await self.client.get(NODE, Key("", name))
            if node is not None:
                await self._status(node)


def _lasting(status: Document) -> Document:
    """A status without its heartbeat times."""
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions") or []]
    return {**status, "conditions": conditions}
