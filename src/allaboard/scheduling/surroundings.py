"""What gangs are placed among, as it comes and goes between cycles: nodes, queues, topologies, claims, and pods of
others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from allaboard.scheduling import accounts
from allaboard.scheduling.facts import Claim, Node, Queue, Status, Task, Topology
from allaboard.scheduling.nodes import Nodes, resources_of
from allaboard.scheduling.queues import Queues
from allaboard.scheduling.state import State
from allaboard.scheduling.tasks import NOWHERE, Place
from allaboard.scheduling.telling import world_of


def put_stranger(state: State, task: Task) -> None:
    drop_stranger(state, task.name)
    state.strangers.host(task, state.nodes, state.classes)
    state.memory.frame_changed(helps=False)


def drop_stranger(state: State, name: str) -> None:
    if state.strangers.dismiss(name, state.nodes, state.classes):
        state.memory.frame_changed()


def put_node(state: State, node: Node) -> None:
    """A known node changes in place; a new one lays the columns out anew, as rows are in name order."""
    row = state.nodes.index.get(node.name)
    if row is not None and state.nodes.facts[row] == node:
        return
    for name in resources_of(node):
        state.classes.add_resource(name)
    if row is not None:
        state.nodes.replace(row, node, state.classes.resources)
    else:
        _lay_out(state, (*state.nodes.facts, node))
    state.memory.frame_changed()


def drop_node(state: State, name: str) -> None:
    """Tasks that stood there are nowhere; the next facts about them tell the rest."""
    row = state.nodes.index.get(name)
    if row is None:
        return
    for task in state.strangers.on(name):
        drop_stranger(state, task.name)
    tasks = state.tasks
    for lost in [lost for lost, node in enumerate(tasks.node) if node == row and tasks.fact[lost] is not None]:
        accounts.enter(tasks, state.nodes, state.queues, lost, -1.0)
        state.nodes.vacate(row, tasks.klass[lost], tasks.status[lost], tasks.groups[lost])
        tasks.mark(lost, Place(NOWHERE, Status.UNKNOWN, ()))
        state.review(tasks.members[lost].gang)
    _lay_out(state, [node for node in state.nodes.facts if node.name != name])
    state.memory.frame_changed()


def _lay_out(state: State, facts: Sequence[Node]) -> None:
    """Columns for another set of nodes; what stands on those that stay is carried over."""
    old, new = state.nodes, Nodes(facts, state.classes.resources)
    moved = new.adopt(old)
    state.nodes = new
    state.tasks.node = [moved[row] if row >= 0 else row for row in state.tasks.node]


def put_queue(state: State, queue: Queue) -> None:
    """Known queues change in place as long as the tree stays as it is."""
    row = state.queues.index.get(queue.name)
    if row is not None and state.queues.facts[row] == queue:
        return
    if state.queues.replace(queue):
        state.memory.frame_changed()
    else:
        _queues_changed(state, _with(state.queues.given, queue))


def drop_queue(state: State, name: str) -> None:
    _queues_changed(state, _without(state.queues.given, name))


def _queues_changed(state: State, facts: Sequence[Queue]) -> None:
    """Another tree: what gangs hold and ask for is counted into it."""
    state.queues = Queues(facts)
    for gang in state.gangs.values():
        gang.queue = state.queues.row_of(gang.fact.queue)
        for row in gang.rows:
            accounts.enter(state.tasks, state.nodes, state.queues, row, 1.0)
    state.memory.standing = None
    state.memory.frame_changed()


def put_topology(state: State, topology: Topology) -> None:
    if state.topologies.get(topology.name) != topology:
        state.topologies[topology.name] = topology
        state.memory.frame_changed()


def drop_topology(state: State, name: str) -> None:
    if state.topologies.pop(name, None):
        state.memory.frame_changed()


def put_claim(state: State, claim: Claim) -> None:
    if state.classes.claims.get(claim.name) != claim:
        _rebuild(state, {**state.classes.claims, claim.name: claim})


def drop_claim(state: State, name: str) -> None:
    if name in state.classes.claims:
        _rebuild(state, {known: claim for known, claim in state.classes.claims.items() if known != name})


def recount(state: State) -> None:
    """A cycle that followed KAI to the letter left wrong sums behind, as KAI's snapshots do not outlive a cycle."""
    _rebuild(state, state.classes.claims)


def _rebuild(state: State, claims: dict[str, Claim]) -> None:
    """Classes hold their claims, so another claim means other classes."""
    before = state.memory
    state.__dict__.update(State.build(replace(world_of(state), claims=tuple(claims.values()))).__dict__)
    state.classes.grow = lambda: state.nodes.grow()
    state.memory.ledger = before.ledger  # what queues used before is no fact's to tell
    state.memory.version, state.memory.relief = state.memory.version + before.version + 1, before.relief + 1


def _with(queues: Sequence[Queue], queue: Queue) -> tuple[Queue, ...]:
    return (*_without(queues, queue.name), queue)


def _without(queues: Sequence[Queue], name: str) -> tuple[Queue, ...]:
    return tuple(queue for queue in queues if queue.name != name)
