"""A pod on this machine: its directory, its containers' attempts, and what is being done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from allaboard.api.documents import Document, dig
from allaboard.node import records
from allaboard.node.facts import Doom, Facts, Health, Trouble
from allaboard.node.processes import Attempt, adopt

POD = "pod"  # the record of a pod, in its directory


@dataclass(slots=True)
class Ending:
    """A container on its way out: until when it may tidy up, and the task that sees to it."""

    deadline: datetime
    task: asyncio.Task[None]


@dataclass(slots=True)
class Tenant:
    """Everything the agent remembers about one pod; what must survive it is in `place`."""

    uid: str
    place: Path
    document: Document
    address: str = ""
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    health: dict[str, Health] = field(default_factory=dict)
    endings: dict[str, Ending] = field(default_factory=dict)
    probes: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)  # volume → directory
    devices: dict[str, list[str]] = field(default_factory=dict)  # container → ids of its GPUs
    users: tuple[int, ...] = ()  # its own: first uid, first gid, how many
    doom: Doom | None = None
    released: bool = False
    said: set[str] = field(default_factory=set)  # warnings already given

    def facts(self, host: str) -> Facts:
        return Facts(
            host=host,
            address=self.address,
            runs={name: tuple(a.run() for a in attempts[-2:]) for name, attempts in self.attempts.items()},
            troubles=dict(self.troubles),
            health=dict(self.health),
            stopping={name: ending.deadline for name, ending in self.endings.items()},
            doom=self.doom,
        )

    def living(self) -> list[Attempt]:
        return [attempts[-1] for attempts in self.attempts.values() if attempts and attempts[-1].ended is None]

    def comes_back(self) -> bool:
        """Whether the next agent would start again what ends now."""
        return bool(dig(self.document, "spec", "restartPolicy") != "Never")

    def last(self, container: str) -> Attempt | None:
        attempts = self.attempts.get(container)
        return attempts[-1] if attempts else None

    def attempt_place(self, container: str, number: int) -> Path:
        return self.place / f"{container}.{number}"

    def remember(self) -> None:
        """Write down what a later agent must know."""
        record: Document = {"address": self.address, "released": self.released, "devices": self.devices}
        record["users"] = list(self.users)
        if self.doom:
            record["doom"] = [self.doom.reason, self.doom.message]
        metadata = self.document["metadata"]
        record |= {"namespace": metadata["namespace"], "name": metadata["name"]}
        records.note(f"{self.place}/{POD}", "pod", record)


def find(place: Path, document: Document, children: dict[str, int], now: datetime) -> Tenant:
    """A pod's directory after a restart, made a tenant again."""
    tenant = Tenant(place.name, place, document)
    record = records.read(place / POD).get("pod")
    if record is None:
        return tenant
    tenant.address, tenant.released = record["address"], record["released"]
    tenant.devices, tenant.users = record.get("devices", {}), tuple(record.get("users", ()))
    if record.get("doom"):
        tenant.doom = Doom(*record["doom"])
    for container, number in sorted(_numbered(place)):
        attempt = adopt(tenant.attempt_place(container, number), children, now)
        if attempt is not None:
            tenant.attempts.setdefault(container, []).append(attempt)
    return tenant


def _numbered(place: Path) -> Iterator[tuple[str, int]]:
    """The attempts that have a directory: container and number."""
    for entry in place.iterdir():
        container, _, number = entry.name.rpartition(".")
        if container and number.isdigit():
            yield container, int(number)


def container_of(pod: Document, name: str) -> Document:
    """A container of a pod by name; a pod known by its directory alone has none to show."""
    everyone = [*pod["spec"].get("containers", []), *(pod["spec"].get("initContainers") or [])]
    return next((container for container in everyone if container["name"] == name), {"name": name})
