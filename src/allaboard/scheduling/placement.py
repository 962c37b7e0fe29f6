"""Where the tasks of one class go: all of them at once where arithmetic allows, else one by one.

Bin packing with rescoring after every pod has a closed form: a node just used keeps the best score, so nodes are
filled one after the other, fullest first. Nodes with idle room come before nodes that only have room being
released. What scores a node higher than idle room (topology, a shared GPU, a nomination) splits the nodes into
tiers, best tier first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from allaboard.scheduling.classes import CPU, GPU, Column, Mask, PodClass
from allaboard.scheduling.nodes import Nodes, Rows

AVAILABLE = 1000.0
TIER = 10_000.0
FEW = 4


@dataclass(frozen=True, slots=True)
class Board:
    """The nodes a run of equal tasks may use, and what is known about them before the first is placed.

    `rows` is None for every node. `score` sums what does not change while the run is placed.
    """

    nodes: Nodes
    wanted: PodClass
    rows: Rows | None
    allowed: Mask | None
    score: Column | None

    def column(self, values: Column) -> Column:
        return values if self.rows is None else values[self.rows]

    def to_rows(self, positions: Rows) -> Rows:
        return positions if self.rows is None else self.rows[positions]


def copies(board: Board, *, idle: bool) -> Column:
    """How many tasks of the class each node takes on idle room, or on idle plus releasing room; 0 where not allowed."""
    nodes, wanted = board.nodes, board.wanted
    rows = wanted.rows
    room = nodes.idle[rows] if idle else nodes.idle[rows] + nodes.releasing[rows]
    if board.rows is not None:
        room = room[:, board.rows]
    room /= wanted.per_row
    slots: Column = np.floor(room.min(axis=0))
    np.maximum(slots, 0.0, out=slots)
    if board.allowed is not None:
        slots[~(board.allowed if board.rows is None else board.allowed[board.rows])] = 0.0
    if (debt := nodes.in_debt(wanted, idle=idle)) is not None:
        slots[debt if board.rows is None else debt[board.rows]] = 0.0
    return slots


def packing_key(board: Board) -> Column:
    """Smaller is fuller, so earlier: free GPUs (or CPU); a node without the resource ranks with the emptiest."""
    resource = CPU if board.wanted.cpu_only else GPU
    free = board.column(board.nodes.free(resource))
    has = board.column(board.nodes.capacity[resource]) != 0
    if has.all():
        top = free.max(initial=0.0)
        return free if top > 0 else np.zeros_like(free)
    top = free[has].max(initial=0.0)
    return np.where(has, free, top) if top > 0 else np.zeros_like(free)


@dataclass(frozen=True, slots=True)
class Fill:
    """Node rows, one per task in task order, and which of them are idle room (the others are being released)."""

    rows: list[int]
    idle: list[bool]


def fill(board: Board, count: int, *, pipeline_only: bool) -> Fill | None:
    """Places for `count` equal tasks by bin packing, or None when they do not all fit."""
    few = board.rows is not None and len(board.rows) <= FEW
    if pipeline_only and few and board.score is None and board.nodes.in_debt(board.wanted, idle=True) is None:
        return _fill_few(board, count)
    on_free = copies(board, idle=False)
    if on_free.sum() < count:
        return None
    on_idle = on_free if board.wanted.best_effort else copies(board, idle=True)
    if pipeline_only:
        return _fill_promises(board, count, (on_free, on_idle))
    return _fill_idle_first(board, count, (on_free, np.minimum(on_free, on_idle)))


def _fill_promises(board: Board, count: int, room: tuple[Column, Column]) -> Fill:
    """In a simulation nothing is taken from idle room, so a node keeps its rank until it is full."""
    on_free, on_idle = room
    score = np.where(on_idle >= 1, AVAILABLE, 0.0)
    if board.score is not None:
        score = score + board.column(board.score)
    positions = _ranked(score, packing_key(board), np.flatnonzero(on_free >= 1), count)
    rows = _take(board, positions, on_free, count)
    return Fill(rows, [False] * len(rows))


def _fill_few(board: Board, count: int) -> Fill | None:
    """The same as `_fill_promises`, spelt out for a handful of nodes, where a column costs more than a loop."""
    assert board.rows is not None
    nodes, wanted, allowed = board.nodes, board.wanted, board.allowed
    resource, wants = CPU if wanted.cpu_only else GPU, wanted.amounts
    found = []
    places = board.rows.tolist()
    rooms = [(row, nodes.idle[:, row].tolist(), nodes.releasing[:, row].tolist()) for row in places]
    has = [nodes.capacity[resource, row] != 0 for row in places]
    top = max((idle[resource] + leaving[resource] for (_, idle, leaving), there in zip(rooms, has) if there), default=0)
    for (row, idle, leaving), there in zip(rooms, has):
        if allowed is not None and not allowed[row]:
            continue
        on_free = min((idle[column] + leaving[column]) / want for column, want in wants)
        if on_free >= 1:
            now = wanted.best_effort or all(idle[column] >= want for column, want in wants)
            key = 0.0 if top <= 0 else idle[resource] + leaving[resource] if there else top
            found.append((not now, key, row, int(on_free)))
    rows: list[int] = []
    for _, _, row, slots in sorted(found):
        rows += [row] * min(slots, count - len(rows))
    return Fill(rows, [False] * count) if len(rows) == count else None


def _fill_idle_first(board: Board, count: int, room: tuple[Column, Column]) -> Fill:
    on_free, _ = room
    if board.score is None:
        return _fill_tier(board, count, room, None)
    tiers = np.floor(board.column(board.score) / TIER)
    rows: list[int] = []
    idle: list[bool] = []
    for tier in np.unique(tiers[on_free >= 1])[::-1]:
        part = _fill_tier(board, count - len(rows), room, tiers == tier)
        rows += part.rows
        idle += part.idle
        if len(rows) == count:
            break
    return Fill(rows, idle)


def _fill_tier(board: Board, count: int, room: tuple[Column, Column], tier: Mask | None) -> Fill:
    """Idle room of the tier first, then what is being released there."""
    on_free, on_idle = room if tier is None else (np.where(tier, room[0], 0.0), np.where(tier, room[1], 0.0))
    score = None if board.score is None else board.column(board.score)
    key = packing_key(board)
    rows = _take(board, _ranked(score, key, np.flatnonzero(on_idle >= 1), count), on_idle, count)
    idle = [True] * len(rows)
    if len(rows) == count:
        return Fill(rows, idle)
    # What idle room took makes those nodes fuller before the second pass ranks them.
    resource, missing = CPU if board.wanted.cpu_only else GPU, count - len(rows)
    later = on_free - on_idle
    key = key - on_idle * board.wanted.wants[resource]
    rows_later = _take(board, _ranked(score, key, np.flatnonzero(later >= 1), missing), later, missing)
    return Fill(rows + rows_later, idle + [False] * len(rows_later))


def _ranked(score: Column | None, key: Column, positions: Rows, count: int) -> Rows:
    """Positions by score downwards, key upwards, name; at most `count` are needed as each takes one task or more."""
    if score is not None:
        return positions[np.lexsort((key[positions], -score[positions]))]
    keys = key[positions]
    if count < len(positions):
        bound = np.partition(keys, count - 1)[count - 1] if count > 1 else keys.min()
        positions = positions[keys <= bound]
        keys = key[positions]
    return positions[np.argsort(keys, kind="stable")]


def _take(board: Board, positions: Rows, room: Column, count: int) -> list[int]:
    """Fill the positions in order until the count is reached."""
    if count == 1:
        return [int(row) for row in board.to_rows(positions[:1])]
    amounts = room[positions]
    upto = np.cumsum(amounts)
    last = int(np.searchsorted(upto, count))
    positions, amounts = positions[: last + 1], amounts[: last + 1]
    rows: list[int] = np.repeat(board.to_rows(positions), amounts.astype(np.intp))[:count].tolist()
    return rows


def fits_idle(nodes: Nodes, wanted: PodClass) -> Mask:
    """Nodes whose idle room takes one task, shared GPUs considered; best effort always fits."""
    if wanted.best_effort:
        return np.ones(len(nodes), dtype=bool)
    return _fits(nodes, wanted, nodes.idle, idle=True)


def fits_free(nodes: Nodes, wanted: PodClass) -> Mask:
    """Nodes whose idle and releasing room takes one task, shared GPUs considered."""
    return _fits(nodes, wanted, nodes.idle + nodes.releasing, idle=False)


def _fits(nodes: Nodes, wanted: PodClass, room: Column, *, idle: bool) -> Mask:
    mask = np.ones(len(nodes), dtype=bool)
    for resource in wanted.columns:
        mask &= wanted.wants[resource] <= room[resource] + 1e-9
    if wanted.claims:
        mask &= nodes.devices.fit(nodes.terrain.offers, wanted.claims, idle=idle)
    if wanted.shared:
        devices = np.floor(room[GPU] + 1e-9)
        for row, gpus in nodes.sharing.items():
            memory = int(nodes.gpu_memory[row])
            devices[row] += len(gpus.fitting(wanted.memory_on(memory), memory))
        mask &= devices >= wanted.devices
        mask &= _fits_device(nodes, wanted)
    debt = nodes.in_debt(wanted, idle=idle)
    return mask if debt is None else mask & ~debt


def _fits_device(nodes: Nodes, wanted: PodClass) -> Mask:
    """A part of a device is at most the whole. KAI also takes several times the memory of one, if it is a multiple."""
    memories = {int(memory): wanted.portion_on(int(memory)) for memory in np.unique(nodes.gpu_memory)}
    good = [memory for memory, part in memories.items() if part <= 1 or (nodes.strict and part == int(part))]
    return np.isin(nodes.gpu_memory, good)
