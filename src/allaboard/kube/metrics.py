"""What the loop counts, under the names controller-runtime made known (ruling 17)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter("controller_runtime_reconcile", "Passes over a key", ["controller", "result"])
ERRORS = Counter("controller_runtime_reconcile_errors", "Passes that failed", ["controller"])
SECONDS = Histogram("controller_runtime_reconcile_time_seconds", "Duration of a pass", ["controller"])
DEPTH = Gauge("workqueue_depth", "Keys that are due", ["name"])
ADDS = Counter("workqueue_adds", "Keys that became due", ["name"])
RETRIES = Counter("workqueue_retries", "Keys that came back after a failure", ["name"])
WRITES = Counter("aboard_writes", "Writes sent to the API server", ["controller", "verb"])


class Meter:
    """One controller's counters, looked up once: a look-up by labels costs more than counting."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._results: dict[str, Counter] = {}
        self._errors, self._seconds = ERRORS.labels(name), SECONDS.labels(name)
        self._depth, self._adds, self._retries = DEPTH.labels(name), ADDS.labels(name), RETRIES.labels(name)
        self._added = self._retried = 0

    def passed(self, result: str, seconds: float) -> None:
        """A pass over a key is over."""
        if result not in self._results:
            self._results[result] = RECONCILES.labels(self.name, result)
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()

    def queued(self, depth: int, adds: int, retries: int) -> None:
        """What the queue has counted so far."""
        self._depth.set(depth)
        self._adds.inc(adds - self._added)
        if retries != self._retried:
            self._retries.inc(retries - self._retried)
        self._added, self._retried = adds, retries
