"""The division of a resource among sibling queues, as arithmetic on columns; it knows nothing of sessions.

First everybody gets what they deserve (quota, but not more than they ask); the surplus goes by queue priority, and
inside a priority by weight, less what history took; what flooring left over goes in units to the largest
remainders, oldest queue first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allaboard.scheduling.classes import Column
from allaboard.scheduling.facts import UNLIMITED


@dataclass(frozen=True, slots=True)
class Siblings:
    """Queues under one parent and one resource, a column each; rows are in the order of age, then name."""

    priority: Column
    quota: Column
    limit: Column
    weight: Column
    request: Column
    usage: Column


def divide(total: float, queues: Siblings, usage_weight: float = 1.0) -> Column:
    """Each sibling's fair share of `total`; shares may exceed it when the quotas do."""
    wanted = np.where(queues.limit == UNLIMITED, queues.request, np.minimum(queues.limit, queues.request))
    share = np.minimum(np.where(queues.quota == UNLIMITED, total, queues.quota), wanted)
    left = total
    for given in share.tolist():
        left -= given
    if left <= 0 or bool((share >= wanted).all()):  # nothing is left, or nobody wants more
        return share
    remainders: dict[float, dict[int, float]] = {}
    order = sorted(set(queues.priority.tolist()), reverse=True)
    for priority in order:
        group = np.flatnonzero(queues.priority == priority)
        left, remainders[priority] = _by_weight(left, group, (queues, wanted, share), usage_weight)
    for priority in order:
        left = _leftovers(left, remainders[priority], share)
    return share


def _by_weight(
    left: float, group: np.ndarray, columns: tuple[Siblings, Column, Column], usage_weight: float
) -> tuple[float, dict[int, float]]:
    """Rounds of offers to one priority group, until no queue is satisfied below its offer; changes `share`."""
    queues, wanted, share = columns
    remainders: dict[int, float] = {}
    while left > 0:
        missing = np.maximum(0.0, wanted[group] - share[group])
        hungry = (queues.request[group] > share[group]) & (
            (queues.limit[group] == UNLIMITED) | (queues.limit[group] > share[group])
        )
        weights = queues.weight[group]
        parts = _parts(weights, np.where(missing > 0, weights, 0.0), queues.usage[group], usage_weight)
        parts = np.where(hungry, parts, 0.0)
        total = _sum(parts)
        if total == 0:
            break
        served = hungry & (weights > 0)
        offer = left * (parts / total)
        enough = missing <= offer
        floor = np.floor(offer)
        given = np.where(served, np.where(enough, missing, floor), 0.0)
        for row, done, rest in zip(group[served].tolist(), enough[served].tolist(), (offer - floor)[served].tolist()):
            if done:
                remainders.pop(row, None)
            elif rest > 0:
                remainders[row] = rest
        share[group] += given
        for amount in given.tolist():
            left -= amount
        if not np.any(served & (given > 0) & (missing < offer)):
            break
    return left, remainders


def _parts(weights: Column, open_weights: Column, usage: Column, usage_weight: float) -> Column:
    """Relative claims: normal weight, corrected by how far past usage is from it."""
    total = _sum(open_weights)
    if total == 0:
        return np.zeros_like(weights)
    normal = weights / total
    return np.maximum(0.0, normal + usage_weight * (normal - usage))


def _sum(column: Column) -> float:
    """One after the other, as the reference adds; pairwise summing differs in the last bit and flooring shows it."""
    return float(sum(column.tolist()))


def _leftovers(left: float, remainders: dict[int, float], share: Column) -> float:
    """One unit each to the largest remainders; rows are in age order, which breaks ties."""
    for row in sorted(remainders, key=lambda row: (-remainders[row], row)):
        if left <= 0:
            break
        given = min(1.0, left)
        share[row] += given
        left -= given
    return left


@dataclass(frozen=True, slots=True)
class Tree:
    """A queue tree as columns: `children` of each row (-1: the top), and [3, queue] matrices per cpu, memory, gpu."""

    children: dict[int, Sequence[int]]
    priority: Column
    quota: np.ndarray
    limit: np.ndarray
    weight: np.ndarray
    request: np.ndarray
    usage: np.ndarray


def divide_tree(totals: Sequence[float], tree: Tree, usage_weight: float = 1.0) -> np.ndarray:
    """Fair shares [3, queue]: the cluster among the top queues, each queue's share among its children."""
    shares = np.zeros_like(tree.quota)
    todo = [(-1, list(totals))]
    while todo:
        parent, amounts = todo.pop()
        rows = np.array(tree.children.get(parent, ()), dtype=np.intp)
        if rows.size == 0:
            continue
        for resource, amount in enumerate(amounts):
            columns = (m[resource, rows] for m in (tree.quota, tree.limit, tree.weight, tree.request, tree.usage))
            shares[resource, rows] = divide(float(amount), Siblings(tree.priority[rows], *columns), usage_weight)
        todo += [(int(row), shares[:, row].tolist()) for row in rows]
    return shares
