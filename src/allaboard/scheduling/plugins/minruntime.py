"""Work that has just started is left alone for a while: min-runtime of queues, by the queue just below the common
ancestor."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.scheduling.durations import seconds
from allaboard.scheduling.facts import Queue
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.queues import Queues


class MinRuntime:
    """`preempt` and `reclaim` are the defaults in seconds for queues that set nothing."""

    name = "minruntime"

    def __init__(self, preempt: str = "0", reclaim: str = "0", method: str = "lca") -> None:
        self.preempt, self.reclaim, self.method = seconds(preempt), seconds(reclaim), method
        if method not in ("lca", "queue"):
            raise ValueError(f'reclaimResolveMethod is "{method}"; must be lca or queue')

    def protected_until(self, queues: Queues, victim: GangRow, claimant: GangRow, action: str) -> float:
        """The moment until which the victim may not lose its minimum; 0 when it is not protected."""
        if victim.last_start is None or action not in ("preempt", "reclaim"):
            return 0.0
        rows: Sequence[int] = queues.path[victim.queue]
        if action == "reclaim" and self.method == "lca":
            rows = self._from_common(queues, rows, queues.path[claimant.queue])
        field, default = _FIELDS[action], getattr(self, action)
        runtime = _first([queues.facts[row] for row in rows], field)
        return victim.last_start + (default if runtime is None else runtime)

    def _from_common(self, queues: Queues, mine: Sequence[int], theirs: Sequence[int]) -> Sequence[int]:
        """Own ancestors from the child of the common one upwards."""
        shared = set(mine) & set(theirs)
        below = [row for row in mine if row not in shared]
        return mine[len(below) - 1 :] if below else mine


_FIELDS = {"preempt": "preempt_min_runtime", "reclaim": "reclaim_min_runtime"}


def _first(queues: Sequence[Queue], field: str) -> float | None:
    values: list[float | None] = [getattr(queue, field) for queue in queues]
    return next((value for value in values if value is not None), None)
