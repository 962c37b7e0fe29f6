"""A whole cycle: open a session, run the policy's actions, close it; the state keeps what was decided as assumed
facts."""

from __future__ import annotations

from dataclasses import replace

from allaboard.scheduling.actions import ACTIONS
from allaboard.scheduling.decisions import Bind, Decisions, Eviction, Promise
from allaboard.scheduling.explain import holders, not_asked, reserved
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.reasons import WAITING, Reason
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State

HOLDERS = 3


def cycle(state: State, policy: Policy, now: float) -> Decisions:
    """Decide once. Binds stay in the state as BINDING, evictions as RELEASING; promises are taken back.

    Without any change since the last cycle, and before its deadline, the answer is the last one without its deeds.
    """
    known = state.last
    if known and known[0] == (state.version, policy) and (known[1].deadline is None or now < known[1].deadline):
        return known[1]
    if policy.usage_half_life > 0:
        state.remember_usage(now, policy.usage_half_life)
    session = Session(state, policy, now)
    for action in policy.actions:
        session.action = action
        ACTIONS[action](session)
    decisions = decided(session)
    close(session, decisions)
    return decisions


def close(session: Session, decisions: Decisions) -> None:
    """Take promises back (they are asked anew in the next cycle) and count binds and evictions as facts."""
    state = session.state
    state.settle(session.log.origin, session.before)
    state.reconsider(session.stale)
    for name, reason in decisions.reasons.items():
        if name not in session.skipped:
            state.refused[name] = (state.relief, reason)
    rest = replace(decisions, binds=(), evictions=(), started=(), stale={})
    state.last = ((state.version, session.policy), rest)


def decided(session: Session) -> Decisions:
    state, queues, log = session.state, session.state.queues, session.log
    promises = [
        Promise(state.name(row), state.members[row].gang.name, state.nodes.names[node])
        for row, node in log.pipelines
        if state.status[row] == Status.PIPELINED and state.node[row] == node
    ]
    bound = [(row, node) for row, node in log.binds if state.status[row] == Status.BINDING]
    return Decisions(
        binds=tuple(_bind(state, row, node) for row, node in _by_gang(state, bound)),
        evictions=tuple(_evictions(session)),
        pipelined=tuple(promises),
        reasons=_reasons(session, promises),
        fair_shares={name: (fair[0], fair[1], fair[2]) for name, fair in zip(queues.names, queues.fair)},
        started=tuple(session.started),
        stale=dict(session.stale),
        deadline=session.deadline,
    )


# --- deeds ---


def _by_gang(state: State, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Binds in decision order, those of one gang together."""
    first: dict[str, int] = {}
    for row, _ in pairs:
        first.setdefault(state.members[row].gang.name, len(first))
    return sorted(pairs, key=lambda pair: first[state.members[pair[0]].gang.name])


def _bind(state: State, row: int, node: int) -> Bind:
    klass = state.klass[row]
    portion = klass.portion_on(int(state.nodes.gpu_memory[node])) if klass.shared else 0.0
    names = (state.name(row), state.members[row].gang.name, state.nodes.names[node])
    return Bind(*names, state.groups[row], portion, klass.gpu_wish, klass.demand.claims)


def _evictions(session: Session) -> list[Eviction]:
    """Each task that leaves, once; one that was put back in the end stays, one bound in this very cycle just waits
    again."""
    state, seen = session.state, set()
    found = []
    for row, (action, by) in zip(session.log.evictions, session.log.causes):
        gone = state.status[row] == Status.RELEASING or row in state.ghosts
        if gone and row not in seen and session.log.origin[row] != Status.PENDING:
            seen.add(row)
            gang = state.members[row].gang.name
            found.append(Eviction(state.name(row), gang, action, by, _WORDS[action].format(by=by)))
    return found


_WORDS = {
    "reclaim": 'evicted to return resources to the queue of "{by}"',
    "preempt": 'evicted to make room for "{by}", which has a higher priority in the same queue',
    "consolidation": 'moved to make room for "{by}"',
    "stalegangeviction": "evicted because its gang stayed below its minimum for too long",
}


# --- words ---


def _reasons(session: Session, promises: list[Promise]) -> dict[str, Reason]:
    """One reason for every gang that waits: refused now, refused before and still hopeless, promised, or not asked."""
    state = session.state
    places: dict[str, list[str]] = {}
    for promise in promises:
        places.setdefault(promise.gang, []).append(promise.node)
    found: dict[str, Reason] = {}
    for name, gang in state.waiting.items():
        reason: Reason | None = None
        if name in places:
            reason = reserved(gang, places[name])
        elif (refused := session.refusals.reason(gang)) is not None:
            reason = _fair_words(session, gang, refused)
        elif name in session.skipped:
            reason = state.refused[name][1]
        elif gang.pending():
            reason = not_asked(state, gang)
        if reason is not None:
            found[name] = reason
    return found


def _fair_words(session: Session, gang: GangRow, reason: Reason) -> Reason:
    """A gang that waits for room others hold: say whether its queue has its share, and who holds most."""
    if reason.code not in ("InsufficientResource", "Fragmented") or reason.verdict != WAITING:
        return reason
    reason = replace(reason, held_by=holders(session.state, HOLDERS), estimate=_estimate(session, gang))
    queues, row, wanted = session.state.queues, gang.queue, reason.needs.get("gpu", 0.0)
    held, fair, quota = queues.allocated[row][2], queues.fair[row][2], queues.quota[row][2]
    if not wanted or held + wanted <= fair or reason.code == "Fragmented":
        return reason
    own = held if quota < 0 else min(held, quota)
    words = (
        f'queue "{gang.fact.queue}" holds {held:g} gpu ({own:g} deserved, {held - own:g} borrowed) '
        f"of its fair share {fair:g}, and needs {wanted:g} more"
    )
    unblock = (*reason.unblock, f'raise spec.resources.gpu.quota of queue "{gang.fact.queue}" (now {quota:g})')
    return replace(reason, code="FairShare", message=f"{reason.message}; {words}", unblock=unblock)


def _estimate(session: Session, gang: GangRow) -> float | None:
    kept = session.reservation
    return kept.start if kept is not None and kept.gang is gang else None
