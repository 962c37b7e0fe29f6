"""What tasks count in their queue: what they hold when allocated, what they ask for when pending."""

from __future__ import annotations

from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_ALLOCATED, GangRow
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.queues import Amounts, Queues
from allaboard.scheduling.tasks import Tasks


def held(tasks: Tasks, nodes: Nodes, row: int) -> Amounts:
    """What a task on a node counts in its queue."""
    klass = tasks.klass[row]
    return klass.accepted(int(nodes.gpu_memory[tasks.node[row]])) if klass.shared else klass.quota


def gpus_held(tasks: Tasks, nodes: Nodes, row: int) -> float:
    klass = tasks.klass[row]
    return klass.gpus_on(int(nodes.gpu_memory[tasks.node[row]])) if klass.shared else klass.gpu_wish


def enter(tasks: Tasks, nodes: Nodes, queues: Queues, row: int, sign: float) -> None:
    """A task begins to count as it stands (1), or ceases to (-1)."""
    gang, status = tasks.members[row].gang, tasks.status[row]
    if IS_ALLOCATED[status]:
        count(queues, gang, status, held(tasks, nodes, row), sign)
    elif status == Status.PENDING:
        count(queues, gang, status, tasks.klass[row].asked_quota(nodes.smallest_memory), sign)


def count(queues: Queues, gang: GangRow, status: Status, amounts: Amounts, times: float) -> None:
    """So many tasks of a gang that stand so, each with these amounts: whoever holds something also asks for it."""
    if gang.queue < 0:
        return
    if IS_ALLOCATED[status]:
        queues.count(gang.queue, amounts, times, preemptible=gang.preemptible)
        queues.request(gang.queue, amounts, times)
    elif status == Status.PENDING:
        queues.request(gang.queue, amounts, times)
