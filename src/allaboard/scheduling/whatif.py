"""What if a job were submitted now: would it start, who would have to go, or what stands in its way; nothing is
changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from allaboard.scheduling.actions import OFFERS
from allaboard.scheduling.boarding import board
from allaboard.scheduling.context import in_context
from allaboard.scheduling.explain import not_asked
from allaboard.scheduling.facts import Gang, Status, Task
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.line import Outlook
from allaboard.scheduling.policy import Policy
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.selection import to_place
from allaboard.scheduling.session import Session
from allaboard.scheduling.solving import solver_for
from allaboard.scheduling.state import State
from allaboard.scheduling.statement import Statement

NAME = "what-if/"


@dataclass(frozen=True, slots=True)
class Answer:
    """`places` when it would start at once; `action`, `evicted` and `moved` when others must make room; else a
    reason."""

    places: tuple[tuple[str, str], ...] = ()
    action: str = ""
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    reason: Reason | None = None


def what_if(state: State, policy: Policy, gang: Gang, now: float) -> Answer:
    """Ask the rules about a gang that does not exist; whatever they try is taken back."""
    guest = _guest(gang, now)
    memory = state.memory
    state.memory = replace(memory, refused=dict(memory.refused))
    # Sums of shares that are added and taken away again end beside where they began, so they are put back.
    held, asked = state.queues.holdings(), [list(amounts) for amounts in state.queues.requested]
    state.put_gang(guest)
    try:
        return _answer(state, replace(policy, reserve_after=None), state.gangs[guest.name], now)
    finally:
        state.drop_gang(guest.name)
        state.nodes.tidy()
        state.queues.restore(held)
        state.queues.requested = asked
        # The order of gangs has heard of every change meanwhile, and is kept.
        memory.standing, state.memory = state.memory.standing, memory


def _guest(gang: Gang, now: float) -> Gang:
    """The gang under a name nobody has, with all its tasks pending."""
    tasks = tuple(_fresh(task) for task in gang.tasks)
    return replace(gang, name=NAME + gang.name, tasks=tasks, created=now, last_start=None, stale_since=None)


def _fresh(task: Task) -> Task:
    return replace(task, name=NAME + task.name, status=Status.PENDING, node="", gpu_groups=())


def _answer(state: State, policy: Policy, gang: GangRow, now: float) -> Answer:
    if (reason := not_asked(state, gang)) is not None:
        return Answer(reason=reason)
    session = Session(state, policy, now)
    with session.statement(gang) as statement:
        refusal = board(session, statement, gang, to_place(state, gang))
        if refusal is None:
            return Answer(_places(state, gang))
    for action, offer in OFFERS.items():
        if action not in policy.actions:
            continue
        session.action = action
        if (found := offer(session, gang)) is not None:
            statement_or_none = solver_for(session, gang, found).solve()
            if statement_or_none is not None:
                with statement_or_none as statement:
                    return _by_force(state, gang, action, statement)
    session.refusals.add(gang, refusal)
    reason = session.refusals.reason(gang)
    return Answer(reason=in_context(session, Outlook(session), gang, reason) if reason is not None else None)


def _places(state: State, gang: GangRow) -> tuple[tuple[str, str], ...]:
    """Tasks by the names their owner knows."""
    rows = sorted((row for row in gang.rows if state.tasks.node[row] >= 0), key=state.tasks.name)
    return tuple((state.tasks.name(row).removeprefix(NAME), state.nodes.names[state.tasks.node[row]]) for row in rows)


def _by_force(state: State, gang: GangRow, action: str, statement: Statement) -> Answer:
    others = {row for touched in statement.touched() if touched is not gang for row in touched.rows}
    evicted = sorted(
        state.tasks.name(row)
        for row in others
        if state.tasks.status[row] == Status.RELEASING and state.tasks.virtual[row]
    )
    moved = sorted(state.tasks.name(row) for row in others if row in state.tasks.ghosts)
    return Answer(_places(state, gang), action, tuple(evicted), tuple(moved))
