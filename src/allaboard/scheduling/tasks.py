"""Tasks as parallel columns: every task has a row, every list below says one thing about all of them.

Between cycles only `state.py` and `surroundings.py` change them, inside a cycle `statement.py`, at its end
`settling.py`. Rows of tasks that are gone are used again.
"""

from __future__ import annotations

from typing import NamedTuple

from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.facts import Status, Task
from allaboard.scheduling.gangs import IS_USED, Members
from allaboard.scheduling.plugins.ordering import DEFAULT_TASK_RULE, TaskRule

NOWHERE = -1


class Place(NamedTuple):
    """Where a task stands, by the row of the node, and how."""

    node: int
    status: Status
    groups: tuple[str, ...]


class Ghosts:
    """Places that moved tasks still hold while a cycle runs: they are gone from them only when somebody has left."""

    def __init__(self) -> None:
        self._places: dict[int, list[Place]] = {}
        # Places (task row, node row) that a policy which follows KAI to the letter has forgotten while they are left,
        # and whether sums were left wrong by that.
        self.unlisted: set[tuple[int, int]] = set()
        self.leaks = False

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, row: int) -> bool:
        return row in self._places

    def of(self, row: int) -> list[Place]:
        """The places a task is leaving, oldest first."""
        return self._places.get(row, [])

    def add(self, row: int, place: Place) -> None:
        self._places.setdefault(row, []).append(place)

    def undo(self, row: int) -> None:
        """The newest place is the task's own again."""
        self._places[row].pop()
        if not self._places[row]:
            del self._places[row]

    def lay(self, row: int) -> list[Place]:
        """The task is not two things any more; the places it was leaving."""
        return self._places.pop(row, [])


class Tasks:
    """The columns: what was told (`fact`), class and pod set; and as it stands now: status, node, shared devices
    (`groups`), and whether only a trial says so (`virtual`)."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.fact: list[Task | None] = []  # a free row has none
        self.status: list[Status] = []
        self.node: list[int] = []
        self.klass: list[PodClass] = []
        self.members: list[Members] = []
        self.groups: list[tuple[str, ...]] = []
        self.virtual: list[bool] = []
        self.ghosts = Ghosts()
        self.rule: TaskRule = DEFAULT_TASK_RULE
        self._free: list[int] = []

    def _told(self, row: int) -> Task:
        task = self.fact[row]
        assert task is not None
        return task

    def name(self, row: int) -> str:
        return self._told(row).name

    def key(self, row: int) -> tuple[object, ...]:
        """Order inside a pod set."""
        return self.rule.key(self._told(row))

    def confirm(self, row: int, task: Task) -> None:
        """What the state assumed of the task was told: it stays where it is, by another word."""
        count = self.members[row].count
        count[self.status[row]] -= 1
        count[task.status] += 1
        self.fact[row], self.status[row] = task, task.status

    def mark(self, row: int, place: Place) -> None:
        """The task stands there now; its pod set counts it so."""
        count = self.members[row].count
        count[self.status[row]] -= 1
        count[place.status] += 1
        self.node[row], self.status[row], self.groups[row] = place

    def enter(self, task: Task, klass: PodClass, members: Members, node: int) -> int:
        """A new task; on a node nobody knows it is lost. Its row."""
        used, groups = IS_USED[task.status], devices_of(task, klass) if klass.shared else task.gpu_groups
        status = Status.UNKNOWN if used and node < 0 else task.status
        # A plain tuple: a state is built of many tasks, and a named one takes longer to make.
        row = self._write(task, (node if used else NOWHERE, status, groups), klass, members)
        self.row_of[task.name] = row
        members.klass = klass if not members.rows or members.klass is klass else None
        members.gang.rows.append(row)
        members.rows.append(row)
        members.count[status] += 1
        return row

    def leave(self, row: int) -> None:
        """The task is gone, and its row is free."""
        members = self.members[row]
        members.count[self.status[row]] -= 1
        members.rows.remove(row)
        members.gang.rows.remove(row)
        del self.row_of[self.name(row)]
        self.fact[row] = None
        self.node[row] = NOWHERE  # a free row stands on no node that may go
        self._free.append(row)

    def _write(self, task: Task, place: tuple[int, Status, tuple[str, ...]], klass: PodClass, members: Members) -> int:
        """Fill a row that is free, or a new one."""
        if self._free:
            row = self._free.pop()
            self.node[row], self.status[row], self.groups[row] = place
            self.fact[row], self.klass[row], self.members[row], self.virtual[row] = task, klass, members, False
            return row
        node, status, groups = place
        self.node.append(node)
        self.status.append(status)
        self.groups.append(groups)
        self.klass.append(klass)
        self.members.append(members)
        self.virtual.append(False)
        self.fact.append(task)
        return len(self.fact) - 1


def devices_of(task: Task, klass: PodClass) -> tuple[str, ...]:
    """A sharing pod on a node always has its groups; an unnamed one gets a name of its own."""
    if not IS_USED[task.status]:
        return task.gpu_groups
    missing = range(len(task.gpu_groups), klass.devices)
    return task.gpu_groups + tuple(f"{task.name}/{device}" for device in missing)
