"""Queues get what is theirs: limits and quotas when a gang wants to start, fairness when it wants to reclaim."""

from __future__ import annotations

from allaboard.scheduling.facts import UNLIMITED
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.queues import EPSILON, Amounts, Queues
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.words import amount, quantity

RESOURCES = ("cpu", "memory", "gpu")
NO_LIMIT = [UNLIMITED, UNLIMITED, UNLIMITED]


class Proportion:
    """`usage_weight` is how much past use counts in fair shares (KAI's kValue); `saturation` how much better off than
    the reclaimer a sibling must stay that was reclaimed from."""

    name = "proportion"

    def __init__(self, usage_weight: str = "1", saturation: str = "1") -> None:
        self.usage_weight, self.saturation = max(0.0, float(usage_weight)), float(saturation)
        if self.saturation < 1:
            raise ValueError(f"relcaimerSaturationMultiplier is {saturation}; must be at least 1")

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
        if queues.limit[row] == NO_LIMIT:
            continue
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
    most, free = quantity(resource, bound), quantity(resource, left)
    room = f"it holds {quantity(resource, held)} of its {_BOUND[code]} {most}"
    message = f'needs {amount(resource, wanted)}, but queue "{queue}" may use {free} more: {room}'
    verdict = "Impossible" if wanted > bound + EPSILON else "Waiting"
    field = "quota" if code == "NonPreemptibleOverQuota" else "limit"
    remedy = f'raise spec.resources.{resource}.{field} of queue "{queue}" (now {most})'
    return Reason(code, message, verdict, {resource: wanted}, {resource: left}, unblock=(remedy,), queue=queue)
