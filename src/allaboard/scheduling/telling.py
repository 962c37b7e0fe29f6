"""The facts back: a state told as the world it stands for, with what cycles decided in it."""

from __future__ import annotations

from dataclasses import replace

from allaboard.scheduling.facts import Gang, Task, World
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.state import State


def world_of(state: State) -> World:
    """Everything as the state stands: binds and evictions decided by cycles are in it."""
    gangs = (gang_of(state, gang) for gang in state.gangs.values())
    return World(
        nodes=tuple(state.nodes.facts),
        queues=state.queues.given,
        gangs=tuple(sorted(gangs, key=lambda gang: gang.name)),
        topologies=tuple(state.topologies.values()),
        claims=tuple(state.classes.claims.values()),
        strangers=tuple(state.strangers.all()),
    )


def gang_of(state: State, gang: GangRow) -> Gang:
    tasks = tuple(task_of(state, row) for row in gang.rows)
    return replace(
        gang.fact, tasks=tasks, last_start=gang.last_start, stale_since=gang.stale_since, promised=gang.promised
    )


def task_of(state: State, row: int) -> Task:
    task = state.tasks.fact[row]
    assert task is not None
    if state.tasks.status[row] == task.status and state.tasks.node[row] < 0:
        return task
    node = state.nodes.names[state.tasks.node[row]] if state.tasks.node[row] >= 0 else ""
    return replace(task, status=state.tasks.status[row], node=node, gpu_groups=state.tasks.groups[row])
