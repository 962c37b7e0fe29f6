"""The cluster as columns, kept between cycles and updated by events.

Shapes, stated once: node matrices are [resource, node] with rows in name order (`nodes.py`); queue columns are
lists per row (`queues.py`); tasks are rows of the parallel lists below; gangs are trees of task rows (`gangs.py`);
equal demands share a class. Between cycles only the methods `put_*` and `drop_*` change a state; inside a cycle
only `statement.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from allaboard.scheduling.classes import FIXED, GPU, PodClass, demand_key, mig_gpus
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import Claim, Demand, Gang, Node, Queue, Status, Task, Topology, World
from allaboard.scheduling.gangs import IS_ALLOCATED, IS_USED, GangRow, Members
from allaboard.scheduling.nodes import Nodes, resources_of
from allaboard.scheduling.plugins.ordering import DEFAULT_TASK_RULE, default_order
from allaboard.scheduling.queues import Amounts, Holdings, Queues
from allaboard.scheduling.reasons import Holder, Reason
from allaboard.scheduling.usage import Ledger

NOWHERE = -1


class State:
    """Everything a cycle works on. Task columns: facts, status, node, class, pod set, GPU groups, virtual."""

    def __init__(self) -> None:
        self.resources = {name: column for column, name in enumerate(FIXED)}
        self.nodes = Nodes((), self.resources)
        self.queues = Queues(())
        self.gangs: dict[str, GangRow] = {}
        self.topologies: dict[str, Topology] = {}
        self.claims: dict[str, Claim] = {}
        self.strangers: dict[str, Task] = {}
        self.classes: dict[object, PodClass] = {}
        self._interned: dict[int, tuple[Demand, PodClass]] = {}
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
        self.free_rows: list[int] = []
        # Gangs with pending tasks; gangs that hold something but not their minimum; those changed since the last order.
        self.waiting: dict[str, GangRow] = {}
        self.incomplete: dict[str, GangRow] = {}
        self.changed: dict[str, GangRow] = {}
        # Every change counts up `version`; one that could help somebody who waits also counts up `relief`.
        self.version = 0
        self.relief = 0
        self.refused: dict[str, tuple[int, Reason]] = {}
        self.last: tuple[object, Decisions] | None = None
        self.ledger = Ledger()
        self.most: tuple[int, tuple[Holder, ...]] | None = None
        self.task_rule = DEFAULT_TASK_RULE
        self.order_of: Callable[[Task], tuple[object, ...]] = default_order
        self.standing: object | None = None
        self._totals: list[float] | None = None

    @classmethod
    def build(cls, world: World) -> State:
        """A state from nothing."""
        state = cls()
        state.topologies = {topology.name: topology for topology in world.topologies}
        state.claims = {claim.name: claim for claim in world.claims}
        names = set(FIXED).union(*(resources_of(node) for node in world.nodes)) if world.nodes else set(FIXED)
        for name in sorted(names - set(FIXED)):
            state.resources[name] = len(state.resources)
        state.nodes = Nodes(world.nodes, state.resources)
        state.queues = Queues(world.queues)
        for stranger in world.strangers:
            state.put_stranger(stranger)
        for gang in world.gangs:
            state.put_gang(gang)
        return state

    def world(self) -> World:
        """The facts back, as the state stands: binds and evictions decided by cycles are in it."""
        gangs = (self._gang_fact(gang) for gang in self.gangs.values())
        return World(
            nodes=tuple(self.nodes.facts),
            queues=self.queues.given,
            gangs=tuple(sorted(gangs, key=lambda gang: gang.name)),
            topologies=tuple(self.topologies.values()),
            claims=tuple(self.claims.values()),
            strangers=tuple(self.strangers.values()),
        )

    def _gang_fact(self, gang: GangRow) -> Gang:
        tasks = tuple(self.task_fact(row) for row in gang.rows)
        return replace(gang.fact, tasks=tasks, last_start=gang.last_start, stale_since=gang.stale_since)

    def task_fact(self, row: int) -> Task:
        task = self.task[row]
        assert task is not None
        if self.status[row] == task.status and self.node[row] < 0:
            return task
        node = self.nodes.names[self.node[row]] if self.node[row] >= 0 else ""
        return replace(task, status=self.status[row], node=node, gpu_groups=self.groups[row])

    # --- classes ---

    def class_of(self, demand: Demand) -> PodClass:
        """The class of a demand; the same object is looked up by identity."""
        known = self._interned.get(id(demand))
        if known is not None and known[0] is demand:
            return known[1]
        key = demand_key(demand)
        if key not in self.classes:
            self.classes[key] = self._new_class(demand)
        self._interned[id(demand)] = (demand, self.classes[key])
        return self.classes[key]

    def _new_class(self, demand: Demand) -> PodClass:
        claims = tuple(self.claims[name] for name in demand.claims if name in self.claims)
        created = PodClass(len(self.classes), demand, claims)
        for name in created.asked:
            self._resource(name)
        created.lay_out(self.resources)
        return created

    def _resource(self, name: str) -> None:
        """A new resource is a new column of every matrix."""
        if name in self.resources:
            return
        self.resources[name] = len(self.resources)
        for matrix in ("capacity", "idle", "releasing"):
            old = getattr(self.nodes, matrix)
            setattr(self.nodes, matrix, np.vstack([old, np.zeros((1, old.shape[1]))]))
        for known in self.classes.values():
            known.lay_out(self.resources)

    # --- gangs and tasks ---

    def put_gang(self, gang: Gang) -> None:
        """Insert a gang with its tasks, or replace it."""
        known = self.gangs.get(gang.name)
        if known is not None:
            self._forget(known)
            self.relief += 1
        row = GangRow(gang)
        row.queue = self.queues.row_of(gang.queue)
        self.gangs[gang.name] = row
        for task in gang.tasks:
            self._insert(row, task)
        for leaf in row.leaves:
            if len(leaf.rows) > 1:
                leaf.rows.sort(key=self.task_key)
        self._review(row)

    def drop_gang(self, name: str) -> None:
        gang = self.gangs.pop(name, None)
        if gang is not None:
            self._forget(gang)
            self._review(gang)
            self.relief += 1

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
            self._mark(known, task.status, self.node[known], self.groups[known])
            return
        if known is not None:
            self.drop_task(task.name)
        row = self._insert(gang, task)
        if row >= 0:
            self.members[row].rows.sort(key=self.task_key)
        self.relief += task.status != Status.PENDING
        self._review(gang)

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
            and (known.pod_set == task.pod_set and self.class_of(task.demand) is self.klass[row])
        )

    def drop_task(self, name: str) -> None:
        row = self.task_row.get(name)
        if row is not None:
            gang = self.members[row].gang
            self._remove(gang, row)
            self.relief += 1
            self._review(gang)

    def reconsider(self, names: Iterable[str]) -> None:
        """The clocks of these gangs were started or stopped by a cycle."""
        for name in names:
            self._review(self.gangs[name])

    def hopeless(self) -> frozenset[str]:
        """Gangs that were refused and nothing that could help them has changed since."""
        return frozenset(name for name, (relief, _) in self.refused.items() if relief == self.relief)

    def _review(self, gang: GangRow) -> None:
        """Keep the sets of gangs that need attention, after any change of a gang."""
        self.version += 1
        self.changed[gang.name] = gang
        self.refused.pop(gang.name, None)
        here = self.gangs.get(gang.name)
        if here is not None and here is not gang:
            return
        for gangs, member in ((self.waiting, gang.pending() > 0), (self.incomplete, gang.is_incomplete())):
            if member and here is gang:
                gangs[gang.name] = gang
            else:
                gangs.pop(gang.name, None)

    def task_key(self, row: int) -> tuple[object, ...]:
        """Order inside a pod set."""
        task = self.task[row]
        assert task is not None
        return self.order_of(task)

    def order_tasks(self, rule: tuple[str, ...], key: Callable[[Task], tuple[object, ...]]) -> None:
        """Pod sets in the order a policy wants; sorted again only when another policy wants another one."""
        if rule == self.task_rule:
            return
        self.task_rule, self.order_of = rule, key
        for gang in self.gangs.values():
            for leaf in gang.leaves:
                leaf.rows.sort(key=self.task_key)

    def _insert(self, gang: GangRow, task: Task) -> int:
        leaf = gang.leaf(task.pod_set)
        if leaf is None:
            return NOWHERE
        row = self._new_row()
        klass = self.class_of(task.demand)
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
        self._count(gang, row, 1.0)
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
        self._count(gang, row, -1.0)
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

    def _count(self, gang: GangRow, row: int, sign: float) -> None:
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

    def settle(self, origin: dict[int, Status], holdings: Holdings) -> None:
        """A cycle ends: promises are taken back, and what is bound or leaving is counted as a fact."""
        self.queues.restore(holdings)
        sums: dict[tuple[GangRow, PodClass, Status, Status], int] = {}
        for row, before in origin.items():
            self._land(row, before)
            self.virtual[row] = False
            gang, klass, now = self.members[row].gang, self.klass[row], self.status[row]
            if now == before or gang.queue < 0:
                continue
            if klass.shared:
                self._recount(gang, self.accepted(row) if self.node[row] >= 0 else klass.quota, klass, (before, now))
            else:
                key = (gang, klass, before, now)
                sums[key] = sums.get(key, 0) + 1
        for (gang, klass, before, now), count in sums.items():
            self._recount(gang, klass.quota, klass, (before, now), count)
        self.nodes.tidy()
        for gang in {self.members[row].gang for row in origin}:
            self._review(gang)
        self.relief += bool(origin)

    def _land(self, row: int, before: Status) -> None:
        """Where a touched task really stands: on the place it is leaving, on the one it is bound to, or nowhere."""
        status, klass, places = self.status[row], self.klass[row], self.ghosts.pop(row, [])
        if status == Status.PIPELINED or places:
            self.nodes.vacate(self.node[row], klass, status, self.groups[row])
            home, *others = places or [(NOWHERE, Status.PENDING, ())]
            self._mark(row, home[1], home[0], home[2])
            for node, held, groups in others:
                self.nodes.vacate(node, klass, held, groups)
        if self.status[row] == Status.RELEASING and before == Status.PENDING:
            self.nodes.vacate(self.node[row], klass, Status.RELEASING, self.groups[row])
            self._mark(row, Status.PENDING, NOWHERE, ())

    def _mark(self, row: int, status: Status, node: int, groups: tuple[str, ...]) -> None:
        count = self.members[row].count
        count[self.status[row]] -= 1
        count[status] += 1
        self.status[row], self.node[row], self.groups[row] = status, node, groups

    def _recount(
        self, gang: GangRow, held: Amounts, klass: PodClass, change: tuple[Status, Status], count: int = 1
    ) -> None:
        """The same sums that `_count` keeps, for equal tasks that went from one status to another."""
        for status, sign in zip(change, (-count, count)):
            if IS_ALLOCATED[status]:
                self.queues.count(gang.queue, held, sign, preemptible=gang.preemptible)
                self.queues.request(gang.queue, held, sign)
            elif status == Status.PENDING:
                self.queues.request(gang.queue, klass.asked_quota(self.nodes.smallest_memory), sign)

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

    # --- pods of others ---

    def put_stranger(self, task: Task) -> None:
        self.drop_stranger(task.name)
        if task.node not in self.nodes.index:
            return
        self.strangers[task.name] = task
        self.nodes.occupy(self.nodes.index[task.node], self.class_of(task.demand), task.status, task.gpu_groups)
        self._totals = None
        self.version += 1

    def drop_stranger(self, name: str) -> None:
        task = self.strangers.pop(name, None)
        if task is not None:
            self.nodes.vacate(self.nodes.index[task.node], self.class_of(task.demand), task.status, task.gpu_groups)
            self._totals = None
            self.version += 1
            self.relief += 1

    # --- the frame: nodes, queues, topologies and claims ---

    def put_node(self, node: Node) -> None:
        """A known node changes in place; a new one lays the columns out anew, as rows are in name order."""
        row = self.nodes.index.get(node.name)
        if row is not None and self.nodes.facts[row] == node:
            return
        for name in resources_of(node):
            self._resource(name)
        if row is not None:
            self.nodes.replace(row, node, self.resources)
        else:
            self._lay_out((*self.nodes.facts, node))
        self._frame_changed()

    def drop_node(self, name: str) -> None:
        """Tasks that stood there are nowhere; the next facts about them tell the rest."""
        row = self.nodes.index.get(name)
        if row is None:
            return
        for task in [task for task in self.strangers.values() if task.node == name]:
            self.drop_stranger(task.name)
        for lost in [lost for lost, node in enumerate(self.node) if node == row and self.task[lost] is not None]:
            gang = self.members[lost].gang
            self._count(gang, lost, -1.0)
            self.nodes.vacate(row, self.klass[lost], self.status[lost], self.groups[lost])
            self._mark(lost, Status.UNKNOWN, NOWHERE, ())
            self._review(gang)
        self._lay_out([node for node in self.nodes.facts if node.name != name])
        self._frame_changed()

    def _lay_out(self, facts: Sequence[Node]) -> None:
        """Columns for another set of nodes; what stands on those that stay is carried over."""
        old, new = self.nodes, Nodes(facts, self.resources)
        moved = new.adopt(old)
        self.nodes = new
        self.node = [moved[row] if row >= 0 else row for row in self.node]

    def put_queue(self, queue: Queue) -> None:
        """Known queues change in place as long as the tree stays as it is."""
        row = self.queues.index.get(queue.name)
        if row is not None and self.queues.facts[row] == queue:
            return
        if self.queues.replace(queue):
            self._frame_changed()
        else:
            self._queues_changed(_with(self.queues.given, queue))

    def drop_queue(self, name: str) -> None:
        self._queues_changed(_without(self.queues.given, name))

    def _queues_changed(self, facts: Sequence[Queue]) -> None:
        """Another tree: what gangs hold and ask for is counted into it."""
        self.queues = Queues(facts)
        for gang in self.gangs.values():
            gang.queue = self.queues.row_of(gang.fact.queue)
            for row in gang.rows:
                self._count(gang, row, 1.0)
        self.standing = None
        self._frame_changed()

    def put_topology(self, topology: Topology) -> None:
        if self.topologies.get(topology.name) != topology:
            self.topologies[topology.name] = topology
            self._frame_changed()

    def drop_topology(self, name: str) -> None:
        if self.topologies.pop(name, None):
            self._frame_changed()

    def put_claim(self, claim: Claim) -> None:
        if self.claims.get(claim.name) != claim:
            self._rebuild({**self.claims, claim.name: claim})

    def drop_claim(self, name: str) -> None:
        if name in self.claims:
            self._rebuild({known: claim for known, claim in self.claims.items() if known != name})

    def _rebuild(self, claims: dict[str, Claim]) -> None:
        """Classes hold their claims, so another claim means other classes."""
        version, relief = self.version, self.relief
        self.__dict__.update(State.build(replace(self.world(), claims=tuple(claims.values()))).__dict__)
        self.version, self.relief = self.version + version + 1, relief + 1

    def _frame_changed(self) -> None:
        self._totals = None
        self.version += 1
        self.relief += 1

    def totals(self) -> list[float]:
        """What all ready nodes offer together, less what strangers hold: cpu, memory, gpu."""
        if self._totals is None:
            self._totals = self._sum_up()
        return self._totals

    def remember_usage(self, now: float, half_life: float) -> None:
        """Count what queues held since the last cycle, and let older use fade."""
        queues = self.queues
        holdings = dict(zip(queues.names, queues.allocated))
        self.ledger = self.ledger.after(now, holdings, self.totals(), half_life)
        for row, queue in enumerate(queues.facts):
            cpu, memory, gpu = (told + seen for told, seen in zip(queue.usage, self.ledger.part(queue.name)))
            queues.usage[row] = (cpu, memory, gpu)

    def _sum_up(self) -> list[float]:
        usable = self.nodes.usable()
        sums = self.nodes.capacity[: GPU + 1, usable].sum(axis=1)
        for name, column in self.resources.items():
            sums[GPU] += mig_gpus({name: float(self.nodes.capacity[column, usable].sum())})
        for task in self.strangers.values():
            if usable[self.nodes.index[task.node]]:
                sums -= self.class_of(task.demand).wants[: GPU + 1]
        return [float(total) for total in sums]


def _with(queues: Sequence[Queue], queue: Queue) -> tuple[Queue, ...]:
    return (*_without(queues, queue.name), queue)


def _without(queues: Sequence[Queue], name: str) -> tuple[Queue, ...]:
    return tuple(queue for queue in queues if queue.name != name)
