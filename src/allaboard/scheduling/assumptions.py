"""What cycles decided and no watch has shown yet: pods told their node, pods told to go, gangs the server refused.

An assumption stands until the pod's own document says so, or until it turns out that nobody carried it out.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from msgspec import Struct, structs

from allaboard.api.documents import Document, Key
from allaboard.api.meta import is_leaving, uid_of
from allaboard.scheduling.facts import Status, Task

# An assumption nobody confirms is given up after this many seconds.
PATIENCE = 30.0


class Assumed(Struct, frozen=True):
    """What was decided about a pod: its node, or (without one) that it goes. `seen` is that a BindRequest was."""

    uid: str
    until: float
    node: str = ""
    gpu_groups: tuple[str, ...] = ()
    seen: bool = False


class Assumptions:
    """The one piece of memory the scheduler has besides what it is told."""

    def __init__(self) -> None:
        self._pods: dict[Key, Assumed] = {}
        self._held: dict[str, float] = {}  # gangs the server refused, and until when they are not tried again

    def bound(self, key: Key, pod: Document, node: str, gpu_groups: tuple[str, ...], now: float) -> None:
        self._pods[key] = Assumed(uid_of(pod), now + PATIENCE, node, gpu_groups)

    def leaving(self, key: Key, pod: Document, now: float) -> None:
        self._pods[key] = Assumed(uid_of(pod), now + PATIENCE)

    def forget(self, key: Key) -> None:
        self._pods.pop(key, None)

    def settle(self, key: Key, pod: Document) -> None:
        """Drop the assumption that the pod's own document confirms, or that was about a namesake."""
        assumed = self._pods.get(key)
        if assumed is None:
            return
        confirmed = pod["spec"].get("nodeName") if assumed.node else is_leaving(pod)
        if confirmed or assumed.uid != uid_of(pod):
            del self._pods[key]

    def request_seen(self, key: Key) -> None:
        if key in self._pods:
            self._pods[key] = structs.replace(self._pods[key], seen=True)

    def about(self, key: Key, task: Task) -> Task:
        """The task as it was decided, where its document does not say so yet."""
        assumed = self._pods.get(key)
        if assumed is None:
            return task
        if not assumed.node:
            return replace(task, status=Status.RELEASING) if task.node else task
        if task.status in (Status.PENDING, Status.GATED):
            return task.at(assumed.node, Status.BINDING, assumed.gpu_groups)
        return task

    def outdated(self, requests: Container[Key], now: float) -> Iterator[Key]:
        """Drop binds that no request was ever seen for (the plan failed), and whatever took too long."""
        for key, assumed in list(self._pods.items()):
            lost = assumed.node and not assumed.seen and key not in requests
            if lost or now >= assumed.until:
                del self._pods[key]
                yield key

    # --- gangs the server refused ---

    def hold(self, gang: str, until: float) -> None:
        self._held[gang] = until

    def held_until(self, gang: str) -> float | None:
        return self._held.get(gang)

    def released(self, now: float) -> Iterator[str]:
        """Drop the holds whose time is over."""
        for gang, until in list(self._held.items()):
            if now >= until:
                del self._held[gang]
                yield gang

    @property
    def next_release(self) -> float | None:
        return min(self._held.values(), default=None)
