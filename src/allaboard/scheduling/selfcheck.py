"""Rebuild and compare: whether a state kept by events equals one built from its own facts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import world_of

TOLERANCE = 1e-6


def differences(state: State) -> list[str]:
    """What a fresh build sees otherwise, as sentences; empty when the kept state is sound."""
    return compare(state, State.build(world_of(state)))


def compare(kept: State, fresh: State) -> list[str]:
    """What two states that should be the same hold otherwise."""
    return list(_differences(kept, fresh))


def _differences(kept: State, fresh: State) -> Iterator[str]:
    if kept.nodes.names != fresh.nodes.names:
        yield f"nodes: kept {kept.nodes.names}, rebuilt {fresh.nodes.names}"
        return
    for name, column in fresh.classes.resources.items():
        for matrix in ("capacity", "idle", "releasing"):
            ours, theirs = (
                getattr(kept.nodes, matrix)[kept.classes.resources[name]],
                getattr(fresh.nodes, matrix)[column],
            )
            for row in np.flatnonzero(np.abs(ours - theirs) > TOLERANCE):
                yield f"node {kept.nodes.names[row]}: {matrix} {name} is {ours[row]:g}, rebuilt {theirs[row]:g}"
    yield from _queue_differences(kept, fresh)
    yield from _gang_differences(kept, fresh)


def _queue_differences(kept: State, fresh: State) -> Iterator[str]:
    if kept.queues.names != fresh.queues.names:
        yield f"queues: kept {kept.queues.names}, rebuilt {fresh.queues.names}"
        return
    for field in ("allocated", "non_preemptible", "requested"):
        for name, ours, theirs in zip(kept.queues.names, getattr(kept.queues, field), getattr(fresh.queues, field)):
            if not np.allclose(ours, theirs, rtol=1e-9, atol=TOLERANCE):
                yield f"queue {name}: {field} is {ours}, rebuilt {theirs}"


def _gang_differences(kept: State, fresh: State) -> Iterator[str]:
    for field in ("waiting", "incomplete"):
        if set(getattr(kept.gangs, field)) != set(getattr(fresh.gangs, field)):
            yield f"{field}: kept {sorted(getattr(kept.gangs, field))}, rebuilt {sorted(getattr(fresh.gangs, field))}"
    for name, gang in fresh.gangs.items():
        ours, theirs = _told(kept, kept.gangs.get(name)), _told(fresh, gang)
        if ours != theirs:
            yield f"gang {name}: kept {ours}, rebuilt {theirs}"


def _told(state: State, gang: GangRow | None) -> list[tuple[str, list[int], list[str]]]:
    leaves = gang.leaves if gang else []
    return [(leaf.name, leaf.count, [state.tasks.name(row) for row in leaf.rows]) for leaf in leaves]
