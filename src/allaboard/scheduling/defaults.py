"""What a fresh plane needs before it can schedule: priority classes (ruling 20) and a queue for who names none."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.kinds import PRIORITY_CLASS, QUEUE, Kind
from allaboard.scheduling.groupers.workload import DEFAULT_QUEUE

PARENT_QUEUE = "default-parent-queue"

CLASSES = {
    "train": (50, "work that may be moved or stopped for others"),
    "build-preemptible": (75, "interactive work that may be stopped for others"),
    "build": (100, "interactive work that keeps its place"),
    "inference": (125, "services that keep their place"),
}


def _priority_class(name: str, value: int, words: str) -> Document:
    body = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind, "metadata": {"name": name}}
    return {**body, "value": value, "globalDefault": False, "description": words}


def _queue(name: str, parent: str = "") -> Document:
    """No quota, no limit: whoever comes shares what is there."""
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec: Document = {"resources": {resource: dict(share) for resource in ("gpu", "cpu", "memory")}}
    body = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}}
    return {**body, "spec": spec | ({"parentQueue": parent} if parent else {})}


OBJECTS: tuple[tuple[Kind, Document], ...] = (
    *((PRIORITY_CLASS, _priority_class(name, *facts)) for name, facts in CLASSES.items()),
    (QUEUE, _queue(PARENT_QUEUE)),
    (QUEUE, _queue(DEFAULT_QUEUE, PARENT_QUEUE)),
)
