"""A refusal in view of the others: who holds what is missing, when it could be free, and whether it is a matter of
shares or of order."""

from __future__ import annotations

from dataclasses import replace

from allaboard.scheduling.explain import Stuck, holders
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.line import Outlook
from allaboard.scheduling.reasons import WAITING, Reason
from allaboard.scheduling.session import Session

HOLDERS = 3


def in_context(session: Session, outlook: Outlook, gang: GangRow, reason: Reason) -> Reason:
    """A gang that waits for room others hold: who holds most, when it could be free, and whether it is a matter of
    shares or of order."""
    stuck = session.refusals.known[gang.name].why
    if reason.code not in ("InsufficientResource", "Fragmented") or reason.verdict != WAITING:
        return reason
    assert isinstance(stuck, Stuck)
    kept = session.reservation
    start = kept.start if kept is not None and kept.gang is gang else outlook.earliest(stuck.klass, stuck.wanted)
    reason = replace(reason, held_by=holders(session.state, HOLDERS), estimate=start)
    return _fair_words(session, gang, reason) or outlook.behind(gang, reason, stuck) or reason


def _fair_words(session: Session, gang: GangRow, reason: Reason) -> Reason | None:
    """What is missing is in the hands of other queues, and this one has no claim on it: it would be above its share."""
    queues, row, wanted = session.state.queues, gang.queue, reason.needs.get("gpu", 0.0)
    held, fair, quota = queues.allocated[row][2], queues.fair[row][2], queues.quota[row][2]
    if not wanted or held + wanted <= fair or reason.code == "Fragmented":
        return None
    others = sum(queues.allocated[top][2] for top in queues.children[-1]) - held
    if reason.free.get("gpu", 0.0) + others < wanted:
        return None
    own = held if quota < 0 else min(held, quota)
    words = (
        f'queue "{gang.fact.queue}" holds {held:g} gpu ({own:g} deserved, {held - own:g} borrowed), '
        f"and {wanted:g} more would be {held + wanted - fair:g} above its fair share {fair:g}"
    )
    unblock = (*reason.unblock, f'raise spec.resources.gpu.quota of queue "{gang.fact.queue}" (now {quota:g})')
    return replace(reason, code="FairShare", message=f"{reason.message}; {words}", unblock=unblock)
