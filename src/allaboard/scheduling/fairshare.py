"""The division of a resource among sibling queues, as arithmetic on lists; it knows nothing of sessions.

First everybody gets what they deserve (quota, but not more than they ask); the surplus goes by queue priority, and
inside a priority by weight, less what history took; what flooring left over goes in units to the largest
remainders, oldest queue first.

Plain numbers, not arrays: siblings are a handful, and a cycle divides three resources under every queue that has
children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allaboard.scheduling.facts import UNLIMITED

Numbers = Sequence[float]


@dataclass(frozen=True, slots=True)
class Siblings:
    """Queues under one parent and one resource, a list each; rows are in the order of age, then name."""

    priority: Numbers
    quota: Numbers
    limit: Numbers
    weight: Numbers
    request: Numbers
    usage: Numbers


def divide(total: float, queues: Siblings, usage_weight: float = 1.0) -> list[float]:
    """Each sibling's fair share of `total`; shares may exceed it when the quotas do."""
    asked = zip(queues.limit, queues.request)
    wanted = [request if limit == UNLIMITED else min(limit, request) for limit, request in asked]
    share = [min(total if quota == UNLIMITED else quota, most) for quota, most in zip(queues.quota, wanted)]
    left = total
    for given in share:
        left -= given
    if left <= 0 or share == wanted:  # nothing is left, or nobody wants more
        return share
    groups: dict[float, list[int]] = {}
    for row, priority in enumerate(queues.priority):
        groups.setdefault(priority, []).append(row)
    remainders = []
    for priority in sorted(groups, reverse=True):
        left, rest = _by_weight(left, groups[priority], (queues, wanted, share), usage_weight)
        remainders.append(rest)
    for rest in remainders:
        left = _leftovers(left, rest, share)
    return share


def _by_weight(
    left: float, group: list[int], columns: tuple[Siblings, list[float], list[float]], usage_weight: float
) -> tuple[float, dict[int, float]]:
    """Rounds of offers to one priority group, until no queue is satisfied below its offer; changes `share`."""
    queues, wanted, share = columns
    remainders: dict[int, float] = {}
    again = True
    while again and left > 0:
        missing = {row: max(0.0, wanted[row] - share[row]) for row in group}
        parts = _parts(queues, share, missing, usage_weight)
        # One after the other, as the reference adds; summing in pairs differs in the last bit and flooring shows it.
        total = sum(parts.values())
        if total == 0:
            break
        again, offered = False, left
        for row, part in parts.items():
            if queues.weight[row] <= 0:
                continue
            offer = offered * (part / total)
            rest = offer % 1.0
            if missing[row] <= offer:
                given = missing[row]
                remainders.pop(row, None)
            else:
                given = offer - rest
                if rest > 0:
                    remainders[row] = rest
            share[row] += given
            left -= given
            again = again or (given > 0 and missing[row] < offer)
    return left, remainders


def _parts(queues: Siblings, share: Numbers, missing: Mapping[int, float], usage_weight: float) -> dict[int, float]:
    """Relative claims of those who want more: normal weight, corrected by how far past usage is from it."""
    weight, usage = queues.weight, queues.usage
    total = sum([weight[row] for row, amount in missing.items() if amount > 0])
    if total == 0:
        return {}
    parts = {}
    for row in missing:
        limit, given = queues.limit[row], share[row]
        if queues.request[row] > given and (limit == UNLIMITED or limit > given):
            normal = weight[row] / total
            parts[row] = max(0.0, normal + usage_weight * (normal - usage[row]))
    return parts


def _leftovers(left: float, remainders: dict[int, float], share: list[float]) -> float:
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
    """A queue tree: `children` of each row (-1: the top), and per row what it may have: cpu, memory, gpu."""

    children: Mapping[int, Sequence[int]]
    priority: Numbers
    quota: Sequence[Numbers]
    limit: Sequence[Numbers]
    weight: Sequence[Numbers]
    request: Sequence[Numbers]
    usage: Sequence[Numbers]


def divide_tree(totals: Numbers, tree: Tree, usage_weight: float = 1.0) -> list[list[float]]:
    """Fair shares per row: the cluster among the top queues, each queue's share among its children."""
    shares = [[0.0] * len(totals) for _ in tree.quota]
    todo = [(-1, totals)]
    while todo:
        parent, amounts = todo.pop()
        rows = tree.children.get(parent, ())
        priority = [tree.priority[row] for row in rows]
        for resource, amount in enumerate(amounts if rows else ()):
            matrices = (tree.quota, tree.limit, tree.weight, tree.request, tree.usage)
            columns = [[matrix[row][resource] for row in rows] for matrix in matrices]
            for row, share in zip(rows, divide(amount, Siblings(priority, *columns), usage_weight)):
                shares[row][resource] = share
        todo += [(row, shares[row]) for row in rows]
    return shares
