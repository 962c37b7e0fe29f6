"""The fewest tasks to disturb: an opt-in choice of victims by what is cheapest to clear, before the fair order is
walked.

Only for gangs of equal plain tasks. Fairness is not weakened: the action's rule judges the choice like any other,
and when it objects, the usual search follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allaboard.scheduling.accounts import gpus_held
from allaboard.scheduling.classes import Column, PodClass
from allaboard.scheduling.probe import EPSILON, Probe
from allaboard.scheduling.state import State
from allaboard.scheduling.victims import GroupOut

MOST_VICTIMS = 20_000
Slot = tuple[int, int, int, list[GroupOut]]
"""One more place: how many tasks have left the node by then, the node, which of its places it is, who leaves for it."""


def fewest(probe: Probe, offered: Iterable[GroupOut]) -> list[GroupOut]:
    """Groups whose leaving gives every pending task a place, with few tasks; empty when that is not possible."""
    counts = probe.hope.counts
    if len(counts) != 1 or sum(counts.values()) != sum(len(rows) for rows in probe.pending.values()):
        return []
    ((klass, count),) = counts.items()
    missing = count - int(probe.hope.free(klass))
    slots = [slot for node, groups in _by_node(probe, offered).items() for slot in _slots(probe, klass, node, groups)]
    # Slots of one node follow one another, as a later one counts on those who left for the earlier.
    slots.sort(key=lambda slot: slot[:3])
    picked = slots[: max(missing, 0)]
    return [group for _, _, _, groups in picked for group in groups] if 0 < missing <= len(slots) else []


def _by_node(probe: Probe, offered: Iterable[GroupOut]) -> dict[int, list[GroupOut]]:
    """Groups that stand on one node alone, those with the largest tasks first: few of them clear it."""
    found: dict[int, list[GroupOut]] = {}
    seen = 0
    for gang, rows in offered:
        nodes = {probe.state.tasks.node[row] for row in rows}
        if len(nodes) == 1:
            found.setdefault(nodes.pop(), []).append((gang, rows))
        seen += len(rows)
        if seen > MOST_VICTIMS:
            break
    for groups in found.values():
        groups.sort(key=lambda group: -_gpus_each(probe.state, group[1]))
    return found


def _gpus_each(state: State, rows: list[int]) -> float:
    return sum(gpus_held(state.tasks, state.nodes, row) for row in rows) / len(rows)


def _slots(probe: Probe, klass: PodClass, node: int, groups: list[GroupOut]) -> Iterator[Slot]:
    """Places that open on a node as its groups leave one after the other."""
    nodes, allowed = probe.state.nodes, probe.session.panel.fits(klass)
    if allowed is not None and not allowed[node]:
        return
    room: Column = nodes.idle[:, node] + nodes.releasing[:, node]
    opened, leaving = _places(klass, room), []
    cost = 0
    for group in groups:
        leaving.append(group)
        cost += len(group[1])
        for row in group[1]:
            room = room + probe.state.tasks.klass[row].wants
        while _places(klass, room) > opened:
            opened += 1
            yield cost, node, opened, leaving
            leaving = []


def _places(klass: PodClass, room: Column) -> int:
    return int(max(0.0, min((room[r] + EPSILON) // klass.wants[r] for r in klass.columns)))
