"""The cluster as columns, kept between cycles and updated by events.

Shapes, stated once: node matrices are [resource, node] with rows in name order (`nodes.py`); queue columns are
lists per row (`queues.py`); tasks are rows of parallel lists (`tasks.py`); gangs are trees of task rows (`gangs.py`),
and a roster knows those that need attention (`roster.py`); equal demands share a class (`classes.py`); `telling.py`
tells the facts back. Between cycles only the methods `put_*` and `drop_*` and the functions of `surroundings.py`
change a state; inside a cycle only `statement.py` does.
"""

from __future__ import annotations

from allaboard.scheduling import accounts
from allaboard.scheduling.classes import FIXED, GPU, Catalogue, mig_gpus
from allaboard.scheduling.facts import Gang, Status, Task, Topology, World
from allaboard.scheduling.gangs import IS_ALLOCATED, GangRow
from allaboard.scheduling.memory import Memory
from allaboard.scheduling.nodes import Nodes, resources_of
from allaboard.scheduling.queues import Queues
from allaboard.scheduling.roster import Roster
from allaboard.scheduling.strangers import Strangers
from allaboard.scheduling.tasks import NOWHERE, Tasks


class State:
    """Everything a cycle works on."""

    def __init__(self) -> None:
        resources = {name: column for column, name in enumerate(FIXED)}
        self.nodes = Nodes((), resources)
        self.queues = Queues(())
        self.topologies: dict[str, Topology] = {}
        # A class that asks for something new makes the matrices of the nodes grow.
        self.classes = Catalogue(resources, lambda: self.nodes.grow())
        self.strangers = Strangers()
        self.tasks = Tasks()
        self.gangs = Roster()
        self.memory = Memory()
        self._totals: tuple[int, list[float]] = (-1, [])

    @classmethod
    def build(cls, world: World) -> State:
        """A state from nothing."""
        state = cls()
        state.topologies = {topology.name: topology for topology in world.topologies}
        state.classes.claims.update({claim.name: claim for claim in world.claims})
        names = set(FIXED).union(*(resources_of(node) for node in world.nodes)) if world.nodes else set(FIXED)
        resources = state.classes.resources
        for name in sorted(names - set(FIXED)):
            resources[name] = len(resources)
        state.nodes = Nodes(world.nodes, resources)
        state.queues = Queues(world.queues)
        for stranger in world.strangers:
            state.strangers.host(stranger, state.nodes, state.classes)
        # In name order, as sums of floating-point amounts depend on the order of their parts.
        for gang in sorted(world.gangs, key=lambda gang: gang.name):
            state.put_gang(gang)
        return state

    # --- gangs and tasks, as they come and go ---

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
                leaf.rows.sort(key=self.tasks.key)
        self.review(row)

    def drop_gang(self, name: str) -> None:
        gang = self.gangs.pop(name, None)
        if gang is not None:
            self._forget(gang)
            self.review(gang)
            self.memory.relief += 1

    def _forget(self, gang: GangRow) -> None:
        for row in list(gang.rows):
            self._remove(row)

    def put_task(self, gang_name: str, task: Task) -> None:
        """Insert or replace one task of a known gang; a gang that is not known has no say yet."""
        gang, tasks = self.gangs.get(gang_name), self.tasks
        if gang is None:
            return
        known = tasks.row_of.get(task.name)
        if known is not None and self._is_told(known, gang, task):
            tasks.confirm(known, task)
            return
        if known is not None:
            self.drop_task(task.name)
        row = self._insert(gang, task)
        if row >= 0:
            tasks.members[row].rows.sort(key=tasks.key)
        self.memory.relief += task.status != Status.PENDING
        self.review(gang)

    def _is_told(self, row: int, gang: GangRow, task: Task) -> bool:
        """Whether a fact only confirms what the state assumes: same demand and place, no other sums."""
        tasks = self.tasks
        node = self.nodes.names[tasks.node[row]] if tasks.node[row] >= 0 else ""
        before, known = tasks.status[row], tasks.fact[row]
        same_sums = before == task.status or (IS_ALLOCATED[before] and IS_ALLOCATED[task.status])
        if known is None or not same_sums or (node and node != task.node) or tasks.members[row].gang is not gang:
            return False
        groups = not tasks.klass[row].shared or tasks.groups[row] == task.gpu_groups
        # A task that wears the same keeps its place in the order (`TaskRule`).
        same_order = known.labels == task.labels and known.order == task.order and known.created == task.created
        return (
            groups
            and (same_order or tasks.rule.key(known) == tasks.rule.key(task))
            and (known.pod_set == task.pod_set and self.classes.of(task.demand) is tasks.klass[row])
        )

    def drop_task(self, name: str) -> None:
        row = self.tasks.row_of.get(name)
        if row is not None:
            gang = self.tasks.members[row].gang
            self._remove(row)
            self.memory.relief += 1
            self.review(gang)

    def review(self, gang: GangRow) -> None:
        """After any change of a gang: it is looked at again, and what it was refused for does not hold any more."""
        self.memory.version += 1
        self.memory.refused.pop(gang.name, None)
        self.gangs.review(gang)

    def _insert(self, gang: GangRow, task: Task) -> int:
        leaf, tasks = gang.leaf(task.pod_set), self.tasks
        if leaf is None:
            return NOWHERE
        klass = self.classes.of(task.demand)
        row = tasks.enter(task, klass, leaf, self.nodes.index.get(task.node, NOWHERE))
        if tasks.node[row] >= 0:
            self.nodes.occupy(tasks.node[row], klass, tasks.status[row], tasks.groups[row])
        accounts.enter(tasks, self.nodes, self.queues, row, 1.0)
        return row

    def _remove(self, row: int) -> None:
        tasks = self.tasks
        accounts.enter(tasks, self.nodes, self.queues, row, -1.0)
        if tasks.node[row] >= 0:
            self.nodes.vacate(tasks.node[row], tasks.klass[row], tasks.status[row], tasks.groups[row])
        tasks.leave(row)

    # --- the cluster as a whole ---

    def totals(self) -> list[float]:
        """What all ready nodes offer together, less what strangers hold: cpu, memory, gpu."""
        if self._totals[0] != self.memory.frame:
            self._totals = (self.memory.frame, self._sum_up())
        return self._totals[1]

    def _sum_up(self) -> list[float]:
        usable = self.nodes.terrain.usable()
        sums = self.nodes.capacity[: GPU + 1, usable].sum(axis=1)
        for name, column in self.classes.resources.items():
            sums[GPU] += mig_gpus({name: float(self.nodes.capacity[column, usable].sum())})
        for task in self.strangers.all():
            if usable[self.nodes.index[task.node]]:
                sums -= self.classes.of(task.demand).wants[: GPU + 1]
        return [float(total) for total in sums]
