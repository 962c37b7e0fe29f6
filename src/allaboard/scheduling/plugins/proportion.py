"""Queues get what is theirs: limits and quotas when a gang wants to start, fairness when it wants to reclaim."""

from __future__ import annotations

from allaboard.scheduling.facts import UNLIMITED
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.queues import EPSILON, Amounts, Queues
from allaboard.scheduling.reasons import Reason

RESOURCES = ("cpu", "memory", "gpu")


class Proportion:
    name = "proportion"

    def may_start(self, queues: Queues, gang: GangRow, amounts: Amounts) -> Reason | None:
        """No queue above its limit; non-preemptible work only inside the quota; at every level of the tree."""
        return over_limit(queues, gang, amounts) or self.may_stay(queues, gang, amounts)

    def may_stay(self, queues: Queues, gang: GangRow, amounts: Amounts) -> Reason | None:
        """Work that cannot be evicted must not exceed the quota."""
        if gang.preemptible:
            return None
        for row in queues.path[gang.queue]:
            for resource, name in enumerate(RESOURCES):
                quota, held = queues.quota[row][resource], queues.non_preemptible[row][resource]
                if quota != UNLIMITED and amounts[resource] > 0 and quota < held + amounts[resource] - EPSILON:
                    return _over("NonPreemptibleOverQuota", queues.names[row], name, (quota, held, amounts[resource]))
        return None


def over_limit(queues: Queues, gang: GangRow, amounts: Amounts) -> Reason | None:
    for row in queues.path[gang.queue]:
        for resource, name in enumerate(RESOURCES):
            limit, held = queues.limit[row][resource], queues.allocated[row][resource]
            if limit != UNLIMITED and amounts[resource] > 0 and limit < held + amounts[resource] - EPSILON:
                code = "OverLimit" if row == gang.queue else "ParentOverLimit"
                return _over(code, queues.names[row], name, (limit, held, amounts[resource]))
    return None


_BOUND = {"NonPreemptibleOverQuota": "quota for non-preemptible work", "OverLimit": "limit", "ParentOverLimit": "limit"}


def _over(code: str, queue: str, resource: str, numbers: tuple[float, float, float]) -> Reason:
    bound, held, wanted = numbers
    left = max(bound - held, 0.0)
    room = f"it holds {held:g} of its {_BOUND[code]} {bound:g}"
    message = f'needs {wanted:g} {resource}, but queue "{queue}" may use {left:g} more: {room}'
    verdict = "Impossible" if wanted > bound + EPSILON else "Waiting"
    field = "quota" if code == "NonPreemptibleOverQuota" else "limit"
    remedy = f'raise spec.resources.{resource}.{field} of queue "{queue}" (now {bound:g})'
    return Reason(code, message, verdict, {resource: wanted}, {resource: left}, unblock=(remedy,), queue=queue)
