"""Which tasks of a gang come next: to be placed, or to be evicted; a walk over the tree of pod sets.

A member of the tree is satisfied when it has its minimum: a pod set counts active tasks, a group counts satisfied
members. What is missing for the minimum comes first and together; beyond it a gang grows, and shrinks, one task at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.gangs import IS_ACTIVE, PENDING, RELEASING, GangRow, GroupRow, Member, Members
from allaboard.scheduling.state import State

Chosen = dict[Members, list[int]]
"""Task rows per pod set, in the order they are to be placed."""

Active = Callable[[Members], int]


def met(member: Member, active: Active) -> int:
    if isinstance(member, Members):
        return active(member)
    return sum(met(child, active) >= needed(child) for child in member.members)


def needed(member: Member) -> int:
    if isinstance(member, Members):
        return member.minimum
    return len(member.members) if member.minimum is None else min(member.minimum, len(member.members))


def member_key(member: Member, active: Active) -> tuple[int, float, str]:
    """Unsatisfied before satisfied; then how far above the minimum; a minimum of zero goes last; the name ends it."""
    have, need = met(member, active), needed(member)
    if have < need:
        return 0, 0.0, member.name
    if need > 0:
        return 1, have / need, member.name
    return 2, float(have), member.name


def ordered(group: GroupRow, active: Active = Members.active, *, backwards: bool = False) -> list[Member]:
    if len(group.members) < 2:
        return group.members
    return sorted(group.members, key=lambda member: member_key(member, active), reverse=backwards)


# --- to be placed ---


def to_place(state: State, gang: GangRow, *, simulated: bool = False) -> Chosen:
    """The tasks a gang needs next; in a simulation its evicted tasks may be placed again."""
    if gang.only is not None:
        rows = _from_pod_set(state, gang.only, simulated)
        return {gang.only: rows} if rows else {}
    chosen: Chosen = {}
    _collect(state, gang.tree, chosen, simulated)
    return chosen


def _collect(state: State, member: Member, chosen: Chosen, simulated: bool) -> bool:
    if isinstance(member, Members):
        rows = _from_pod_set(state, member, simulated)
        if rows:
            chosen[member] = rows
        return bool(rows)
    missing = needed(member) - met(member, Members.active)
    if missing <= 0:
        return any(_collect(state, child, chosen, simulated) for child in ordered(member))
    wanting = [child for child in ordered(member)[: needed(member)] if met(child, Members.active) < needed(child)]
    found = [_collect(state, child, chosen, simulated) for child in wanting]
    return any(found)


def _from_pod_set(state: State, leaf: Members, simulated: bool) -> list[int]:
    missing = max(leaf.minimum - leaf.active(), 0) or 1
    if leaf.count[PENDING] == len(leaf.rows):
        return leaf.rows[:missing]
    if not leaf.count[PENDING] and not leaf.count[RELEASING]:
        return []
    rows = []
    for row in leaf.rows:
        status = state.tasks.status[row]
        if status == PENDING or (simulated and status == RELEASING and state.tasks.virtual[row]):
            rows.append(row)
            if len(rows) == missing:
                break
    return rows


def first(chosen: Chosen, count: int) -> Chosen:
    """The first so many tasks of a choice."""
    part: Chosen = {}
    for leaf, rows in chosen.items():
        if count > 0:
            part[leaf] = rows[:count]
            count -= len(rows)
    return part


def only_class(state: State, gang: GangRow, chosen: Chosen) -> tuple[PodClass, int] | None:
    """The class and count of an unconstrained gang of equal tasks: for these, whether there is room is a number."""
    leaf = gang.only
    if leaf is None or leaf.klass is None or not leaf.klass.plain or leaf.constraint or gang.tree.constraint:
        return None
    return (leaf.klass, len(chosen[leaf])) if leaf in chosen else None


# --- to be evicted ---


def to_evict(state: State, gang: GangRow, among: Collection[int] | None = None) -> tuple[list[int], bool]:
    """The tasks a gang gives up next, and whether it has more: surplus one by one, else all of it."""
    if gang.only is not None and len(gang.rows) == 1 and among is None:
        return (gang.rows[:], False) if IS_ACTIVE[state.tasks.status[gang.rows[0]]] else ([], False)
    rows = [row for row in gang.rows if IS_ACTIVE[state.tasks.status[row]] and (among is None or row in among)]
    if len(gang.leaves) == 1 and len(rows) <= gang.leaves[0].minimum:
        return sorted(rows, key=state.tasks.key, reverse=True), False
    held: dict[Members, list[int]] = {leaf: [] for leaf in gang.leaves}
    for row in rows:
        held[state.tasks.members[row]].append(row)
    for leaf_rows in held.values():
        leaf_rows.sort(key=state.tasks.key, reverse=True)
    given = _surplus(gang.tree, held) or _everything(gang.tree, held)
    return given, len(given) < len(rows)


def _everything(member: Member, held: dict[Members, list[int]]) -> list[int]:
    leaves = member.leaves if isinstance(member, GroupRow) else [member]
    return [row for leaf in leaves for row in held[leaf]]


def _surplus(member: Member, held: dict[Members, list[int]]) -> list[int]:
    """One task of the first pod set above its minimum, in reverse order; or a whole member that is not needed."""
    active: Active = lambda leaf: len(held[leaf])
    if isinstance(member, Members):
        return held[member][:1] if active(member) > member.minimum else []
    have = met(member, active)
    if have == 0:
        return []
    children = ordered(member, active, backwards=True)
    for child in children:
        if given := _surplus(child, held):
            return given
    if have > needed(member):
        for child in children:
            if given := _everything(child, held):
                return given
    return []
