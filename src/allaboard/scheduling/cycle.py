"""A whole cycle: open a session, run the policy's actions, close it; the state keeps what was decided as assumed facts."""

from __future__ import annotations

from allaboard.scheduling.actions import ACTIONS
from allaboard.scheduling.decisions import Bind, Decisions, Eviction, Promise
from allaboard.scheduling.facts import Status
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State


def cycle(state: State, policy: Policy, now: float) -> Decisions:
    """Decide once. Binds stay in the state as BINDING, evictions as RELEASING; promises are taken back."""
    session = Session(state, policy, now)
    for action in policy.actions:
        session.action = action
        ACTIONS[action](session)
    decisions = decided(session)
    close(session)
    return decisions


def decided(session: Session) -> Decisions:
    state, queues = session.state, session.state.queues
    return Decisions(
        binds=tuple(_bind(state, row, node) for row, node in _by_gang(state, session.log.binds) if state.status[row] == Status.BINDING),
        evictions=tuple(_evictions(session)),
        pipelined=tuple(
            Promise(state.name(row), state.members[row].gang.name, state.nodes.names[node])
            for row, node in session.log.pipelines
            if state.status[row] == Status.PIPELINED and state.node[row] == node
        ),
        reasons=dict(session.reasons),
        fair_shares={name: (fair[0], fair[1], fair[2]) for name, fair in zip(queues.names, queues.fair)},
        started=tuple(session.started),
        stale=dict(session.stale),
        deadline=session.deadline,
    )


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
    """Each task that leaves, once; one that was put back in the end stays."""
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


def close(session: Session) -> None:
    """Take promises back (they are asked anew in the next cycle) and count binds and evictions as facts."""
    session.state.settle(session.log.origin, session.before)
