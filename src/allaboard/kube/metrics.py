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
