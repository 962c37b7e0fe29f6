"""A whole cycle: open a session, run the policy's actions, close it; the state keeps what was decided as assumed
facts."""

from __future__ import annotations

from dataclasses import replace

from allaboard.scheduling.actions import ACTIONS
from allaboard.scheduling.context import in_context
from allaboard.scheduling.decisions import Bind, Decisions, Eviction, Promise
from allaboard.scheduling.explain import not_asked, reserved
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.line import Outlook, placed
from allaboard.scheduling.memory import Refused
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.promises import remember
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.session import Session
from allaboard.scheduling.settling import forget_classes, remember_usage, settle
from allaboard.scheduling.state import State
from allaboard.scheduling.surroundings import recount

# Where past use counts, shares move with time alone: those who wait are asked again after so many seconds.
SHARES_MOVE = 60.0


def cycle(state: State, policy: Policy, now: float) -> Decisions:
    """Decide once. Binds stay in the state as BINDING, evictions as RELEASING; promises are taken back.

    Without any change since a cycle that did nothing, and before its deadline, the answer is that one.
    """
    memory = state.memory
    if memory.last and memory.last[0] == (memory.version, policy):
        known = memory.last[1]
        if known.deadline is None or now < known.deadline:
            return known
    if policy.usage_half_life > 0:
        remember_usage(state, now, policy.usage_half_life)
    session = Session(state, policy, now)
    if policy.usage_half_life > 0 and state.gangs.waiting:
        session.wake(now + SHARES_MOVE)
    for action in policy.actions:
        session.action = action
        ACTIONS[action](session)
    decisions = decided(session)
    close(session, decisions)
    return decisions


def close(session: Session, decisions: Decisions) -> None:
    """Take promises back (they are asked anew in the next cycle) and count binds and evictions as facts."""
    state = session.state
    settle(state, session.log.origin, session.before)
    forget_classes(state)
    for name in session.stale:
        state.review(state.gangs[name])
    if not session.policy.exact:
        remember(state, decisions)
    if state.tasks.ghosts.leaks:
        recount(state)
    _remember_refused(session, decisions)
    rest = replace(decisions, binds=(), evictions=(), started=(), stale={})
    state.memory.last = ((state.memory.version, session.policy), rest)
    if decisions.binds or decisions.evictions:
        # What was done may help those who were asked before it was: only a cycle without deeds is the last word.
        state.memory.done()


def _remember_refused(session: Session, decisions: Decisions) -> None:
    """Whoever holds a promise, or nodes kept for it, is asked in every cycle, or somebody else would get its place."""
    memory, kept = session.state.memory, session.reservation
    asked = {promise.gang for promise in decisions.pipelined} | ({kept.gang.name} if kept is not None else set())
    for name, reason in decisions.reasons.items():
        if name not in session.skipped:
            until = session.now if name in asked else session.retries.get(name)
            memory.refused[name] = Refused(memory.relief, reason, until)


def decided(session: Session) -> Decisions:
    state, queues, log = session.state, session.state.queues, session.log
    promises = [
        Promise(state.tasks.name(row), state.tasks.members[row].gang.name, state.nodes.names[node])
        for row, node in log.pipelines
        if state.tasks.status[row] == Status.PIPELINED and state.tasks.node[row] == node
    ]
    bound = [(row, node) for row, node in log.binds if state.tasks.status[row] == Status.BINDING]
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
        first.setdefault(state.tasks.members[row].gang.name, len(first))
    return sorted(pairs, key=lambda pair: first[state.tasks.members[pair[0]].gang.name])


def _bind(state: State, row: int, node: int) -> Bind:
    klass = state.tasks.klass[row]
    portion = klass.portion_on(int(state.nodes.gpu_memory[node])) if klass.shared else 0.0
    names = (state.tasks.name(row), state.tasks.members[row].gang.name, state.nodes.names[node])
    return Bind(*names, state.tasks.groups[row], portion, klass.gpu_wish, klass.demand.claims)


def _evictions(session: Session) -> list[Eviction]:
    """Each task that leaves, once; one that was put back in the end stays, one bound in this very cycle just waits
    again."""
    state, seen = session.state, set()
    found = []
    for row, (action, by) in zip(session.log.evictions, session.log.causes):
        gone = state.tasks.status[row] == Status.RELEASING or row in state.tasks.ghosts
        if gone and row not in seen and session.log.origin[row] != Status.PENDING:
            seen.add(row)
            gang = state.tasks.members[row].gang.name
            found.append(Eviction(state.tasks.name(row), gang, action, by, _WORDS[action].format(by=by)))
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
    state, outlook = session.state, Outlook(session)
    places: dict[str, list[str]] = {}
    for promise in promises:
        places.setdefault(promise.gang, []).append(promise.node)
    found: dict[str, Reason] = {}
    for name, gang in state.gangs.waiting.items():
        reason: Reason | None = None
        if name in places:
            reason = reserved(gang, places[name])
        elif (refused := session.refusals.reason(gang)) is not None:
            reason = _first_told(state, gang, in_context(session, outlook, gang, refused))
        elif name in session.skipped:
            reason = state.memory.refused[name].reason
        else:
            reason = not_asked(state, gang)
        if reason is not None:
            found[name] = reason
    return placed(session, found)


def _first_told(state: State, gang: GangRow, reason: Reason) -> Reason:
    """Who came first is seen in the cycle that served them: a look right after it does not unsay it."""
    before = state.memory.told(gang.name)
    behind = before is not None and before.code in ("BehindPriority", "BehindOrder")
    return before if before is not None and behind and reason.verdict == before.verdict else reason
