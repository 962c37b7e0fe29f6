"""A gang's tree while a cycle works on it: pod sets that count their tasks by status, groups that count their
members."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.facts import Gang, PodSet, Status, SubGroup

# Plain numbers: they index lists where a cycle is busiest, and an enum's member is turned into one every time.
PENDING, GATED, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, STUCK, *_ = map(int, Status)


def _flags(*members: int) -> tuple[bool, ...]:
    return tuple(status in members for status in Status)


# Sets of statuses, indexed by status.
IS_ACTIVE = _flags(ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING)
IS_USED = _flags(ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, STUCK)
IS_ALLOCATED = _flags(ALLOCATED, BOUND, BINDING, RUNNING)


class Members:
    """A pod set at work: task rows in task order and how many stand at each status."""

    __slots__ = ("constraint", "count", "gang", "klass", "minimum", "name", "parent", "rows")
    is_leaf = True

    def __init__(self, fact: PodSet, gang: GangRow, parent: GroupRow | None) -> None:
        self.name, self.minimum, self.constraint = fact.name, fact.minimum, fact.constraint
        self.gang, self.parent = gang, parent
        self.rows: list[int] = []
        self.count = [0] * len(Status)
        # The class of all its tasks; None when they differ.
        self.klass: PodClass | None = None

    def active(self) -> int:
        """Tasks that hold or are promised a place."""
        count = self.count
        return count[ALLOCATED] + count[PIPELINED] + count[BINDING] + count[BOUND] + count[RUNNING]

    def used(self) -> int:
        return self.active() + self.count[RELEASING] + self.count[STUCK]

    def ready(self) -> bool:
        """Whether enough pods exist for the minimum; gated pods do not count."""
        return self.active() + self.count[PENDING] >= self.minimum


class GroupRow:
    """An inner node of a gang's tree at work."""

    __slots__ = ("constraint", "leaves", "members", "minimum", "name", "parent")
    is_leaf = False

    def __init__(self, fact: SubGroup, gang: GangRow, parent: GroupRow | None) -> None:
        self.name, self.constraint, self.minimum, self.parent = fact.name, fact.constraint, fact.minimum, parent
        self.members: list[GroupRow | Members] = [GroupRow(group, gang, self) for group in fact.groups]
        self.members += [Members(pod_set, gang, self) for pod_set in fact.pod_sets]
        self.leaves: list[Members] = [leaf for member in self.members for leaf in _leaves(member)]


Member = GroupRow | Members


def _leaves(member: Member) -> list[Members]:
    return member.leaves if isinstance(member, GroupRow) else [member]


class GangRow:
    """A gang at work; `queue` is a queue index, -1 when its queue cannot hold jobs."""

    __slots__ = (
        "fact", "last_start", "leaves", "name", "only", "preemptible", "priority", "promised", "queue", "rows",
        "stale_since", "tree",
    )  # fmt: skip

    def __init__(self, fact: Gang) -> None:
        self.fact, self.name, self.queue = fact, fact.name, -1
        self.priority, self.preemptible = fact.priority, fact.preemptible
        self.last_start, self.stale_since, self.promised = fact.last_start, fact.stale_since, fact.promised
        self.tree = GroupRow(fact.tree, self, None)
        self.leaves = self.tree.leaves
        # The only pod set of a plain gang, which spares it the walk over a tree.
        self.only = self.leaves[0] if self.tree.members == self.leaves and len(self.leaves) == 1 else None
        self.rows: list[int] = []

    def leaf(self, name: str) -> Members | None:
        if self.only is not None and self.only.name == name:
            return self.only
        return next((leaf for leaf in self.leaves if leaf.name == name), None)

    def active(self) -> int:
        return self.only.active() if self.only else sum(leaf.active() for leaf in self.leaves)

    def used(self) -> int:
        return self.only.used() if self.only else sum(leaf.used() for leaf in self.leaves)

    def pending(self) -> int:
        return self.only.count[PENDING] if self.only else sum(leaf.count[PENDING] for leaf in self.leaves)

    def waits(self) -> bool:
        """Whether pods of it wait for a place, or behind a gate for leave to ask for one."""
        if self.only:
            return self.only.count[PENDING] > 0 or self.only.count[GATED] > 0
        return any(leaf.count[PENDING] or leaf.count[GATED] for leaf in self.leaves)

    def is_ready(self) -> bool:
        """Whether every pod set has enough pods for its minimum."""
        return self.only.ready() if self.only else all(leaf.ready() for leaf in self.leaves)

    def is_satisfied(self) -> bool:
        """Whether every pod set uses at least its minimum."""
        if self.only:
            return self.only.used() >= self.only.minimum
        return all(leaf.used() >= leaf.minimum for leaf in self.leaves)

    def is_incomplete(self) -> bool:
        """Whether it holds something but not its minimum, or was so when last looked at."""
        return self.stale_since is not None or (self.used() > 0 and not self.is_satisfied())

    def must_pipeline(self) -> bool:
        """Whether a pod set needs room that is still being released to reach its minimum."""
        return any(
            leaf.count[PIPELINED] and leaf.active() - leaf.count[PIPELINED] < leaf.minimum for leaf in self.leaves
        )

    def elasticity(self, active: Sequence[int] | None = None) -> int:
        """0 below minimum, 1 exactly at it, 2 above; by given counts per pod set, or the present ones."""
        exact = True
        for position, leaf in enumerate(self.leaves):
            count = leaf.active() if active is None else active[position]
            if count < leaf.minimum:
                return 0
            exact = exact and count == leaf.minimum
        return 1 if exact else 2
