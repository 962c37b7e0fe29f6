"""All or nothing: every change a cycle makes to a state goes through a statement, which can take back what it did.

A statement is a journal of records that know how to undo themselves. What is not committed is undone when the
`with` block ends. The solver sets checkpoints and rolls back to them. Three steps exist: *evict* (a task starts to
leave), *allocate* (it gets idle room) and *pipeline* (it gets room that is still being released). An evicted task
that is pipelined onto the place it was evicted from is simply put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from allaboard.scheduling.accounts import held
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.state import State
from allaboard.scheduling.tasks import Place

PENDING, ALLOCATED, PIPELINED, RELEASING = Status.PENDING, Status.ALLOCATED, Status.PIPELINED, Status.RELEASING
Before = tuple[Status, int, tuple[str, ...], bool]
"""Status, node, GPU groups and virtual flag of a task row before a step."""


@dataclass(slots=True, eq=False)
class Evicted:
    """A task left `node`; `valid` turns false when it is put back."""

    row: int
    node: int
    before: Before
    valid: bool = True


@dataclass(slots=True, eq=False)
class PutBack:
    """An eviction was taken back by a later step of the same statement."""

    eviction: Evicted
    valid: bool = True


@dataclass(slots=True, eq=False)
class Placed:
    """Tasks of one class got places; `status` is allocated or pipelined, `before` one entry per row."""

    rows: list[int]
    nodes: list[int]
    status: Status
    before: list[Before]
    groups: list[tuple[str, ...]]
    valid: bool = True
    other_device: bool = False
    """The one task moved to another device of the node it is leaving."""


Record = Evicted | PutBack | Placed


@dataclass(slots=True)
class Committed:
    """What statements have promised so far, in order; task rows."""

    binds: list[tuple[int, int]] = field(default_factory=list)
    pipelines: list[tuple[int, int]] = field(default_factory=list)
    evictions: list[int] = field(default_factory=list)
    causes: list[tuple[str, str]] = field(default_factory=list)
    """Per eviction: the action and the gang it was done for."""
    origin: dict[int, Status] = field(default_factory=dict)
    """Status of every touched task before the cycle."""


class Statement:
    """A journal over a state. Use as a context manager: without `commit` everything is undone."""

    def __init__(self, state: State, log: Committed, cause: tuple[str, str] = ("", "")) -> None:
        self.tasks, self.nodes, self.queues = state.tasks, state.nodes, state.queues
        self.log, self.cause = log, cause
        self.records: list[Record] = []

    def __enter__(self) -> Statement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback(0)

    # --- steps ---

    def evict(self, row: int) -> None:
        """The task starts to leave its node. Evicting it again counts against its queue again, as in KAI 0.17."""
        tasks = self.tasks
        before = (tasks.status[row], tasks.node[row], tasks.groups[row], tasks.virtual[row])
        record = Evicted(row, tasks.node[row], before)
        self._leave(record)
        self.records.append(record)

    def allocate(self, rows: list[int], nodes: list[int], groups: list[tuple[str, ...]] | None = None) -> None:
        """Pending tasks of one class get idle room."""
        self._place(Placed(rows, nodes, ALLOCATED, self._before(rows), groups or [()] * len(rows)))

    def pipeline(self, rows: list[int], nodes: list[int]) -> bool:
        """Tasks of one class get room that is still being released, or their old places back."""
        tasks = self.tasks
        if all(tasks.status[row] == PENDING and row not in tasks.ghosts for row in rows):
            self._place(Placed(rows, nodes, PIPELINED, self._before(rows), [()] * len(rows)))
            return True
        placed = [self.pipeline_one(row, node, tasks.groups[row]) for row, node in zip(rows, nodes)]
        return all(placed)

    def pipeline_one(self, row: int, node: int, groups: tuple[str, ...]) -> bool:
        """As `pipeline`, for one task and its GPU groups; false when it stands there for another reason."""
        known = self._listed(row, node)
        if known is not None and not (groups and self.tasks.klass[row].shared and groups != known):
            return self._put_back(row)
        forgotten = known is not None or (row, node) in self.tasks.ghosts.unlisted
        self._place(Placed([row], [node], PIPELINED, self._before([row]), [groups], other_device=forgotten))
        return True

    def to_pipelined(self, gang: GangRow) -> None:
        """Turn every allocation of the gang into a promise: part of it only fits on room that is being released."""
        mine = [r for r in self.records if isinstance(r, Placed) and r.status == ALLOCATED and self._gang(r) is gang]
        for record in mine:
            self._unplace(record)
            self.records.remove(record)
            before = self._before(record.rows)
            self._place(Placed(record.rows, record.nodes, PIPELINED, before, record.groups))

    # --- taking back ---

    def checkpoint(self) -> int:
        return len(self.records)

    def rollback(self, checkpoint: int) -> None:
        """Undo the newest records down to a checkpoint."""
        while len(self.records) > checkpoint:
            record = self.records.pop()
            if not record.valid:
                continue
            if isinstance(record, Placed):
                self._unplace(record)
            elif isinstance(record, Evicted):
                self._return(record)
            else:
                self._leave(record.eviction)
                record.eviction.valid = True

    def touched(self) -> set[GangRow]:
        """Gangs with a record in the journal."""
        rows: set[int] = set()
        for record in self.records:
            rows.update(record.rows if isinstance(record, Placed) else [_row(record)])
        return {self.tasks.members[row].gang for row in rows}

    def commit(self) -> None:
        """Make it so: allocations become binds, evictions and promises are written down."""
        for record in self.records:
            if not record.valid:
                continue
            if isinstance(record, Placed):
                self._promise(record)
            elif isinstance(record, Evicted):
                self.tasks.virtual[record.row] = False
                self.log.evictions.append(record.row)
                self.log.causes.append(self.cause)
                self.log.origin.setdefault(record.row, record.before[0])
        self.records = []

    def _promise(self, record: Placed) -> None:
        pairs = list(zip(record.rows, record.nodes))
        for row, before in zip(record.rows, record.before):
            self.log.origin.setdefault(row, before[0])
        if record.status == PIPELINED:
            self.log.pipelines += pairs
            return
        self.log.binds += pairs
        for row in record.rows:
            self._set_status(row, Status.BINDING)
            self.tasks.virtual[row] = False

    # --- the marks on the state ---

    def _before(self, rows: Sequence[int]) -> list[Before]:
        tasks = self.tasks
        return [(tasks.status[row], tasks.node[row], tasks.groups[row], tasks.virtual[row]) for row in rows]

    def _gang(self, record: Placed) -> GangRow:
        return self.tasks.members[record.rows[0]].gang

    def _set_status(self, row: int, status: Status) -> None:
        count = self.tasks.members[row].count
        count[self.tasks.status[row]] -= 1
        count[status] += 1
        self.tasks.status[row] = status

    def _leave(self, record: Evicted) -> None:
        tasks, row = self.tasks, record.row
        klass, node, groups = tasks.klass[row], record.node, tasks.groups[row]
        if not klass.plain or tasks.status[row] == PIPELINED:
            self.nodes.may_owe = True
            self.nodes.vacate(node, klass, tasks.status[row], groups)
            self.nodes.occupy(node, klass, RELEASING, groups)
        elif tasks.status[row] != RELEASING:
            self.nodes.start_leaving(node, klass, 1)
        self._set_status(row, RELEASING)
        tasks.virtual[row] = True
        self._account(row, -1.0)

    def _return(self, record: Evicted) -> None:
        """The task is as it was before its eviction."""
        tasks, row = self.tasks, record.row
        klass, node, groups = tasks.klass[row], record.node, tasks.groups[row]
        status, tasks.node[row], tasks.groups[row], tasks.virtual[row] = record.before
        if not klass.plain or status == PIPELINED:
            if (row, node) not in tasks.ghosts.unlisted:
                self.nodes.vacate(node, klass, RELEASING, groups)
            tasks.ghosts.unlisted.discard((row, node))
            self.nodes.occupy(node, klass, status, tasks.groups[row])
        elif status != RELEASING:
            self.nodes.start_leaving(node, klass, -1)
        self._set_status(row, status)
        self._account(row, 1.0)

    def _put_back(self, row: int) -> bool:
        for record in self.records:
            if isinstance(record, Evicted) and record.row == row and record.valid:
                self._return(record)
                record.valid = False
                self.records.append(PutBack(record))
                return True
        return False

    def _listed(self, row: int, node: int) -> tuple[str, ...] | None:
        """The GPU groups with which the node knows the task; None when it does not know it."""
        tasks = self.tasks
        if (row, node) in tasks.ghosts.unlisted:
            return None
        if tasks.node[row] == node and tasks.status[row] != PENDING:
            return tasks.groups[row]
        return next((place.groups for place in tasks.ghosts.of(row) if place.node == node), None)

    def _place(self, record: Placed) -> None:
        tasks, unlisted = self.tasks, self.tasks.ghosts.unlisted
        for row, node, groups in zip(record.rows, record.nodes, record.groups):
            if tasks.node[row] >= 0:
                tasks.ghosts.add(row, Place(tasks.node[row], tasks.status[row], tasks.groups[row]))
            self._set_status(row, record.status)
            tasks.node[row], tasks.groups[row], tasks.virtual[row] = node, groups, True
            if unlisted:
                unlisted.discard((row, node))
        self._occupy(record, 1.0)
        self._account_all(record, 1.0)
        self.records.append(record)

    def _unplace(self, record: Placed) -> None:
        tasks = self.tasks
        self._account_all(record, -1.0)
        self._occupy(record, -1.0)
        for row, (status, node, groups, virtual) in zip(record.rows, record.before):
            if node >= 0:
                tasks.ghosts.undo(row)
            self._set_status(row, status)
            tasks.node[row], tasks.groups[row], tasks.virtual[row] = node, groups, virtual
        if record.other_device and self.nodes.strict:
            # KAI's node knows a pod once: the move wrote over what it was leaving, so taking it back forgets that.
            tasks.ghosts.unlisted.add((record.rows[0], record.nodes[0]))
            tasks.ghosts.leaks = True

    def _occupy(self, record: Placed, sign: float) -> None:
        """Node columns; tasks of one class that share nothing are one vector step."""
        tasks, klass = self.tasks, self.tasks.klass[record.rows[0]]
        if not klass.plain or len(record.rows) == 1:
            change = self.nodes.occupy if sign > 0 else self.nodes.vacate
            for row, node in zip(record.rows, record.nodes):
                change(node, klass, record.status, tasks.groups[row])
            return
        counts: dict[int, int] = {}
        for node in record.nodes:
            counts[node] = counts.get(node, 0) + 1
        self.nodes.move_many(counts, klass, record.status, 1 if sign > 0 else -1)

    def _account(self, row: int, sign: float) -> None:
        gang = self.tasks.members[row].gang
        if gang.queue >= 0:
            self.queues.count(gang.queue, held(self.tasks, self.nodes, row), sign, preemptible=gang.preemptible)

    def _account_all(self, record: Placed, sign: float) -> None:
        if self.tasks.klass[record.rows[0]].shared:
            for row in record.rows:
                self._account(row, sign)
            return
        gang = self._gang(record)
        if gang.queue >= 0:
            amounts = self.tasks.klass[record.rows[0]].quota
            self.queues.count(gang.queue, amounts, sign * len(record.rows), preemptible=gang.preemptible)


def _row(record: Evicted | PutBack) -> int:
    return record.row if isinstance(record, Evicted) else record.eviction.row
