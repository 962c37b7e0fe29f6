"""Devices by claim: a claim must exist, belong to the gang's queue, have consumers to spare, and its devices must
be free."""

from __future__ import annotations

import numpy as np

from allaboard.scheduling.classes import Mask, PodClass
from allaboard.scheduling.devices import MAX_CONSUMERS
from allaboard.scheduling.facts import GPU_DEVICE_CLASS, Claim
from allaboard.scheduling.state import State


class DynamicResources:
    name = "dynamicresources"

    def fits_task(self, state: State, wanted: PodClass, row: int) -> Mask | None:
        if not wanted.demand.claims:
            return None
        known = [state.classes.claims.get(name) for name in wanted.demand.claims]
        queue = state.tasks.members[row].gang.fact.queue
        if any(claim is None or not _usable(state, claim, queue) for claim in known):
            return np.zeros(len(state.nodes), dtype=bool)
        return None


def _usable(state: State, claim: Claim, queue: str) -> bool:
    """A claim of GPUs carries the queue it is counted in."""
    if claim.device_class == GPU_DEVICE_CLASS and claim.queue != queue:
        return False
    strangers = sum(name not in state.tasks.row_of for name in claim.consumers)
    return strangers + state.nodes.devices.consumers(claim) < MAX_CONSUMERS
