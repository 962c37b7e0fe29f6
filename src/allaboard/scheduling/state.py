"""The cluster as columns, kept between cycles and updated by events.

Shapes, stated once: node matrices are [resource, node] with rows in name order (`nodes.py`); queue columns are
lists per row (`queues.py`); tasks are rows of the parallel lists below; gangs are trees of task rows (`gangs.py`);
equal demands share a class (`classes.py`); `telling.py` tells the facts back. Between cycles only the methods `put_*`
and `drop_*` change a state; inside a cycle only `statement.py` does.
"""

from __future__ import annotations

from collections.abc import Callable

from allaboard.scheduling.classes import FIXED, GPU, Catalogue, PodClass, mig_gpus
from allaboard.scheduling.facts import Gang, Status, Task, Topology, World
from allaboard.scheduling.gangs import IS_ALLOCATED, IS_USED, GangRow, Members
from allaboard.scheduling.memory import Memory
from allaboard.scheduling.nodes import Nodes, resources_of
from allaboard.scheduling.plugins.ordering import DEFAULT_TASK_RULE, default_order
from allaboard.scheduling.queues import Queues

NOWHERE = -1


class State:
    """Everything a cycle works on. Task columns: facts, status, node, class, pod set, GPU groups, virtual."""

    def __init__(self) -> None:
        self.resources = {name: column for column, name in enumerate(FIXED)}
        self.nodes = Nodes((), self.resources)
        self.queues = Queues(())
        self.gangs: dict[str, GangRow] = {}
        self.topologies: dict[str, Topology] = {}
        self.strangers: dict[str, Task] = {}
        # A class that asks for something new makes the matrices of the nodes grow.
        self.classes = Catalogue(self.resources, lambda: self.nodes.grow())
        # Task columns; a free row has no fact.
        self.task_row: dict[str, int] = {}
        self.task: list[Task | None] = []
        self.status: list[Status] = []
        self.node: list[int] = []
        self.klass: list[PodClass] = []
        self.members: list[Members] = []
        self.groups: list[tuple[str, ...]] = []
        self.virtual: list[bool] = []
        # Places a moved task still holds until it is gone from them: (node, status, GPU groups) per task row.
        self.ghosts: dict[int, list[tuple[int, Status, tuple[str, ...]]]] = {}
        # Places (task row, node row) that a policy which follows KAI to the letter has forgotten while they are left.
        self.unlisted: set[tuple[int, int]] = set()
        self.leaks = False
        self.free_rows: list[int] = []
        # Gangs with tasks that wait; gangs that hold something but not their minimum; those changed since ordered.
        self.waiting: dict[str, GangRow] = {}
        self.incomplete: dict[str, GangRow] = {}
        self.changed: dict[str, GangRow] = {}
        self.memory = Memory()
        self.task_rule = DEFAULT_TASK_RULE
        self.order_of: Callable[[Task], tuple[object, ...]] = default_order
        self._totals: list[float] | None = None

    @classmethod
    def build(cls, world: World) -> State:
        """A state from nothing."""
        state = cls()
        state.topologies = {topology.name: topology for topology in world.topologies}
        state.classes.claims.update({claim.name: claim for claim in world.claims})
        names = set(FIXED).union(*(resources_of(node) for node in world.nodes)) if world.nodes else set(FIXED)
        for name in sorted(names - set(FIXED)):
            state.resources[name] = len(state.resources)
        state.nodes = Nodes(world.nodes, state.resources)
        state.queues = Queues(world.queues)
        for stranger in world.strangers:
            state.host(stranger)
        # In name order, as sums of floating-point amounts depend on the order of their parts.
        for gang in sorted(world.gangs, key=lambda gang: gang.name):
            state.put_gang(gang)
        return state

    # --- gangs and tasks ---

    def put_gang(self, gang: Gang) -> None:
        """Insert a gang with its tasks, or replace it."""
        known = self.gangs.get(gang.name)
        if known is not None:
            self._forget(known)
            self.memory.relief += 1
        row = GangRow(gang)
        row.queue = self.queues.row_of(gang.queue)
        row.promised = gang.promised or (known.promised if known is not None else ())
        self.memory.promises = self.memory.promises or bool(row.promised)
        self.gangs[gang.name] = row
        for task in gang.tasks:
            self._insert(row, task)
        for leaf in row.leaves:
            if len(leaf.rows) > 1:
                leaf.rows.sort(key=self.task_key)
        self.review(row)

    def drop_gang(self, name: str) -> None:
        gang = self.gangs.pop(name, None)
        if gang is not None:
            self._forget(gang)
            self.review(gang)
            self.memory.relief += 1

    def _forget(self, gang: GangRow) -> None:
        for row in list(gang.rows):
            self._remove(gang, row)

    def put_task(self, gang_name: str, task: Task) -> None:
        """Insert or replace one task of a known gang; a gang that is not known has no say yet."""
        gang = self.gangs.get(gang_name)
        if gang is None:
            return
        known = self.task_row.get(task.name)
        if known is not None and self._is_told(known, gang, task):
            self.task[known] = task
            self.mark(known, task.status, self.node[known], self.groups[known])
            return
        if known is not None:
            self.drop_task(task.name)
        row = self._insert(gang, task)
        if row >= 0:
            self.members[row].rows.sort(key=self.task_key)
        self.memory.relief += task.status != Status.PENDING
        self.review(gang)

    def _is_told(self, row: int, gang: GangRow, task: Task) -> bool:
        """Whether a fact only confirms what the state assumes: same demand and place, no other sums."""
        node = self.nodes.names[self.node[row]] if self.node[row] >= 0 else ""
        before, known = self.status[row], self.task[row]
        same_sums = before == task.status or (IS_ALLOCATED[before] and IS_ALLOCATED[task.status])
        if known is None or not same_sums or (node and node != task.node) or self.members[row].gang is not gang:
            return False
        groups = not self.klass[row].shared or self.groups[row] == task.gpu_groups
        return (
            groups
            and self.order_of(known) == self.order_of(task)
            and (known.pod_set == task.pod_set and self.classes.of(task.demand) is self.klass[row])
        )

    def drop_task(self, name: str) -> None:
        row = self.task_row.get(name)
        if row is not None:
            gang = self.members[row].gang
            self._remove(gang, row)
            self.memory.relief += 1
            self.review(gang)

    def review(self, gang: GangRow) -> None:
        """Keep the sets of gangs that need attention, after any change of a gang."""
        self.memory.version += 1
        self.changed[gang.name] = gang
        self.memory.refused.pop(gang.name, None)
        here = self.gangs.get(gang.name)
        if here is not None and here is not gang:
            return
        for gangs, member in ((self.waiting, gang.waits()), (self.incomplete, gang.is_incomplete())):
            if member and here is gang:
                gangs[gang.name] = gang
            else:
                gangs.pop(gang.name, None)

    def task_key(self, row: int) -> tuple[object, ...]:
        """Order inside a pod set."""
        task = self.task[row]
        assert task is not None
        return self.order_of(task)

    def _insert(self, gang: GangRow, task: Task) -> int:
        leaf = gang.leaf(task.pod_set)
        if leaf is None:
            return NOWHERE
        row = self._new_row()
        klass = self.classes.of(task.demand)
        self.task_row[task.name] = row
        node = self.nodes.index.get(task.node, NOWHERE) if IS_USED[task.status] else NOWHERE
        status = task.status if node >= 0 or not IS_USED[task.status] else Status.UNKNOWN
        self._write(row, task, (status, node), (klass, leaf))
        leaf.klass = klass if not leaf.rows or leaf.klass is klass else None
        gang.rows.append(row)
        leaf.rows.append(row)
        leaf.count[status] += 1
        if node >= 0:
            self.nodes.occupy(node, klass, status, self.groups[row])
        self.count(gang, row, 1.0)
        return row

    def _write(self, row: int, task: Task, place: tuple[Status, int], kind: tuple[PodClass, Members]) -> None:
        """Fill a row of the task columns; a new row is one longer than they are."""
        (status, node), (klass, leaf), groups = place, kind, self._groups(task, kind[0])
        self.task[row] = task
        if row == len(self.status):
            self.status.append(status)
            self.node.append(node)
            self.klass.append(klass)
            self.members.append(leaf)
            self.groups.append(groups)
            self.virtual.append(False)
            return
        self.status[row], self.node[row], self.klass[row] = status, node, klass
        self.members[row], self.groups[row], self.virtual[row] = leaf, groups, False

    def _remove(self, gang: GangRow, row: int) -> None:
        task, leaf = self.task[row], self.members[row]
        assert task is not None
        self.count(gang, row, -1.0)
        if self.node[row] >= 0:
            self.nodes.vacate(self.node[row], self.klass[row], self.status[row], self.groups[row])
        leaf.count[self.status[row]] -= 1
        leaf.rows.remove(row)
        gang.rows.remove(row)
        del self.task_row[task.name]
        self.task[row] = None
        self.node[row] = NOWHERE  # a free row stands on no node that may go
        self.free_rows.append(row)

    def _new_row(self) -> int:
        if self.free_rows:
            return self.free_rows.pop()
        self.task.append(None)
        return len(self.task) - 1

    @staticmethod
    def _groups(task: Task, klass: PodClass) -> tuple[str, ...]:
        """A sharing pod on a node always has its groups; an unnamed one gets a name of its own."""
        if not klass.shared or not IS_USED[task.status]:
            return task.gpu_groups
        missing = range(len(task.gpu_groups), klass.devices)
        return task.gpu_groups + tuple(f"{task.name}/{device}" for device in missing)

    def count(self, gang: GangRow, row: int, sign: float) -> None:
        """What the task adds to its queue: holdings when allocated, wishes when pending."""
        if gang.queue < 0:
            return
        status = self.status[row]
        if IS_ALLOCATED[status]:
            amounts = self.accepted(row)
            self.queues.count(gang.queue, amounts, sign, preemptible=gang.preemptible)
            self.queues.request(gang.queue, amounts, sign)
        elif status == Status.PENDING:
            self.queues.request(gang.queue, self.klass[row].asked_quota(self.nodes.smallest_memory), sign)

    def mark(self, row: int, status: Status, node: int, groups: tuple[str, ...]) -> None:
        count = self.members[row].count
        count[self.status[row]] -= 1
        count[status] += 1
        self.status[row], self.node[row], self.groups[row] = status, node, groups

    def name(self, row: int) -> str:
        task = self.task[row]
        assert task is not None
        return task.name

    def accepted(self, row: int) -> tuple[float, float, float]:
        """What a task on a node counts in its queue."""
        return self.klass[row].accepted(int(self.nodes.gpu_memory[self.node[row]]))

    def gpus(self, row: int) -> float:
        """GPUs a task on a node holds."""
        return self.klass[row].gpus_on(int(self.nodes.gpu_memory[self.node[row]]))

    # --- the cluster as a whole ---

    def host(self, stranger: Task) -> None:
        """A pod of another scheduler takes room; on a node nobody knows it takes none."""
        if stranger.node in self.nodes.index:
            self.strangers[stranger.name] = stranger
            row, klass = self.nodes.index[stranger.node], self.classes.of(stranger.demand)
            self.nodes.occupy(row, klass, stranger.status, stranger.gpu_groups)

    def frame_changed(self, *, helps: bool = True) -> None:
        """What all gangs depend on is another one; `helps` when somebody who waits may gain by it."""
        self._totals = None
        self.memory.changed(helps=helps)

    def totals(self) -> list[float]:
        """What all ready nodes offer together, less what strangers hold: cpu, memory, gpu."""
        if self._totals is None:
            self._totals = self._sum_up()
        return self._totals

    def _sum_up(self) -> list[float]:
        usable = self.nodes.usable()
        sums = self.nodes.capacity[: GPU + 1, usable].sum(axis=1)
        for name, column in self.resources.items():
            sums[GPU] += mig_gpus({name: float(self.nodes.capacity[column, usable].sum())})
        for task in self.strangers.values():
            if usable[self.nodes.index[task.node]]:
                sums -= self.classes.of(task.demand).wants[: GPU + 1]
        return [float(total) for total in sums]
