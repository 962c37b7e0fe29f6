"""Gangs that look like one that failed: KAI's short-cut past searches that would most likely fail again.

Two gangs look alike when their pods may go to the same places (labels, taints, ports, volumes, topology) with the
same priority; what they ask for is not part of the picture. Of those that failed and look alike the smallest is
remembered, and a later one is tried only if it is easier.

Upstream: actions/common/minimal_job_comparison.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ACTIVE, GangRow, GroupRow, Member, Members
from allaboard.scheduling.state import State

Signature = tuple[object, ...]
Footprint = dict[str, float]


class Failures:
    """The smallest failed gang of each kind; `shared` remembers them for all queues together."""

    def __init__(self, state: State, *, shared: bool) -> None:
        self.state, self.shared = state, shared
        self._smallest: dict[Signature, list[Footprint]] = {}

    def rule_out(self, gang: GangRow) -> bool:
        """Whether a gang is no easier than one that has failed."""
        known = self._smallest.get(self._kind(gang))
        return known is not None and not is_easier(footprints(self.state, gang), known)

    def remember(self, gang: GangRow) -> None:
        kind, mine = self._kind(gang), footprints(self.state, gang)
        known = self._smallest.get(kind)
        if known is None or is_smaller(mine, known):
            self._smallest[kind] = mine

    def _kind(self, gang: GangRow) -> Signature:
        return (-1 if self.shared else gang.queue, signature(self.state, gang))


def signature(state: State, gang: GangRow) -> Signature:
    """Where the pods that do not run yet may go, pod set by pod set."""
    return (gang.priority, tuple(sorted(repr(_pod_set(state, leaf)) for leaf in gang.leaves)))


def _pod_set(state: State, leaf: Members) -> Signature:
    constraints = []
    member: Member | GroupRow | None = leaf
    while member is not None:
        constraints.append(member.constraint)
        member = member.parent
    places = (_places(state, row) for row in leaf.rows if not IS_ACTIVE[state.tasks.status[row]])
    return tuple(constraints), tuple(sorted(places))


def _places(state: State, row: int) -> str:
    demand = state.tasks.klass[row].demand
    volumes = sorted(demand.only_nodes) if demand.only_nodes is not None else None
    return repr((demand.selector, demand.affinity, demand.neighbours, demand.tolerations, demand.ports, volumes))


def footprints(state: State, gang: GangRow) -> list[Footprint]:
    """What each pending pod asks for, smallest first as far as they can be compared."""
    found: list[Footprint] = []
    for row in gang.rows:
        if state.tasks.status[row] == Status.PENDING:
            found.append(_footprint(state, row))
            place = len(found) - 1
            while place and _at_most(found[place], found[place - 1]):
                found[place - 1 : place + 1] = found[place], found[place - 1]
                place -= 1
    return found


def _footprint(state: State, row: int) -> Footprint:
    """Requests, and GPUs as a number of devices and the part of each."""
    klass = state.tasks.klass[row]
    requests = dict(klass.demand.requests)
    whole = requests.pop("gpu", 0.0)
    count, portion = (klass.devices, klass.portion) if klass.shared else (whole, float(whole > 0))
    return {**requests, "devices": float(count), "portion": portion}


def is_easier(mine: Sequence[Footprint], failed: Sequence[Footprint]) -> bool:
    """Fewer pods, or the first pod that differs asks for less."""
    if not mine or not failed:
        return False
    if len(failed) > len(mine):
        return True
    return any(_at_most(one, other) and not _at_most(other, one) for one, other in zip(mine, failed))


def is_smaller(mine: Sequence[Footprint], known: Sequence[Footprint]) -> bool:
    """Every pod has a counterpart that asks for at least as much."""
    if not mine or not known or len(mine) > len(known):
        return False
    return all(_at_most(one, other) for one, other in zip(mine, known))


def _at_most(one: Footprint, other: Footprint) -> bool:
    return all(amount <= other.get(name, 0.0) for name, amount in one.items())
