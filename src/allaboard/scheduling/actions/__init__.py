"""What a cycle does, in order: each action is a function over a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allaboard.scheduling.actions.allocate import allocate
from allaboard.scheduling.actions.consolidate import consolidate
from allaboard.scheduling.actions.preempt import preempt
from allaboard.scheduling.actions.reclaim import reclaim
from allaboard.scheduling.actions.stale import evict_stale
from allaboard.scheduling.session import Session

ACTIONS: Mapping[str, Callable[[Session], None]] = {
    "allocate": allocate,
    "consolidation": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "stalegangeviction": evict_stale,
}
