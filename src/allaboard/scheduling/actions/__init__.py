"""What a cycle does, in order: each action is a function over a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allaboard.scheduling.actions import consolidate as moving
from allaboard.scheduling.actions import preempt as preempting
from allaboard.scheduling.actions import reclaim as reclaiming
from allaboard.scheduling.actions.allocate import allocate
from allaboard.scheduling.actions.stale import evict_stale
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import Offer

ACTIONS: Mapping[str, Callable[[Session], None]] = {
    "allocate": allocate,
    "consolidation": moving.consolidate,
    "reclaim": reclaiming.reclaim,
    "preempt": preempting.preempt,
    "stalegangeviction": evict_stale,
}

# What the actions that make others leave would offer to one gang; a what-if asks the same questions.
OFFERS: Mapping[str, Callable[[Session, GangRow], Offer | None]] = {
    "consolidation": moving.offer,
    "reclaim": reclaiming.offer,
    "preempt": preempting.offer,
}
