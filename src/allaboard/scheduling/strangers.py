"""Pods of other schedulers: never moved, only counted where they stand."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.scheduling.classes import Catalogue
from allaboard.scheduling.facts import Task
from allaboard.scheduling.nodes import Nodes


class Strangers:
    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def host(self, task: Task, nodes: Nodes, classes: Catalogue) -> None:
        """It takes room; on a node nobody knows it takes none."""
        if task.node in nodes.index:
            self._tasks[task.name] = task
            nodes.occupy(nodes.index[task.node], classes.of(task.demand), task.status, task.gpu_groups)

    def dismiss(self, name: str, nodes: Nodes, classes: Catalogue) -> bool:
        """It gives its room back; whether it had any."""
        task = self._tasks.pop(name, None)
        if task is not None:
            nodes.vacate(nodes.index[task.node], classes.of(task.demand), task.status, task.gpu_groups)
        return task is not None

    def all(self) -> Iterable[Task]:
        return self._tasks.values()

    def on(self, node: str) -> list[Task]:
        return [task for task in self._tasks.values() if task.node == node]
