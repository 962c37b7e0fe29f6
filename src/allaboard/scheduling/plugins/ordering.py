"""Which gang, and which task of a gang, comes first: plugins that add a part to an ordering key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from allaboard.scheduling.facts import Task
from allaboard.scheduling.gangs import GangRow


class Priority:
    """A gang of higher priority goes first."""

    name = "priority"

    def gang_key(self, gang: GangRow, active: Sequence[int]) -> int:
        return -gang.priority


class Elastic:
    """A gang below its minimum goes before one at it, and that one before a gang that only grows."""

    name = "elastic"

    def gang_key(self, gang: GangRow, active: Sequence[int]) -> int:
        return gang.elasticity(active)


class Kubeflow:
    """Masters and launchers go before workers."""

    name = "kubeflow"

    def task_key(self, task: Task) -> int:
        return task.labels.get("training.kubeflow.org/job-role") not in ("master", "launcher")


class Ray:
    """The head goes before the workers."""

    name = "ray"

    def task_key(self, task: Task) -> int:
        return task.labels.get("ray.io/node-type") != "head"


class TaskOrder:
    """A task with a priority label goes before one without, the larger number first."""

    name = "taskorder"

    def task_key(self, task: Task) -> tuple[int, int]:
        return (1, 0) if task.order is None else (0, -task.order)


class SubGroupOrder:
    """Pod sets that miss something go first; the order itself is in `selection.py`, which every gang needs."""

    name = "subgrouporder"


class TaskRule(NamedTuple):
    """An order of tasks: the plugins that have a say, and what they say as a key.

    What they say depends on what a task wears and when it was created, never on where it stands.
    """

    names: tuple[str, ...]
    key: Callable[[Task], tuple[object, ...]]


_DEFAULT = (Kubeflow(), Ray(), TaskOrder())
_masters_first, _heads_first, _in_order = (plugin.task_key for plugin in _DEFAULT)


def _default_key(task: Task) -> tuple[object, ...]:
    return _masters_first(task), _heads_first(task), _in_order(task), task.created, task.name


# Where no policy has said otherwise: a state is built before any cycle asks.
DEFAULT_TASK_RULE = TaskRule(tuple(plugin.name for plugin in _DEFAULT), _default_key)
